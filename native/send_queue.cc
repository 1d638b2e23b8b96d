#include "send_queue.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace broadsheet {

ChunkPool::~ChunkPool() {
  for (std::vector<uint8_t*>& chunks : free_) {
    for (uint8_t* chunk : chunks) std::free(chunk);
  }
}

uint8_t* ChunkPool::take(size_t want, uint32_t* capacity) {
  size_t which = 0;
  while (which < 2 && kSizes[which] < want) ++which;
  *capacity = static_cast<uint32_t>(kSizes[which]);
  std::vector<uint8_t*>& chunks = free_[which];
  if (chunks.empty()) {
    uint8_t* chunk = static_cast<uint8_t*>(std::malloc(kSizes[which]));
    if (chunk == nullptr) std::abort();
    return chunk;
  }
  uint8_t* chunk = chunks.back();
  chunks.pop_back();
  return chunk;
}

void ChunkPool::give(uint8_t* chunk, uint32_t capacity) {
  const size_t which = capacity == kSizes[0] ? 0 : capacity == kSizes[1] ? 1 : 2;
  if ((free_[which].size() + 1) * kSizes[which] > kKeptBytes) {
    std::free(chunk);
  } else {
    free_[which].push_back(chunk);
  }
}

void ReadAhead::run() {
  static_cast<void>(file->will_need(position, kHint).ok());
  status = file->pread_some(data.get(), length, position, &got);
}

void SendQueue::append(SendContext& context, const uint8_t* bytes, size_t length) {
  bytes_ += static_cast<int64_t>(length);
  memory_bytes_ += static_cast<int64_t>(length);
  context.stats.queued += static_cast<int64_t>(length);
  while (length > 0) {
    Item* last = empty() ? nullptr : &items_.back();
    if (last == nullptr || last->capacity == 0 || last->end == last->capacity) {
      Item item;
      item.data = context.chunks.take(std::max(length, static_cast<size_t>(memory_bytes_)), &item.capacity);
      items_.push_back(std::move(item));
      last = &items_.back();
    }
    const size_t part = std::min<size_t>(length, last->capacity - last->end);
    std::memcpy(last->data + last->end, bytes, part);
    last->end += static_cast<uint32_t>(part);
    bytes += part;
    length -= part;
  }
}

void SendQueue::append(SendContext& context, std::shared_ptr<File> file, int64_t position, int64_t length) {
  if (length <= 0) return;
  bytes_ += length;
  context.stats.queued += length;
  Item item;
  item.file = std::move(file);
  item.position = position;
  item.length = length;
  items_.push_back(std::move(item));
}

SendOutcome SendQueue::flush(SendContext& context, int socket, int64_t copy_up_to) {
  size_t sent = 0;
  warm_ = 0;
  while (!empty()) {
    if (sent >= kTickBytes) return SendOutcome::kBudget;
    if (reading_ != nullptr) {
      if (!reading_->finished) return SendOutcome::kCold;
      if (!insert_read()) return SendOutcome::kFailed;
    }
    const Item& first = items_[head_];
    const SendOutcome outcome = first.data == nullptr && first.length > copy_up_to
                                    ? send_range(context, socket, &sent)
                                    : send_gathered(context, socket, copy_up_to, &sent);
    if (outcome != SendOutcome::kEmpty) return outcome;
  }
  return SendOutcome::kEmpty;
}

// One sendfile call for the range at the front. kEmpty: go on.
SendOutcome SendQueue::send_range(SendContext& context, int socket, size_t* sent) {
  Item& item = items_[head_];
  if (warm_ == 0) {
    // A tick's share at once; a shorter piece only where a part of it is cold.
    for (const size_t piece : {kTickBytes, ReadAhead::kBytes}) {
      const int64_t length = std::min<int64_t>(item.length, static_cast<int64_t>(piece));
      if (!item.file->resident(item.position, length)) continue;
      warm_ = length;
      break;
    }
    if (warm_ == 0) {
      start_read(item);
      return SendOutcome::kCold;
    }
  }
  const size_t length = static_cast<size_t>(warm_);
  size_t left = 0;
  bool would_block = false;
  const Status status = item.file->send_to(socket, item.position, length, &left, &would_block);
  if (!status.ok()) {
    const int error = status.error_number;
    return error == EPIPE || error == ECONNRESET ? SendOutcome::kReset : SendOutcome::kFailed;
  }
  if (would_block) return SendOutcome::kBlocked;
  *sent += left;
  warm_ -= static_cast<int64_t>(left);
  consume(context, left, true);
  // The socket is full; or the file ends here, which the next call tells.
  return left < length ? SendOutcome::kBlocked : SendOutcome::kEmpty;
}

