// What waits to leave on one connection: encoded bytes, copied into pooled chunks, and ranges of files, which cost
// nothing until the socket takes them.
//
// Two ways for a range: sendfile(2), or read into a warm scratch and sent together with its neighbours. Neither waits for
// a disk: a cold piece is read by an I/O thread into memory of its own (ReadAhead), then sent from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "file.h"
#include "status.h"

namespace broadsheet {

// Chunks of three sizes; free ones are kept up to a bound. One per loop.
class ChunkPool {
 public:
  static constexpr size_t kSizes[] = {4096, 32768, 262144};
  ~ChunkPool();
  // The smallest chunk of at least `want` bytes, or the largest there is. *capacity is its size.
  uint8_t* take(size_t want, uint32_t* capacity);
  void give(uint8_t* chunk, uint32_t capacity);

 private:
  static constexpr size_t kKeptBytes = 4 << 20;  // of each size
  std::vector<uint8_t*> free_[3];
};

// A cold piece of a file on its way into memory. run() belongs to an I/O thread; all else to the loop's.
struct ReadAhead {
  static constexpr size_t kBytes = 256 * 1024;
  // How far ahead of the piece the kernel is asked to read.
  static constexpr int64_t kHint = 2 << 20;

  std::shared_ptr<File> file;
  int64_t position = 0;
  size_t length = 0;
  std::unique_ptr<uint8_t[]> data;
  size_t got = 0;
  Status status;
  bool finished = false;  // set on the loop's thread

  void run();
};

struct SendStats {
  uint64_t sent = 0;
  uint64_t by_sendfile = 0;
  uint64_t by_copy = 0;  // bytes of ranges that went through memory
  int64_t queued = 0;    // over all connections
};

// What the queues of one loop share.
struct SendContext {
  static constexpr size_t kScratchBytes = 1 << 20;
  ChunkPool chunks;
  std::unique_ptr<uint8_t[]> scratch;  // made when first needed
  SendStats stats;
};

enum class SendOutcome {
  kEmpty,    // all left
  kBlocked,  // the socket is full
  kBudget,   // it took what one tick may send, and would take more
  kCold,     // waits for take_read_ahead(), or for the one that was taken
  kReset,    // the peer is gone
  kFailed,   // the file is shorter than promised or unreadable, or the socket failed
};

class SendQueue {
 public:
  static constexpr size_t kTickBytes = 1 << 20;

  void append(SendContext& context, const uint8_t* bytes, size_t length);
  void append(SendContext& context, std::shared_ptr<File> file, int64_t position, int64_t length);

  // Sends up to a tick's share. Of a range, what is left goes by sendfile when it is longer than copy_up_to bytes.
  SendOutcome flush(SendContext& context, int socket, int64_t copy_up_to);
  // The read that must be run before flush() goes on; null when it runs already.
  std::shared_ptr<ReadAhead> take_read_ahead();

  void clear(SendContext& context);
  bool empty() const { return head_ == items_.size(); }
  // Bytes that wait, ranges included; and of those, the ones held in memory.
  int64_t bytes() const { return bytes_; }
  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  struct Item {
    uint8_t* data = nullptr;  // null: a range of file
    uint32_t capacity = 0;    // of a pooled chunk; 0: memory of read_ahead
    uint32_t begin = 0, end = 0;
    std::shared_ptr<File> file;
    std::shared_ptr<ReadAhead> read_ahead;
    int64_t position = 0, length = 0;
  };

  SendOutcome send_range(SendContext& context, int socket, size_t* sent);
  SendOutcome send_gathered(SendContext& context, int socket, int64_t copy_up_to, size_t* sent);
  void start_read(const Item& item);
  bool insert_read();
  void release(SendContext& context, Item& item);
  void consume(SendContext& context, size_t sent, bool by_sendfile);

  std::vector<Item> items_;
  size_t head_ = 0;
  int64_t bytes_ = 0;
  int64_t memory_bytes_ = 0;
  // What to read into the scratch for one sendmsg: follows what the socket takes, so that a slow peer's bytes are not
  // read again and again.
  size_t copy_quota_ = SendContext::kScratchBytes;
  // Of the range in front, found in the page cache by this flush() and not yet sent.
  int64_t warm_ = 0;
  std::shared_ptr<ReadAhead> reading_;
  bool read_taken_ = false;
};

}  // namespace broadsheet
