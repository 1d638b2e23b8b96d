#include "io_threads.h"

#include <signal.h>

#include <cassert>

namespace broadsheet {

IoThreads::IoThreads(uv_loop_t* loop, std::function<void(const std::function<void()>&)> enter, size_t threads)
    : limit_(threads), enter_(std::move(enter)), wake_(this) {
  const int result =
      uv_async_init(loop, wake_.get(), [](uv_async_t* handle) { UvAsync::owner<IoThreads>(handle)->drain(); });
  assert(result == 0);
  static_cast<void>(result);
  uv_unref(wake_.base());
}

IoThreads::~IoThreads() { assert(closing_ && threads_.empty()); }

void IoThreads::enqueue(std::unique_ptr<Item> item) {
  if (closing_) return;
  if (in_flight_++ == 0) uv_ref(wake_.base());
  if (stepped_) {
    waiting_.push_back(std::move(item));
    return;
  }
  bool start, wake;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(item));
    start = idle_ < queue_.size();
    wake = wake_one();
  }
  if (start && threads_.size() < limit_ && !start_thread() && threads_.empty()) {
    // No thread can be had at all: work that waits is better than work that never runs.
    std::unique_lock<std::mutex> lock(mutex_);
    std::unique_ptr<Item> own = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    own->run();
    lock.lock();
    finished_.push_back(std::move(own));
    uv_async_send(wake_.get());
    return;
  }
  if (wake) work_waits_.notify_one();
}

bool IoThreads::wake_one() {
  if (waking_ || idle_ == 0 || queue_.empty()) return false;
  return waking_ = true;
}

bool IoThreads::step(size_t place) {
  if (place >= waiting_.size()) return false;
  std::unique_ptr<Item> item = std::move(waiting_[place]);
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(place));
  item->run();
  std::lock_guard<std::mutex> lock(mutex_);
  finished_.push_back(std::move(item));
  uv_async_send(wake_.get());
  return true;
}

bool IoThreads::start_thread() {
  // Signals belong to the host's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512 * 1024);
  pthread_t thread;
  const int result = pthread_create(
      &thread, &attributes,
      [](void* self) -> void* {
        static_cast<IoThreads*>(self)->serve();
        return nullptr;
      },
      this);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (result != 0) return false;
  threads_.push_back(thread);
  return true;
}

void IoThreads::serve() {
  pthread_setname_np(pthread_self(), "broadsheet-io");
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    ++idle_;
    work_waits_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    if (stopping_) return;
    std::unique_ptr<Item> item = std::move(queue_.front());
    queue_.pop_front();
    waking_ = false;
    const bool wake = wake_one();
    lock.unlock();
    if (wake) work_waits_.notify_one();
    item->run();
    lock.lock();
    finished_.push_back(std::move(item));
    // Under the lock: once close() has joined this thread, nobody touches the handle.
    if (finished_.size() == 1) uv_async_send(wake_.get());
  }
}

void IoThreads::drain() {
  if (closing_) return;
  Items batch;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    batch.swap(finished_);
  }
  if (batch.empty()) return;
  enter_([&] {
    for (std::unique_ptr<Item>& item : batch) {
      if (closing_) return;
      --in_flight_;
      item->finish();
      item.reset();
    }
  });
  if (closing_) return;
  if (in_flight_ == 0) uv_unref(wake_.base());
}

void IoThreads::close(std::function<void()> closed) {
  assert(!closing_);
  closing_ = true;
  closed_ = std::move(closed);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  work_waits_.notify_all();
  for (pthread_t thread : threads_) pthread_join(thread, nullptr);
  threads_.clear();
  queue_.clear();
  waiting_.clear();
  finished_.clear();
  uv_close(wake_.base(), [](uv_handle_t* handle) {
    // `closed` may destroy this object.
    std::function<void()> then = std::move(static_cast<IoThreads*>(uv_handle_get_data(handle))->closed_);
    then();
  });
}

}  // namespace broadsheet
