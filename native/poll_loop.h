// An epoll set of its own for many connections: accepts, receives into a slab, finds the borders of frames, sends.
//
// A tick is collect(), then whatever the owner does with the events, then finish(). The epoll set is level triggered:
// what one tick leaves behind makes descriptor() readable again. Knows neither N-API nor libuv. One thread.
//
// Bounds of a tick: 1 MiB and 256 frames received per connection, 8 MiB in all, 1 MiB sent per connection (the last
// piece may run over it). Connections that were not served come first in the next tick.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "frame_buffers.h"
#include "listen_socket.h"
#include "send_queue.h"
#include "status.h"

namespace broadsheet {

// What collect() reports; addon.cc's exports name kinds and reasons for JavaScript.
#define BROADSHEET_SOCKET_EVENTS(X)                                        \
  X(kAccepted, 0, "accepted") /* start: listener */                        \
  X(kFrame, 1, "frame")       /* buffer, start, end */                     \
  X(kBadFrame, 2, "badFrame") /* buffer, start, end */                     \
  X(kEnded, 3, "ended")       /* the peer sends no more */                 \
  X(kClosed, 4, "closed")     /* start: reason */                          \
  X(kAcceptFailed, 5, "acceptFailed") /* connection: listener, start: errno */ \
  X(kDrained, 6, "drained")           /* what backed_up() asked for */

#define BROADSHEET_CLOSE_REASONS(X) \
  X(kPeer, 0, "peer")               \
  X(kReset, 1, "reset")             \
  X(kIdle, 2, "idle")               \
  X(kLocal, 3, "local")             \
  X(kBadFrame, 4, "bad-frame")      \
  X(kOverflow, 5, "send-overflow")  \
  X(kError, 6, "error")

enum class SocketEvent : int {
#define X(name, value, text) name = value,
  BROADSHEET_SOCKET_EVENTS(X)
#undef X
};

enum class CloseReason : int {
#define X(name, value, text) name = value,
  BROADSHEET_CLOSE_REASONS(X)
#undef X
};

// One event in the array that JavaScript reads.
struct EventRecord {
  double kind, connection, buffer, start, end;
};

// kAuto copies short ranges and sends long ones by sendfile.
enum class FetchPath { kAuto, kSendfile, kCopy };

struct LoopOptions {
  size_t max_frame_bytes = 104857600;
  int64_t max_queued_bytes = 16 << 20;
  FetchPath fetch_path = FetchPath::kAuto;
  ListenOptions sockets;
};

struct LoopStats {
  size_t connections = 0;
  uint64_t received = 0;
  int64_t partial = 0;  // bytes held for frames that are not complete
};

// What a loop asks of its owner.
class LoopHost : public FrameMemory {
 public:
  // Runs read->run() on an I/O thread, then calls read_done(connection, read) on the loop's thread.
  virtual void read_ahead(double connection, std::shared_ptr<ReadAhead> read) = 0;
};

class PollLoop {
 public:
  static constexpr size_t kSlabBytes = 8 << 20;
  static constexpr size_t kConnectionBytes = 1 << 20;
  static constexpr size_t kConnectionFrames = 256;
  static constexpr size_t kEvents = 8192;
  static constexpr int kAcceptBurst = 64;

  // The slab has kSlabBytes, the events array kEvents records; both must live as long as the loop.
  static Status create(const LoopOptions& options, LoopHost& host, uint8_t* slab, EventRecord* events,
                       std::unique_ptr<PollLoop>* out);
  ~PollLoop();
  PollLoop(const PollLoop&) = delete;
  PollLoop& operator=(const PollLoop&) = delete;

  // Readable whenever a tick has something to do.
  int descriptor() const { return epoll_; }

  Status listen(const std::string& host, int port, int* listener, int* bound_port);
  void set_accepting(int listener, bool accepting);
  void close_listener(int listener);
  // Goes on accepting where descriptors had run out.
  void resume_accepting();

  // First half of a tick; how many events there are.
  size_t collect();
  // Second half: sends, and takes back the memory behind the events.
  void finish();

  // Each is nothing when the connection is gone.
  void send(double connection, const uint8_t* bytes, size_t length);
  void send(double connection, std::shared_ptr<File> file, int64_t position, int64_t length);
  void flush();
  // Whether more than `mark` bytes of answers in memory wait on it. If so, kDrained follows when they no longer do.
  bool backed_up(double connection, int64_t mark);
  void set_reading(double connection, bool reading);
  void close_connection(double connection, bool drain);
  void fail_connection(double connection);
  void read_done(double connection, const std::shared_ptr<ReadAhead>& read);
  bool peer(double connection, int* listener, SocketAddress* remote, SocketAddress* local);

