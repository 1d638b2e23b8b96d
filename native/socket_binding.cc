// PollLoop for JavaScript: one uv_poll per transport, one call into JavaScript per tick.
//
// Shared with JavaScript, and laid out once, here (exported as `socketLayout`): the slab and the frame buffers behind the
// events; the events themselves; the outbox, in which JavaScript leaves small answers and the entries that say whose they
// are; and a few control values.
#include <signal.h>

#include <cassert>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "napi_util.h"
#include "poll_loop.h"
#include "uv_handle.h"

namespace broadsheet {
namespace {

#define BROADSHEET_SOCKET_CONTROL(X)                                                          \
  X(kTicking, "ticking") /* 1 from a tick's beginning until what it left to send was taken */ \
  X(kCursor, "cursor")   /* the next event to be handled; past the last one: onTickEnd ran */ \
  X(kEntries, "entries") /* how many lie in the outbox */

enum class Control : size_t {
#define X(name, text) name,
  BROADSHEET_SOCKET_CONTROL(X)
#undef X
      kCount
};

// What is to be sent to a connection: bytes of the outbox when segment is negative, else a range of that file.
struct OutboxEntry {
  double connection, segment, start, length;
};

constexpr size_t kOutboxBytes = 1 << 20;
constexpr size_t kOutboxEntries = 16384;

// sendfile(2) knows no MSG_NOSIGNAL. Node ignores SIGPIPE; a host that restored the default would be killed by it.
void ignore_sigpipe() {
  struct sigaction current {};
  if (sigaction(SIGPIPE, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) == 0 &&
      current.sa_handler == SIG_DFL) {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, nullptr);
  }
}

class SocketLoop final : public LoopHost, public std::enable_shared_from_this<SocketLoop> {
 public:
  static Status create(napi_env env, const LoopOptions& options, napi_value result, std::shared_ptr<SocketLoop>* out) {
    auto self = std::shared_ptr<SocketLoop>(new SocketLoop(env));
    self->share(result);
    Status status = PollLoop::create(options, *self, self->slab_, self->events_, &self->loop_);
    if (!status.ok()) return status;
    if (uv_poll_init(self->environment_.loop(), self->poll_.get(), self->loop_->descriptor()) != 0) {
      return Status::Of(Code::kIo, "watch an epoll set");
    }
    self->holder_ = self;
    self->forget_hook_ = on_environment_end(env, [raw = self.get()](std::function<void()> done) {
      raw->environment_done_ = std::move(done);
      raw->begin_close();
    });
    ignore_sigpipe();
    *out = std::move(self);
    return Status::Ok();
  }

  // Null once the transport is closed.
  PollLoop* loop() { return loop_.get(); }

  bool start(napi_value on_events) {
    if (loop_ == nullptr || started_) return false;
    on_events_ = Reference(env_, on_events);
    started_ = true;
    uv_poll_start(poll_.get(), UV_READABLE,
                  [](uv_poll_t* handle, int, int) { UvPoll::owner<SocketLoop>(handle)->tick(); });
    return true;
  }

  // Hands what lies in the outbox to the queues.
  void take_entries() {
    const size_t count = static_cast<size_t>(control_[static_cast<size_t>(Control::kEntries)]);
    control_[static_cast<size_t>(Control::kEntries)] = 0;
    assert(count <= kOutboxEntries);
    if (loop_ == nullptr) return;
    for (size_t i = 0; i < count; ++i) {
      const OutboxEntry& entry = entries_[i];
      if (entry.segment < 0) {
        assert(entry.start >= 0 && entry.length >= 0 && entry.start + entry.length <= kOutboxBytes);
        loop_->send(entry.connection, outbox_ + static_cast<size_t>(entry.start), static_cast<size_t>(entry.length));
        continue;
      }
      std::shared_ptr<File> file = environment_.files().find(static_cast<int64_t>(entry.segment));
      if (file == nullptr) {
        // The answer has begun and cannot be completed.
        loop_->fail_connection(entry.connection);
      } else {
        loop_->send(entry.connection, std::move(file), static_cast<int64_t>(entry.start),
                    static_cast<int64_t>(entry.length));
      }
    }
  }

