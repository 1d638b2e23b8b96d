#include "poll_loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace broadsheet {
namespace {

// A connection's id is generation * 2^20 + slot: below 2^53, and never the same twice.
constexpr int kSlotBits = 20;
constexpr size_t kMaxConnections = size_t{1} << kSlotBits;
constexpr uint64_t kWakeToken = ~uint64_t{0};
constexpr uint64_t kListenerBit = uint64_t{1} << 63;
constexpr int kPollEvents = 512;
// An answer may be larger than the bound on what is queued. This much more in memory is a peer that takes no answer while
// its requests are answered, which held reads make impossible unless the owner sends by itself.
constexpr int64_t kOverflowBytes = 64 << 20;

// For a short range sendfile saves less than its own system calls cost (docs/benchmarks/send-path.md).
constexpr int64_t kCopyBytes = 32 * 1024;

int64_t copied_up_to(FetchPath path) {
  switch (path) {
    case FetchPath::kAuto:
      return kCopyBytes;
    case FetchPath::kSendfile:
      return 0;
    case FetchPath::kCopy:
      break;
  }
  return INT64_MAX;
}

uint64_t listener_token(int listener, int socket) {
  return kListenerBit | (static_cast<uint64_t>(listener) << 32) | static_cast<uint32_t>(socket);
}

int64_t monotonic_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

}  // namespace

PollLoop::PollLoop(const LoopOptions& options, LoopHost& host, uint8_t* slab, EventRecord* events)
    : options_(options), copy_up_to_(copied_up_to(options.fetch_path)), host_(host), buffers_(host), slab_(slab), events_(events) {}

Status PollLoop::create(const LoopOptions& options, LoopHost& host, uint8_t* slab, EventRecord* events,
                        std::unique_ptr<PollLoop>* out) {
  std::unique_ptr<PollLoop> loop(new PollLoop(options, host, slab, events));
  loop->epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (loop->epoll_ < 0) return Status::FromErrno(errno, "make an epoll set");
  loop->wake_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (loop->wake_ < 0) return Status::FromErrno(errno, "make an eventfd");
  epoll_event event{EPOLLIN, {.u64 = kWakeToken}};
  if (::epoll_ctl(loop->epoll_, EPOLL_CTL_ADD, loop->wake_, &event) != 0) {
    return Status::FromErrno(errno, "watch an eventfd");
  }
  loop->now_ms_ = monotonic_ms();
  *out = std::move(loop);
  return Status::Ok();
}

PollLoop::~PollLoop() {
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection->fd < 0) continue;
    connection->queue.clear(sending_);
    ::close(connection->fd);
  }
  for (const Listener& listener : listeners_) {
    for (const int fd : listener.sockets) ::close(fd);
  }
  if (wake_ >= 0) ::close(wake_);
  if (epoll_ >= 0) ::close(epoll_);
}

void PollLoop::wake() {
  if (awake_) return;
  awake_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_, &one, sizeof(one));
}

// ---- the tick

size_t PollLoop::collect() {
  collecting_ = true;
  event_count_ = 0;
  slab_used_ = 0;
  tick_received_ = 0;
  now_ms_ = monotonic_ms();
  for (const double id : unsettled_) {
    Connection* connection = find(id);
    if (connection != nullptr) settle(*connection);
  }
  unsettled_.clear();
  while (!late_.empty() && event_count_ < kEvents) {
    events_[event_count_++] = late_.front();
    late_.pop_front();
  }

  epoll_event polled[kPollEvents];
  const int count = ::epoll_wait(epoll_, polled, kPollEvents, 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t token = polled[i].data.u64;
    const uint32_t events = polled[i].events;
    if (token == kWakeToken) {
      uint64_t value;
      [[maybe_unused]] const ssize_t n = ::read(wake_, &value, sizeof(value));
      awake_ = false;
      continue;
    }
    if ((token & kListenerBit) != 0) {
      accept_burst(static_cast<int>((token >> 32) & 0x7fffffff), static_cast<int>(token & 0xffffffff));
      continue;
    }
    Connection* connection = find(static_cast<double>(token));
    if (connection == nullptr) continue;
    if ((events & (EPOLLERR | EPOLLHUP)) != 0 && !may_read(*connection)) {
      close(*connection, CloseReason::kReset);
      continue;
    }
    if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 && may_read(*connection)) mark_ready(*connection);
    if ((events & EPOLLOUT) != 0) mark_dirty(*connection);
  }

  // Each once, those that waited longest first; whoever is not reached stays in front.
  for (size_t left = ready_.size(); left > 0; --left) {
    if (tick_received_ >= kSlabBytes || kSlabBytes - slab_used_ < kConnectionBytes / 16 || event_count_ >= kEvents) break;
    Connection* connection = find(ready_.front());
    ready_.pop_front();
    if (connection == nullptr) continue;
    connection->ready = false;
    if (may_read(*connection)) receive(*connection);
  }
  for (const double id : again_) {
    Connection* connection = find(id);
    if (connection != nullptr) mark_ready(*connection);
  }
  again_.clear();
  if (!ready_.empty() || !late_.empty()) wake();
  collecting_ = false;
  return event_count_;
}