  void close_idle(int64_t idle_ms);
  void drain_all();
  void close_all();
  // Makes descriptor() readable.
  void wake();
  // Whether there are events that no collect() has handed out yet.
  bool pending() const { return !late_.empty(); }

  const LoopStats& stats() const { return stats_; }
  const SendStats& send_stats() const { return sending_.stats; }
  uint64_t buffers_allocated() const { return buffers_.allocated(); }

 private:
  struct Listener {
    std::vector<int> sockets;
    bool accepting = true;
    bool starved = false;   // no descriptor was to be had
    bool reported = false;  // ... and that was told
  };

  struct Connection {
    int fd = -1;
    double id = 0;
    uint64_t generation = 0;
    uint32_t interest = 0;  // as registered
    int listener = 0;
    bool reading = true;     // the owner wants frames
    bool held = false;       // too much waits to be sent
    bool ended = false;      // the peer's FIN was read
    bool refused = false;    // sent a bad frame: drains when the tick ends
    bool draining = false;   // closes once all is sent
    bool blocked = false;    // waits for room in the socket
    bool ready = false;      // is in ready_
    bool dirty = false;      // is in dirty_
    int64_t drain_mark = -1;  // kDrained is due at this many bytes in memory; -1: nobody asked
    bool backlog = false;    // carry holds whole frames that no tick has taken yet
    CloseReason reason = CloseReason::kLocal;  // when drained
    int64_t active_ms = 0;
    SocketAddress remote{};
    std::vector<uint8_t> head;  // a short piece of a frame, received in front of the next bytes in the slab
    FrameBuffer carry;          // else [begin, end) of it: one piece of a frame, or the backlog
    size_t begin = 0, end = 0;
    size_t last_frame = 0;  // bytes of the frame that was handed out last
    SendQueue queue;
  };

  // Where bytes are received that belong to no piece of a frame: the rest of the slab, or a buffer.
  struct Room {
    FrameBuffer buffer;  // its data is null for the slab
    uint8_t* data;
    size_t size;
  };

  PollLoop(const LoopOptions& options, LoopHost& host, uint8_t* slab, EventRecord* events);

  Connection* find(double id);
  void accept_burst(int listener, int socket);
  void add(int listener, int fd, const SocketAddress& remote);
  void close(Connection& connection, CloseReason reason);
  void drain(Connection& connection, CloseReason reason);
  void update_interest(Connection& connection);
  void listen_interest(const Listener& listener, int index);
  void emit(SocketEvent kind, double connection, double buffer, double start, double end);
  void mark_ready(Connection& connection);
  void mark_dirty(Connection& connection);
  bool may_read(const Connection& connection) const;
  void lend(Connection& connection);

  // poll_loop_receive.cc
  void receive(Connection& connection);
  void receive_fresh(Connection& connection);
  void receive_into_carry(Connection& connection);
  Room room_behind(const Connection& connection, size_t before);
  void take_in(Connection& connection, const Room& room, size_t length);
  bool received(Connection& connection, ssize_t n, int error);
  size_t take_frames(Connection& connection, int buffer, const uint8_t* data, size_t from, size_t to);
  void keep(Connection& connection, const uint8_t* bytes, size_t length);
  void settle(Connection& connection);

  void flush(Connection& connection);

  const LoopOptions options_;
  const int64_t copy_up_to_;  // longer ranges go by sendfile
  LoopHost& host_;
  FrameBuffers buffers_;
  int epoll_ = -1;
  int wake_ = -1;
  bool awake_ = false;
  bool collecting_ = false;
  int64_t now_ms_ = 0;

  std::vector<Listener> listeners_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::deque<size_t> free_;  // oldest first

  uint8_t* const slab_;
  size_t slab_used_ = 0;
  size_t tick_received_ = 0;
  size_t frames_left_ = 0;
  EventRecord* const events_;
  size_t event_count_ = 0;
  std::deque<EventRecord> late_;  // events of the next tick

  std::deque<double> ready_;       // to be received from, in order
  std::vector<double> again_;      // ... in the next tick
  std::vector<double> dirty_;      // to be flushed
  std::vector<double> refused_;
  std::vector<double> unsettled_;  // whose backlog was worked on
  std::vector<FrameBuffer> lent_;  // behind this tick's events
  SendContext sending_;
  LoopStats stats_;
};

}  // namespace broadsheet