  // Closes everything; `closed` is called when no handle is left. All connections were reported closed by then.
  void close(napi_value closed) {
    on_closed_ = Reference(env_, closed);
    closing_ = true;
    loop_->close_all();
    if (!started_) begin_close();
    else loop_->wake();
  }
  bool closing() const { return closing_; }

  // LoopHost
  FrameBuffer allocate(size_t capacity) override {
    void* data = nullptr;
    napi_value memory, view;
    if (napi_create_arraybuffer(env_, capacity, &data, &memory) != napi_ok || data == nullptr) return {};
    napi_create_typedarray(env_, napi_uint8_array, capacity, memory, 0, &view);
    int index;
    if (free_indexes_.empty()) {
      index = next_index_++;
    } else {
      index = free_indexes_.back();
      free_indexes_.pop_back();
    }
    // The array holds the view, and with it the memory.
    napi_set_element(env_, buffers_ref_.value(), static_cast<uint32_t>(index), view);
    return {static_cast<uint8_t*>(data), capacity, index};
  }

  void release(int index) override { released_.push_back(index); }

  void read_ahead(double connection, std::shared_ptr<ReadAhead> read) override {
    std::weak_ptr<SocketLoop> weak = weak_from_this();
    environment_.io().submit([read] { read->run(); },
                             [weak, connection, read] {
                               const std::shared_ptr<SocketLoop> self = weak.lock();
                               if (self != nullptr && self->loop_ != nullptr) self->loop_->read_done(connection, read);
                             });
  }

 private:
  explicit SocketLoop(napi_env env) : env_(env), environment_(Environment::of(env)) {}

  template <class T>
  T* share_array(napi_value result, const char* name, size_t bytes, napi_typedarray_type type, Reference* keep) {
    void* data = nullptr;
    napi_value memory, view;
    napi_create_arraybuffer(env_, bytes, &data, &memory);
    napi_create_typedarray(env_, type, type == napi_uint8_array ? bytes : bytes / sizeof(double), memory, 0, &view);
    napi_set_named_property(env_, result, name, view);
    *keep = Reference(env_, view);
    return static_cast<T*>(data);
  }

  void share(napi_value result) {
    slab_ = share_array<uint8_t>(result, "slab", PollLoop::kSlabBytes, napi_uint8_array, &kept_[0]);
    events_ = share_array<EventRecord>(result, "events", PollLoop::kEvents * sizeof(EventRecord), napi_float64_array,
                                       &kept_[1]);
    outbox_ = share_array<uint8_t>(result, "outbox", kOutboxBytes, napi_uint8_array, &kept_[2]);
    entries_ = share_array<OutboxEntry>(result, "entries", kOutboxEntries * sizeof(OutboxEntry), napi_float64_array,
                                        &kept_[3]);
    control_ = share_array<double>(result, "control", static_cast<size_t>(Control::kCount) * sizeof(double),
                                   napi_float64_array, &kept_[4]);
    napi_value buffers, slab;
    napi_create_array(env_, &buffers);
    napi_get_named_property(env_, result, "slab", &slab);
    napi_set_element(env_, buffers, 0, slab);
    napi_set_named_property(env_, result, "buffers", buffers);
    buffers_ref_ = Reference(env_, buffers);
  }

  void tick() {
    if (ticking_ || loop_ == nullptr) return;
    const std::shared_ptr<SocketLoop> self = shared_from_this();
    ticking_ = true;
    double& flag = control_[static_cast<size_t>(Control::kTicking)];
    flag = 1;
    environment_.enter([this] {
      drop_released();
      const size_t count = loop_->collect();
      if (count > 0) dispatch(count);
    });
    // Microtasks have run by now: what they sent leaves too.
    take_entries();
    loop_->finish();
    flag = 0;
    ticking_ = false;
    if (closing_ && !loop_->pending()) begin_close();
  }

  void dispatch(size_t count) {
    double& cursor = control_[static_cast<size_t>(Control::kCursor)];
    cursor = 0;
    for (;;) {
      const double before = cursor;
      // After an exception, which went to the host, the events behind the one that threw are still handed out.
      if (environment_.call(on_events_.value(), {number(env_, static_cast<double>(count))}) || cursor <= before) return;
    }
  }