void PollLoop::finish() {
  for (const double id : refused_) {
    Connection* connection = find(id);
    if (connection != nullptr) drain(*connection, CloseReason::kBadFrame);
  }
  refused_.clear();
  flush();
  // Nobody looks at this tick's frames any more.
  if (!unsettled_.empty()) wake();
  for (const FrameBuffer& buffer : lent_) buffers_.give(buffer);
  lent_.clear();
}

void PollLoop::emit(SocketEvent kind, double connection, double buffer, double start, double end) {
  const EventRecord record{static_cast<double>(kind), connection, buffer, start, end};
  if (collecting_ && event_count_ < kEvents && late_.empty()) {
    events_[event_count_++] = record;
  } else {
    late_.push_back(record);
    wake();
  }
}

// ---- listening

Status PollLoop::listen(const std::string& host, int port, int* listener, int* bound_port) {
  Listener entry;
  Status status = open_listeners(host, port, options_.sockets, &entry.sockets, bound_port);
  if (!status.ok()) return status;
  const int index = static_cast<int>(listeners_.size());
  for (const int fd : entry.sockets) {
    epoll_event event{EPOLLIN, {.u64 = listener_token(index, fd)}};
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
      status = Status::FromErrno(errno, "watch a listening socket");
      for (const int each : entry.sockets) ::close(each);
      return status;
    }
  }
  listeners_.push_back(std::move(entry));
  *listener = index;
  return Status::Ok();
}

void PollLoop::listen_interest(const Listener& listener, int index) {
  for (const int fd : listener.sockets) {
    const uint32_t wanted = listener.accepting && !listener.starved ? static_cast<uint32_t>(EPOLLIN) : 0u;
    epoll_event event{wanted, {.u64 = listener_token(index, fd)}};
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
  }
}

void PollLoop::set_accepting(int listener, bool accepting) {
  if (listener < 0 || static_cast<size_t>(listener) >= listeners_.size()) return;
  listeners_[listener].accepting = accepting;
  listen_interest(listeners_[listener], listener);
}

void PollLoop::close_listener(int listener) {
  if (listener < 0 || static_cast<size_t>(listener) >= listeners_.size()) return;
  for (const int fd : listeners_[listener].sockets) ::close(fd);
  listeners_[listener].sockets.clear();
}

void PollLoop::resume_accepting() {
  for (size_t i = 0; i < listeners_.size(); ++i) {
    if (!listeners_[i].starved) continue;
    listeners_[i].starved = false;
    listen_interest(listeners_[i], static_cast<int>(i));
  }
}

void PollLoop::accept_burst(int index, int socket) {
  if (static_cast<size_t>(index) >= listeners_.size()) return;
  Listener& listener = listeners_[index];
  if (std::find(listener.sockets.begin(), listener.sockets.end(), socket) == listener.sockets.end()) return;
  if (!listener.accepting || listener.starved) return;
  for (int i = 0; i < kAcceptBurst; ++i) {
    SocketAddress remote{};
    socklen_t length = sizeof(remote);
    const int fd = ::accept4(socket, &remote.any, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      add(index, fd, remote);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      listener.reported = false;
      return;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The queue stays readable: without a pause this would be a busy loop.
      listener.starved = true;
      listen_interest(listener, index);
      emit(SocketEvent::kAcceptFailed, index, listener.reported ? 0 : 1, errno, 0);
      listener.reported = true;
      return;
    }
    // The connection died in the queue (ECONNABORTED and the like): on to the next.
  }
}

