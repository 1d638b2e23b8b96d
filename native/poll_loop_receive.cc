// The receiving half of PollLoop: from the socket to the borders of frames.
//
// Three places for a frame's bytes. Those that arrive whole lie in the slab. A short piece (up to kHeadBytes) is kept
// by its connection and put in front of the next bytes in the slab. A longer piece lies in a frame buffer, into which
// the rest is received directly; that buffer grows with what arrived, never with what the peer said it would send.
// Behind a large frame another one is likely: what follows is received into a frame buffer at once, if one is free, and
// stays there, so that a stream of large frames is not copied from the slab.
#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "poll_loop.h"

namespace broadsheet {
namespace {

constexpr size_t kHeadBytes = 4096;
constexpr size_t kBadFrameBytes = 64;
constexpr size_t kLargeFrameBytes = 256 << 10;
// A buffer may have so many times the bytes that arrived for it.
constexpr size_t kGrowth = 4;

int32_t frame_length(const uint8_t* at) {
  return static_cast<int32_t>(static_cast<uint32_t>(at[0]) << 24 | static_cast<uint32_t>(at[1]) << 16 |
                              static_cast<uint32_t>(at[2]) << 8 | static_cast<uint32_t>(at[3]));
}

}  // namespace

void PollLoop::receive(Connection& connection) {
  frames_left_ = kConnectionFrames;
  if (connection.backlog) {
    connection.backlog = false;
    const size_t taken =
        take_frames(connection, connection.carry.index, connection.carry.data, connection.begin, connection.end);
    stats_.partial -= static_cast<int64_t>(taken - connection.begin);
    connection.begin = taken;
    if (connection.backlog) again_.push_back(connection.id);
    else unsettled_.push_back(connection.id);
    return;
  }
  if (connection.carry.data != nullptr) receive_into_carry(connection);
  else receive_fresh(connection);
}

// True when n bytes came; else the connection may be gone.
bool PollLoop::received(Connection& connection, ssize_t n, int error) {
  if (n > 0) {
    connection.active_ms = now_ms_;
    stats_.received += static_cast<uint64_t>(n);
    tick_received_ += static_cast<size_t>(n);
    return true;
  }
  if (n == 0) {
    connection.ended = true;
    update_interest(connection);
    emit(SocketEvent::kEnded, connection.id, 0, 0, 0);
    return false;
  }
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS || error == ENOMEM) return false;
  const bool reset = error == ECONNRESET || error == EPIPE || error == ETIMEDOUT;
  close(connection, reset ? CloseReason::kReset : CloseReason::kError);
  return false;
}

// For up to kConnectionBytes with the `before` that are received elsewhere.
PollLoop::Room PollLoop::room_behind(const Connection& connection, size_t before) {
  const size_t most = kConnectionBytes - before;
  if (connection.last_frame >= kLargeFrameBytes && most > 0) {
    const FrameBuffer buffer = buffers_.take_kept(connection.last_frame);
    if (buffer.data != nullptr) return {buffer, buffer.data, std::min(most, buffer.capacity)};
  }
  return {{}, slab_ + slab_used_, std::min(most, kSlabBytes - slab_used_)};
}

// What was received there: frames are handed out, a piece is kept.
void PollLoop::take_in(Connection& connection, const Room& room, size_t length) {
  const bool in_slab = room.buffer.data == nullptr;
  const size_t from = in_slab ? slab_used_ : 0;
  uint8_t* const base = in_slab ? slab_ : room.data;
  const size_t end = from + length;
  const size_t taken = take_frames(connection, in_slab ? 0 : room.buffer.index, base, from, end);
  const size_t left = end - taken;
  if (in_slab) {
    slab_used_ = taken;
  } else if (left == length && !connection.backlog && left >= room.buffer.capacity / kGrowth) {
    connection.carry = room.buffer;
    connection.begin = 0;
    connection.end = left;
    stats_.partial += static_cast<int64_t>(left);
    return;
  }
  if (left > 0 && !connection.refused) keep(connection, base + taken, left);
  if (in_slab) return;
  if (left == length) buffers_.give(room.buffer);
  else lent_.push_back(room.buffer);
}

void PollLoop::receive_fresh(Connection& connection) {
  const size_t kept = connection.head.size();
  const Room room = room_behind(connection, 0);
  if (kept > 0) std::memcpy(room.data, connection.head.data(), kept);
  const ssize_t n = ::recv(connection.fd, room.data + kept, room.size - kept, MSG_DONTWAIT);
  if (!received(connection, n, errno)) {
    if (room.buffer.data != nullptr) buffers_.give(room.buffer);
    return;
  }
  stats_.partial -= static_cast<int64_t>(kept);
  connection.head.clear();
  if (connection.head.capacity() > 512) connection.head.shrink_to_fit();
  take_in(connection, room, kept + static_cast<size_t>(n));
}