  void drop_released() {
    for (const int index : released_) {
      napi_set_element(env_, buffers_ref_.value(), static_cast<uint32_t>(index), undefined(env_));
      free_indexes_.push_back(index);
    }
    released_.clear();
  }

  void begin_close() {
    if (uv_is_closing(poll_.base()) != 0) return;
    uv_close(poll_.base(), [](uv_handle_t* handle) {
      SocketLoop* self = static_cast<SocketLoop*>(uv_handle_get_data(handle));
      const std::shared_ptr<SocketLoop> last = std::move(self->holder_);
      last->closed();
    });
    loop_ = nullptr;
    on_events_.reset();
    buffers_ref_.reset();
    for (Reference& reference : kept_) reference.reset();
  }

  void closed() {
    if (environment_done_) {
      on_closed_.reset();
      environment_done_();
      return;
    }
    // The environment may have begun to end meanwhile; then its hook waits for nothing that is not done.
    forget_hook_();
    environment_.enter([this] {
      if (on_closed_) on_closed_.call({});
      on_closed_.reset();
    });
  }

  napi_env const env_;
  Environment& environment_;
  std::unique_ptr<PollLoop> loop_;
  UvPoll poll_{this};
  bool started_ = false;
  bool ticking_ = false;
  bool closing_ = false;
  std::shared_ptr<SocketLoop> holder_;  // until the handle is closed
  std::function<void()> forget_hook_;
  std::function<void()> environment_done_;

