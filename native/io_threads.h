// Threads for what may wait on a disk: flushes, reads of cold ranges, whole-file operations. One pool per addon
// environment; libuv's own pool, which the host's fs, dns and crypto share, is never used.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "uv_handle.h"

namespace broadsheet {

// All methods are called on the loop's thread.
class IoThreads {
 public:
  static constexpr size_t kThreads = 16;

  // `enter` runs on the loop's thread around each batch of completions; it must call its argument once.
  IoThreads(uv_loop_t* loop, std::function<void(const std::function<void()>&)> enter, size_t threads = kThreads);
  ~IoThreads();
  IoThreads(const IoThreads&) = delete;
  IoThreads& operator=(const IoThreads&) = delete;

  // Runs work() on a thread, then done() on the loop's thread. Works begin in the order of submission, on up to 16
  // threads at once: what must run in order belongs into one work. Threads start when first needed. While anything is
  // submitted and not done, the loop stays alive. After close() both are destroyed unrun.
  template <class Work, class Done>
  void submit(Work work, Done done) {
    struct Task final : Item {
      Task(Work&& w, Done&& d) : work(std::move(w)), done(std::move(d)) {}
      void run() override { work(); }
      void finish() override { done(); }
      Work work;
      Done done;
    };
    enqueue(std::make_unique<Task>(std::move(work), std::move(done)));
  }

  // Submitted and not done yet.
  size_t in_flight() const { return in_flight_; }

  // For tests: what is submitted from now on waits, with no thread, until step() is told to run it. Nothing may be in
  // flight.
  void set_stepped(bool stepped) { stepped_ = stepped; }
  size_t waiting() const { return waiting_.size(); }
  // Runs one of the works that wait, by its place among them, on the caller's thread; its done() follows from the loop.
  // False when there is none.
  bool step(size_t place);

  // Lets running works end (their done() is dropped, as are works that did not begin), joins the threads, then closes
  // the handle; `closed` runs on the loop's thread afterwards. Once.
  void close(std::function<void()> closed);

 private:
  struct Item {
    virtual ~Item() = default;
    virtual void run() = 0;
    virtual void finish() = 0;
  };
  using Items = std::deque<std::unique_ptr<Item>>;

  void enqueue(std::unique_ptr<Item> item);
  bool start_thread();
  // Under mutex_: whether the caller has to wake a thread. One wakes at a time, and wakes the next one when it takes its
  // work: waking costs the loop's thread more than most works take, and a thread that is done takes what waits.
  bool wake_one();
  void serve();  // a thread's life
  void drain();

  const size_t limit_;
  const std::function<void(const std::function<void()>&)> enter_;
  UvAsync wake_;
  size_t in_flight_ = 0;
  bool stepped_ = false;
  bool closing_ = false;
  std::function<void()> closed_;
  std::vector<pthread_t> threads_;
  Items waiting_;  // for step()

  std::mutex mutex_;  // guards all below
  std::condition_variable work_waits_;
  Items queue_;
  Items finished_;
  size_t idle_ = 0;
  bool waking_ = false;  // a thread was woken, and none has taken a work since
  bool stopping_ = false;
};

}  // namespace broadsheet