// ---- connections

PollLoop::Connection* PollLoop::find(double id) {
  if (!(id >= 0 && id <= 9007199254740991.0)) return nullptr;
  const size_t slot = static_cast<uint64_t>(id) & (kMaxConnections - 1);
  if (slot >= connections_.size()) return nullptr;
  Connection* connection = connections_[slot].get();
  return connection->fd >= 0 && connection->id == id ? connection : nullptr;
}

void PollLoop::add(int listener, int fd, const SocketAddress& remote) {
  size_t slot;
  // The oldest free slot, and not at once: a slot lives longer that way.
  if (free_.size() > 1024 || (connections_.size() >= kMaxConnections && !free_.empty())) {
    slot = free_.front();
    free_.pop_front();
  } else if (connections_.size() < kMaxConnections) {
    slot = connections_.size();
    connections_.push_back(std::make_unique<Connection>());
  } else {
    ::close(fd);
    return;
  }
  Connection& connection = *connections_[slot];
  connection.id = static_cast<double>((++connection.generation << kSlotBits) | slot);
  connection.fd = fd;
  connection.listener = listener;
  connection.remote = remote;
  connection.active_ms = now_ms_;
  connection.interest = EPOLLIN;
  epoll_event event{EPOLLIN, {.u64 = static_cast<uint64_t>(connection.id)}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
    ::close(fd);
    connection.fd = -1;
    free_.push_back(slot);
    return;
  }
  ++stats_.connections;
  emit(SocketEvent::kAccepted, connection.id, 0, listener, 0);
}

void PollLoop::close(Connection& connection, CloseReason reason) {
  ::close(connection.fd);
  connection.queue.clear(sending_);
  stats_.partial -= static_cast<int64_t>(connection.head.size() + (connection.end - connection.begin));
  lend(connection);
  const double id = connection.id;
  const uint64_t generation = connection.generation;
  connection = Connection();
  connection.generation = generation;
  free_.push_back(static_cast<uint64_t>(id) & (kMaxConnections - 1));
  --stats_.connections;
  emit(SocketEvent::kClosed, id, 0, static_cast<double>(reason), 0);
}

// Closes once the queue is empty; nothing is read any more.
void PollLoop::drain(Connection& connection, CloseReason reason) {
  if (connection.draining) return;
  connection.draining = true;
  connection.reason = reason;
  mark_dirty(connection);
  update_interest(connection);
}

bool PollLoop::may_read(const Connection& connection) const {
  return connection.reading && !connection.held && !connection.ended && !connection.refused && !connection.draining;
}

void PollLoop::update_interest(Connection& connection) {
  // A backlog is read from memory first.
  const uint32_t wanted = (may_read(connection) && !connection.backlog ? static_cast<uint32_t>(EPOLLIN) : 0u) |
                          (connection.blocked ? static_cast<uint32_t>(EPOLLOUT) : 0u);
  if (wanted == connection.interest) return;
  connection.interest = wanted;
  epoll_event event{wanted, {.u64 = static_cast<uint64_t>(connection.id)}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event);
}

void PollLoop::mark_ready(Connection& connection) {
  if (connection.ready) return;
  connection.ready = true;
  ready_.push_back(connection.id);
}

void PollLoop::mark_dirty(Connection& connection) {
  if (connection.dirty) return;
  connection.dirty = true;
  dirty_.push_back(connection.id);
}

// ---- sending

void PollLoop::send(double id, const uint8_t* bytes, size_t length) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->draining) return;
  if (connection->queue.memory_bytes() > options_.max_queued_bytes + kOverflowBytes) {
    close(*connection, CloseReason::kOverflow);
    return;
  }
  connection->queue.append(sending_, bytes, length);
  mark_dirty(*connection);
}

void PollLoop::send(double id, std::shared_ptr<File> file, int64_t position, int64_t length) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->draining) return;
  connection->queue.append(sending_, std::move(file), position, length);
  mark_dirty(*connection);
}