  uint8_t* slab_ = nullptr;
  EventRecord* events_ = nullptr;
  uint8_t* outbox_ = nullptr;
  OutboxEntry* entries_ = nullptr;
  double* control_ = nullptr;
  Reference kept_[5];
  Reference buffers_ref_;
  Reference on_events_;
  Reference on_closed_;
  int next_index_ = 1;
  std::vector<int> free_indexes_;
  std::vector<int> released_;
};

using Handle = std::shared_ptr<SocketLoop>;

// The transport of argument 0; null when it is closed, or is none.
SocketLoop* transport_of(napi_env env, const Args& args) {
  void* data = nullptr;
  if (napi_get_value_external(env, args.raw(0), &data) != napi_ok || data == nullptr) return nullptr;
  SocketLoop* self = static_cast<Handle*>(data)->get();
  return self->loop() == nullptr ? nullptr : self;
}

napi_value socket_open(napi_env env, napi_callback_info info) {
  Args args(env, info);
  LoopOptions options;
  options.max_frame_bytes = static_cast<size_t>(args.integer(0, "maxFrameBytes", 1, INT32_MAX - 4));
  options.max_queued_bytes = args.integer(1, "maxQueuedBytes", 1);
  const std::string path = args.string(2, "fetchPath");
  options.sockets.send_buffer_bytes = static_cast<int>(args.integer(3, "sendBufferBytes", -1, INT32_MAX));
  options.sockets.receive_buffer_bytes = static_cast<int>(args.integer(4, "receiveBufferBytes", -1, INT32_MAX));
  if (!args.ok()) return args.reject_cold();
  options.fetch_path = path == "copy" ? FetchPath::kCopy : path == "sendfile" ? FetchPath::kSendfile : FetchPath::kAuto;

  napi_value result, external;
  napi_create_object(env, &result);
  Handle made;
  const Status status = SocketLoop::create(env, options, result, &made);
  if (!status.ok()) return status_object(env, status);
  napi_create_external(
      env, new Handle(made), [](napi_env, void* data, void*) { delete static_cast<Handle*>(data); }, nullptr, &external);
  napi_set_named_property(env, result, "transport", external);
  return result;
}

napi_value socket_start(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const napi_value on_events = args.function(1, "onEvents");
  if (!args.ok()) return args.reject_cold();
  SocketLoop* self = transport_of(env, args);
  if (self == nullptr) return status_object(env, Status::Of(Code::kClosed, "start: the transport is closed"));
  if (!self->start(on_events)) return status_object(env, Status::Of(Code::kInvalidArgument, "started twice"));
  return undefined(env);
}

napi_value socket_listen(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const std::string host = args.string(1, "host");
  const int port = static_cast<int>(args.integer(2, "port", 0, 65535));
  if (!args.ok()) return args.reject_cold();
  SocketLoop* self = transport_of(env, args);
  if (self == nullptr || self->closing()) {
    return status_object(env, Status::Of(Code::kClosed, "listen: the transport is closed"));
  }
  int listener = 0;
  int bound = 0;
  const Status status = self->loop()->listen(host, port, &listener, &bound);
  if (!status.ok()) return status_object(env, status);
  napi_value result;
  napi_create_object(env, &result);
  napi_set_named_property(env, result, "listener", number(env, listener));
  napi_set_named_property(env, result, "port", number(env, bound));
  return result;
}

napi_value socket_set_accepting(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const int listener = static_cast<int>(args.integer(1, "listener", 0, INT32_MAX));
  const bool accepting = args.boolean(2, "accepting");
  if (!args.ok()) return args.reject();
  if (SocketLoop* self = transport_of(env, args)) self->loop()->set_accepting(listener, accepting);
  return number(env, 0);
}

napi_value socket_close_listener(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const int listener = static_cast<int>(args.integer(1, "listener", 0, INT32_MAX));
  if (!args.ok()) return args.reject();
  if (SocketLoop* self = transport_of(env, args)) self->loop()->close_listener(listener);
  return number(env, 0);
}

napi_value socket_resume_accepting(napi_env env, napi_callback_info info) {
  Args args(env, info);
  if (SocketLoop* self = transport_of(env, args)) self->loop()->resume_accepting();
  return number(env, 0);
}

napi_value socket_take(napi_env env, napi_callback_info info) {
  Args args(env, info);
  if (SocketLoop* self = transport_of(env, args)) self->take_entries();
  return number(env, 0);
}

napi_value socket_send(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const double connection = args.number(1, "connection");
  const Bytes bytes = args.bytes(2, "bytes");
  if (!args.ok()) return args.reject();
  if (SocketLoop* self = transport_of(env, args)) {
    self->take_entries();
    self->loop()->send(connection, bytes.data, bytes.length);
  }
  return number(env, 0);
}

napi_value socket_flush(napi_env env, napi_callback_info info) {
  Args args(env, info);
  if (SocketLoop* self = transport_of(env, args)) {
    self->take_entries();
    self->loop()->flush();
  }
  return number(env, 0);
}

napi_value socket_set_reading(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const double connection = args.number(1, "connection");
  const bool reading = args.boolean(2, "reading");
  if (!args.ok()) return args.reject();
  if (SocketLoop* self = transport_of(env, args)) self->loop()->set_reading(connection, reading);
  return number(env, 0);
}

napi_value socket_backed_up(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const double connection = args.number(1, "connection");
  const int64_t mark = args.integer(2, "mark");
  if (!args.ok()) return args.reject();
  SocketLoop* self = transport_of(env, args);
  if (self == nullptr) return boolean(env, false);
  self->take_entries();
  return boolean(env, self->loop()->backed_up(connection, mark));
}

napi_value socket_close_connection(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const double connection = args.number(1, "connection");
  const bool drain = args.boolean(2, "drain");
  if (!args.ok()) return args.reject();
  if (SocketLoop* self = transport_of(env, args)) {
    self->take_entries();
    self->loop()->close_connection(connection, drain);
  }
  return number(env, 0);
}

napi_value socket_close_idle(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const int64_t idle_ms = args.integer(1, "idleMs");
  if (!args.ok()) return args.reject();
  if (SocketLoop* self = transport_of(env, args)) self->loop()->close_idle(idle_ms);
  return number(env, 0);
}

napi_value socket_drain_all(napi_env env, napi_callback_info info) {
  Args args(env, info);
  if (SocketLoop* self = transport_of(env, args)) {
    self->take_entries();
    self->loop()->drain_all();
  }
  return number(env, 0);
}

napi_value socket_peer(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const double connection = args.number(1, "connection");
  if (!args.ok()) return undefined(env);
  SocketLoop* self = transport_of(env, args);
  int listener = 0;
  SocketAddress remote{};
  SocketAddress local{};
  if (self == nullptr || !self->loop()->peer(connection, &listener, &remote, &local)) return undefined(env);
  napi_value result;
  napi_create_object(env, &result);
  napi_set_named_property(env, result, "listener", number(env, listener));
  napi_set_named_property(env, result, "remoteAddress", string(env, address_text(remote)));
  napi_set_named_property(env, result, "remotePort", number(env, address_port(remote)));
  napi_set_named_property(env, result, "localAddress", string(env, address_text(local)));
  napi_set_named_property(env, result, "localPort", number(env, address_port(local)));
  return result;
}

napi_value socket_stats(napi_env env, napi_callback_info info) {
  Args args(env, info);
  SocketLoop* self = transport_of(env, args);
  if (self == nullptr) return undefined(env);
  const LoopStats& stats = self->loop()->stats();
  const SendStats& sent = self->loop()->send_stats();
  napi_value result;
  napi_create_object(env, &result);
  const auto set = [&](const char* name, auto value) {
    napi_set_named_property(env, result, name, number(env, static_cast<double>(value)));
  };
  set("connections", stats.connections);
  set("bytesReceived", stats.received);
  set("bytesSent", sent.sent);
  set("bytesBySendfile", sent.by_sendfile);
  set("bytesByCopy", sent.by_copy);
  set("bytesQueued", sent.queued);
  set("bytesPartial", stats.partial);
  set("buffersAllocated", self->loop()->buffers_allocated());
  return result;
}

napi_value socket_close(napi_env env, napi_callback_info info) {
  Args args(env, info);
  const napi_value closed = args.function(1, "closed");
  if (!args.ok()) return args.reject();
  SocketLoop* self = transport_of(env, args);
  if (self == nullptr || self->closing()) {
    return args.environment().fail(Status::Of(Code::kClosed, "close: the transport is closed"));
  }
  self->take_entries();
  self->close(closed);
  return number(env, 0);
}

// Field names in the order of a record's doubles.
napi_value layout(napi_env env) {
  napi_value result;
  napi_create_object(env, &result);
  const auto object = [&](const char* name, std::initializer_list<std::pair<const char*, int>> values) {
    napi_value inner;
    napi_create_object(env, &inner);
    for (const auto& [key, value] : values) napi_set_named_property(env, inner, key, number(env, value));
    napi_set_named_property(env, result, name, inner);
  };
#define X(name, value, text) {text, value},
  object("events", {BROADSHEET_SOCKET_EVENTS(X)});
  object("reasons", {BROADSHEET_CLOSE_REASONS(X)});
#undef X
#define X(name, text) {text, static_cast<int>(Control::name)},
  object("control", {BROADSHEET_SOCKET_CONTROL(X)});
#undef X
#define AT(type, field) {#field, static_cast<int>(offsetof(type, field) / sizeof(double))}
  object("event", {AT(EventRecord, kind), AT(EventRecord, connection), AT(EventRecord, buffer), AT(EventRecord, start),
                   AT(EventRecord, end), {"stride", sizeof(EventRecord) / sizeof(double)}});
  object("entry", {AT(OutboxEntry, connection), AT(OutboxEntry, segment), AT(OutboxEntry, start),
                   AT(OutboxEntry, length), {"stride", sizeof(OutboxEntry) / sizeof(double)}});
#undef AT
  return result;
}

}  // namespace

void init_socket_binding(napi_env env, napi_value exports) {
  napi_set_named_property(env, exports, "socketLayout", layout(env));
  define(env, exports,
         {{"socketOpen", socket_open},
          {"socketStart", socket_start},
          {"socketListen", socket_listen},
          {"socketSetAccepting", socket_set_accepting},
          {"socketCloseListener", socket_close_listener},
          {"socketResumeAccepting", socket_resume_accepting},
          {"socketTake", socket_take},
          {"socketSend", socket_send},
          {"socketFlush", socket_flush},
          {"socketBackedUp", socket_backed_up},
          {"socketSetReading", socket_set_reading},
          {"socketCloseConnection", socket_close_connection},
          {"socketCloseIdle", socket_close_idle},
          {"socketDrainAll", socket_drain_all},
          {"socketPeer", socket_peer},
          {"socketStats", socket_stats},
          {"socketClose", socket_close}});
}

}  // namespace broadsheet
