#include "frame_buffers.h"

#include <algorithm>
#include <cassert>

namespace broadsheet {

int FrameBuffers::class_of(size_t bytes) {
  int bits = kSmallest;
  while ((size_t{1} << bits) < bytes) ++bits;
  assert(bits <= kLargest);
  return bits - kSmallest;
}

FrameBuffer FrameBuffers::take(size_t want) {
  const FrameBuffer kept = take_kept(want);
  if (kept.data != nullptr) return kept;
  ++allocated_;
  return memory_.allocate(size_t{1} << (class_of(want) + kSmallest));
}

FrameBuffer FrameBuffers::take_kept(size_t want) {
  Class& own = classes_[class_of(want)];
  if (own.free.empty()) return {};
  const FrameBuffer buffer = own.free.back();
  own.free.pop_back();
  own.least = std::min(own.least, own.free.size());
  kept_ -= buffer.capacity;
  return buffer;
}

void FrameBuffers::give(FrameBuffer buffer) {
  if (kept_ + buffer.capacity > kKeptBytes) {
    memory_.release(buffer.index);
    return;
  }
  kept_ += buffer.capacity;
  classes_[class_of(buffer.capacity)].free.push_back(buffer);
}

void FrameBuffers::trim() {
  for (Class& own : classes_) {
    // The ones at the front were idle longest.
    for (size_t i = 0; i < own.least; ++i) {
      kept_ -= own.free[i].capacity;
      memory_.release(own.free[i].index);
    }
    own.free.erase(own.free.begin(), own.free.begin() + static_cast<ptrdiff_t>(own.least));
    own.least = own.free.size();
  }
}

}  // namespace broadsheet