// One sendmsg for all that is at the front and in memory, or comes there through the scratch.
SendOutcome SendQueue::send_gathered(SendContext& context, int socket, int64_t copy_up_to, size_t* sent) {
  constexpr size_t kParts = 64;
  iovec parts[kParts];
  size_t count = 0;
  size_t gathered = 0;
  size_t scratch_used = 0;
  bool more = false;
  for (size_t i = head_; i < items_.size() && count < kParts && gathered < kTickBytes; ++i) {
    const Item& item = items_[i];
    if (item.data != nullptr) {
      parts[count++] = {item.data + item.begin, item.end - item.begin};
      gathered += item.end - item.begin;
      continue;
    }
    if (item.length > copy_up_to) {
      // The range follows at once: its first bytes may share a packet with these.
      more = true;
      break;
    }
    const size_t room = std::min(SendContext::kScratchBytes, copy_quota_) - scratch_used;
    const size_t length = std::min(room, static_cast<size_t>(item.length));
    if (length == 0) break;
    if (context.scratch == nullptr) context.scratch.reset(new uint8_t[SendContext::kScratchBytes]);
    size_t got = 0;
    const Status status = item.file->read_cached(context.scratch.get() + scratch_used, length, item.position, &got);
    if (got > 0) {
      parts[count++] = {context.scratch.get() + scratch_used, got};
      gathered += got;
      scratch_used += got;
    }
    if (got < length || static_cast<int64_t>(length) < item.length) {
      if (count > 0) break;
      if (status.code != Code::kCold) return SendOutcome::kFailed;  // ends early, or cannot be read
      start_read(item);
      return SendOutcome::kCold;
    }
  }
  assert(count > 0);
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  ssize_t n;
  do {
    n = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM) n = 0;
    else return errno == EPIPE || errno == ECONNRESET ? SendOutcome::kReset : SendOutcome::kFailed;
  }
  const size_t left = static_cast<size_t>(n);
  if (scratch_used > 0) {
    copy_quota_ = left < gathered ? std::max<size_t>(left + left / 4, 64 * 1024)
                                  : std::min(copy_quota_ * 2, SendContext::kScratchBytes);
  }
  *sent += left;
  consume(context, left, false);
  return left < gathered ? SendOutcome::kBlocked : SendOutcome::kEmpty;
}

void SendQueue::start_read(const Item& item) {
  reading_ = std::make_shared<ReadAhead>();
  reading_->file = item.file;
  reading_->position = item.position;
  reading_->length = static_cast<size_t>(std::min<int64_t>(item.length, ReadAhead::kBytes));
  reading_->data.reset(new uint8_t[reading_->length]);
  read_taken_ = false;
}

std::shared_ptr<ReadAhead> SendQueue::take_read_ahead() {
  if (reading_ == nullptr || read_taken_) return nullptr;
  read_taken_ = true;
  return reading_;
}

// Puts what was read in front of the rest of its range. False when there was nothing to read.
bool SendQueue::insert_read() {
  const std::shared_ptr<ReadAhead> read = std::move(reading_);
  reading_ = nullptr;
  if (!read->status.ok() || read->got == 0) return false;
  Item& range = items_[head_];
  assert(range.data == nullptr && range.position == read->position);
  Item bytes;
  bytes.data = read->data.get();
  bytes.end = static_cast<uint32_t>(read->got);
  bytes.read_ahead = read;
  memory_bytes_ += static_cast<int64_t>(read->got);
  range.position += static_cast<int64_t>(read->got);
  range.length -= static_cast<int64_t>(read->got);
  if (range.length == 0) {
    range = std::move(bytes);
  } else {
    items_.insert(items_.begin() + static_cast<ptrdiff_t>(head_), std::move(bytes));
  }
  return true;
}

void SendQueue::release(SendContext& context, Item& item) {
  if (item.capacity > 0) context.chunks.give(item.data, item.capacity);
  item = Item();
}

void SendQueue::consume(SendContext& context, size_t sent, bool by_sendfile) {
  bytes_ -= static_cast<int64_t>(sent);
  context.stats.queued -= static_cast<int64_t>(sent);
  context.stats.sent += sent;
  while (sent > 0) {
    Item& item = items_[head_];
    size_t part;
    bool done;
    if (item.data != nullptr) {
      part = std::min<size_t>(sent, item.end - item.begin);
      item.begin += static_cast<uint32_t>(part);
      memory_bytes_ -= static_cast<int64_t>(part);
      if (item.read_ahead != nullptr) context.stats.by_copy += part;
      done = item.begin == item.end;
    } else {
      part = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(sent), item.length));
      item.position += static_cast<int64_t>(part);
      item.length -= static_cast<int64_t>(part);
      (by_sendfile ? context.stats.by_sendfile : context.stats.by_copy) += part;
      done = item.length == 0;
    }
    sent -= part;
    if (done) {
      release(context, item);
      ++head_;
    }
  }
  if (empty()) {
    items_.clear();
    head_ = 0;
    if (items_.capacity() > 64) items_.shrink_to_fit();
  } else if (head_ >= 64 && head_ * 2 >= items_.size()) {
    items_.erase(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(head_));
    head_ = 0;
  }
}

void SendQueue::clear(SendContext& context) {
  for (size_t i = head_; i < items_.size(); ++i) release(context, items_[i]);
  std::vector<Item>().swap(items_);
  head_ = 0;
  context.stats.queued -= bytes_;
  bytes_ = 0;
  memory_bytes_ = 0;
  reading_ = nullptr;
  copy_quota_ = SendContext::kScratchBytes;
}

}  // namespace broadsheet
