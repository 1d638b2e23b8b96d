// Memory for frames that do not end in the tick in which they began. Sizes are powers of two; what comes back is kept, so
// that steady traffic of large frames allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace broadsheet {

// Where the memory comes from: JavaScript sees it as number `index` of its array of buffers, the slab being number 0.
struct FrameBuffer {
  uint8_t* data = nullptr;
  size_t capacity = 0;
  int index = -1;
};

class FrameMemory {
 public:
  virtual ~FrameMemory() = default;
  // data is null when there is no memory to be had.
  virtual FrameBuffer allocate(size_t capacity) = 0;
  virtual void release(int index) = 0;
};

class FrameBuffers {
 public:
  static constexpr int kSmallest = 14;  // 16 KiB
  static constexpr int kLargest = 31;
  static constexpr size_t kKeptBytes = 64 << 20;

  explicit FrameBuffers(FrameMemory& memory) : memory_(memory) {}
  // Capacity of at least `want`; data is null when there is no memory.
  FrameBuffer take(size_t want);
  // The same of what is kept; data is null when nothing is.
  FrameBuffer take_kept(size_t want);
  void give(FrameBuffer buffer);
  // Gives up what was not needed since the last trim.
  void trim();
  // How many were not to be had from what is kept, since the start.
  uint64_t allocated() const { return allocated_; }

 private:
  struct Class {
    std::vector<FrameBuffer> free;
    size_t least = 0;  // the fewest that were free since the last trim
  };
  static int class_of(size_t bytes);

  FrameMemory& memory_;
  Class classes_[kLargest - kSmallest + 1];
  size_t kept_ = 0;
  uint64_t allocated_ = 0;
};

}  // namespace broadsheet