// Hands out the whole frames in [from, to) of a buffer; where they end. Stops at a bound with backlog set, and at a bad
// frame with the connection refused.
size_t PollLoop::take_frames(Connection& connection, int buffer, const uint8_t* data, size_t from, size_t to) {
  while (to - from >= 4) {
    const int32_t length = frame_length(data + from);
    const bool bad = length <= 0 || static_cast<size_t>(length) > options_.max_frame_bytes;
    if (!bad && to - from - 4 < static_cast<size_t>(length)) break;
    if (frames_left_ == 0 || event_count_ >= kEvents || !late_.empty()) {
      connection.backlog = true;
      break;
    }
    --frames_left_;
    if (bad) {
      const size_t shown = std::min(to - from, kBadFrameBytes);
      emit(SocketEvent::kBadFrame, connection.id, buffer, static_cast<double>(from), static_cast<double>(from + shown));
      connection.refused = true;
      refused_.push_back(connection.id);
      update_interest(connection);
      return from + shown;
    }
    const size_t end = from + 4 + static_cast<size_t>(length);
    connection.last_frame = end - from;
    emit(SocketEvent::kFrame, connection.id, buffer, static_cast<double>(from + 4), static_cast<double>(end));
    from = end;
  }
  return from;
}

// Keeps what is left of the slab's bytes until the next tick: one piece of a frame, or a backlog of whole ones.
void PollLoop::keep(Connection& connection, const uint8_t* bytes, size_t length) {
  stats_.partial += static_cast<int64_t>(length);
  if (!connection.backlog && length <= kHeadBytes) {
    connection.head.assign(bytes, bytes + length);
    return;
  }
  size_t want = length;
  if (!connection.backlog) want = std::min(4 + static_cast<size_t>(frame_length(bytes)), kGrowth * length);
  connection.carry = buffers_.take(want);
  if (connection.carry.data == nullptr) {
    stats_.partial -= static_cast<int64_t>(length);
    close(connection, CloseReason::kError);
    return;
  }
  std::memcpy(connection.carry.data, bytes, length);
  connection.begin = 0;
  connection.end = length;
  if (connection.backlog) {
    again_.push_back(connection.id);
    update_interest(connection);
  }
}

void PollLoop::receive_into_carry(Connection& connection) {
  assert(connection.begin == 0 && connection.end >= 4);
  const size_t total = 4 + static_cast<size_t>(frame_length(connection.carry.data));
  if (connection.end == connection.carry.capacity) {
    const FrameBuffer larger = buffers_.take(std::min(total, kGrowth * connection.end));
    if (larger.data == nullptr) {
      close(connection, CloseReason::kError);
      return;
    }
    std::memcpy(larger.data, connection.carry.data, connection.end);
    buffers_.give(connection.carry);
    connection.carry = larger;
  }
  // The rest of the frame into the buffer; what follows it elsewhere.
  iovec parts[2];
  const size_t rest = std::min({total, connection.carry.capacity, connection.end + kConnectionBytes}) - connection.end;
  const bool whole = connection.end + rest == total;
  parts[0] = {connection.carry.data + connection.end, rest};
  if (whole) connection.last_frame = total;
  const Room room = whole ? room_behind(connection, rest) : Room{};
  parts[1] = {room.data, room.size};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = room.size > 0 ? 2 : 1;
  const ssize_t n = ::recvmsg(connection.fd, &message, MSG_DONTWAIT);
  const int error = errno;
  const size_t behind = n > static_cast<ssize_t>(rest) ? static_cast<size_t>(n) - rest : 0;
  if (behind == 0 && room.buffer.data != nullptr) buffers_.give(room.buffer);
  if (!received(connection, n, error)) return;

  const size_t filled = static_cast<size_t>(n) - behind;
  connection.end += filled;
  stats_.partial += static_cast<int64_t>(filled);
  if (connection.end < total) return;
  stats_.partial -= static_cast<int64_t>(total);
  --frames_left_;
  emit(SocketEvent::kFrame, connection.id, connection.carry.index, 4, static_cast<double>(total));
  lend(connection);
  if (behind > 0) take_in(connection, room, behind);
}

// When the tick that took a backlog's last frame is over: what is left is a piece of one frame.
void PollLoop::settle(Connection& connection) {
  if (connection.carry.data == nullptr || connection.backlog) return;
  const size_t left = connection.end - connection.begin;
  stats_.partial -= static_cast<int64_t>(left);
  const FrameBuffer old = connection.carry;
  const uint8_t* const bytes = old.data + connection.begin;
  connection.carry = FrameBuffer();
  connection.begin = connection.end = 0;
  if (left > 0 && !connection.refused) keep(connection, bytes, left);
  buffers_.give(old);
  if (connection.fd >= 0) update_interest(connection);
}

// Frames of this tick may lie in the buffer: it comes back at the tick's end.
void PollLoop::lend(Connection& connection) {
  if (connection.carry.data != nullptr) lent_.push_back(connection.carry);
  connection.carry = FrameBuffer();
  connection.begin = connection.end = 0;
}

}  // namespace broadsheet