void PollLoop::flush() {
  for (size_t i = 0; i < dirty_.size(); ++i) {
    Connection* connection = find(dirty_[i]);
    if (connection == nullptr) continue;
    connection->dirty = false;
    flush(*connection);
  }
  dirty_.clear();
}

void PollLoop::flush(Connection& connection) {
  const int64_t before = connection.queue.bytes();
  const SendOutcome outcome = connection.queue.flush(sending_, connection.fd, copy_up_to_);
  if (connection.queue.bytes() != before) connection.active_ms = monotonic_ms();
  switch (outcome) {
    case SendOutcome::kReset:
      return close(connection, CloseReason::kReset);
    case SendOutcome::kFailed:
      return close(connection, CloseReason::kError);
    case SendOutcome::kEmpty:
      if (connection.draining) {
        // What lies unread would turn the close into a reset, which may take the last answer with it.
        ::shutdown(connection.fd, SHUT_WR);
        ::recv(connection.fd, nullptr, size_t{1} << 20, MSG_TRUNC | MSG_DONTWAIT);
        return close(connection, connection.reason);
      }
      break;
    case SendOutcome::kBlocked:
    case SendOutcome::kBudget:
    case SendOutcome::kCold:
      break;
  }
  connection.blocked = outcome == SendOutcome::kBlocked || outcome == SendOutcome::kBudget;
  const int64_t queued = connection.queue.bytes();
  if (connection.held ? queued <= options_.max_queued_bytes / 2 : queued > options_.max_queued_bytes) {
    connection.held = !connection.held;
    if (!connection.held && connection.backlog) {
      mark_ready(connection);
      wake();
    }
  }
  if (connection.drain_mark >= 0 && connection.queue.memory_bytes() <= connection.drain_mark) {
    connection.drain_mark = -1;
    emit(SocketEvent::kDrained, connection.id, 0, 0, 0);
  }
  update_interest(connection);
  if (outcome == SendOutcome::kCold) {
    std::shared_ptr<ReadAhead> read = connection.queue.take_read_ahead();
    if (read != nullptr) host_.read_ahead(connection.id, std::move(read));
  }
}

void PollLoop::read_done(double id, const std::shared_ptr<ReadAhead>& read) {
  read->finished = true;
  Connection* connection = find(id);
  if (connection != nullptr) flush(*connection);
}

// ---- what the owner asks for

bool PollLoop::backed_up(double id, int64_t mark) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->queue.memory_bytes() <= mark) return false;
  connection->drain_mark = mark;
  return true;
}

void PollLoop::set_reading(double id, bool reading) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->reading == reading) return;
  connection->reading = reading;
  if (reading && connection->backlog) {
    mark_ready(*connection);
    wake();
  }
  update_interest(*connection);
}

void PollLoop::close_connection(double id, bool drain_first) {
  Connection* connection = find(id);
  if (connection == nullptr) return;
  const CloseReason reason = connection->ended ? CloseReason::kPeer : CloseReason::kLocal;
  if (!drain_first) {
    close(*connection, reason);
    return;
  }
  drain(*connection, reason);
  wake();
}

void PollLoop::fail_connection(double id) {
  Connection* connection = find(id);
  if (connection != nullptr) close(*connection, CloseReason::kError);
}

bool PollLoop::peer(double id, int* listener, SocketAddress* remote, SocketAddress* local) {
  const Connection* connection = find(id);
  if (connection == nullptr) return false;
  *listener = connection->listener;
  *remote = connection->remote;
  socklen_t length = sizeof(*local);
  ::getsockname(connection->fd, &local->any, &length);
  return true;
}

void PollLoop::close_idle(int64_t idle_ms) {
  const int64_t before = monotonic_ms() - idle_ms;
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection->fd >= 0 && connection->active_ms <= before) close(*connection, CloseReason::kIdle);
  }
  buffers_.trim();
}

void PollLoop::drain_all() {
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection->fd >= 0) drain(*connection, CloseReason::kLocal);
  }
  wake();
}

void PollLoop::close_all() {
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection->fd >= 0) close(*connection, CloseReason::kLocal);
  }
}

}  // namespace broadsheet
