#include "sim/sweep/read_ahead.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "sim/sweep/in_parallel.h"

namespace kvsim {
namespace {

/// Deals out 0 .. count - 1 in this order to threads, each of which has been read then.
class ReadAhead {
 public:
  ReadAhead(std::size_t count, int threads, const std::function<void(std::size_t)>& read)
      : count_(count), threads_(static_cast<std::size_t>(threads)), read_(read) {
    if (count_ > threads_) reader_ = std::thread([this] { read_ahead(); });
  }

  ~ReadAhead() {
    {
      const std::lock_guard guard(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    if (reader_.joinable()) reader_.join();
  }

  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  struct Item {
    std::size_t index = 0;
    std::exception_ptr failure;  ///< of its reading
  };

  /// To be called `count` times.
  Item next() {
    std::unique_lock lock(mutex_);
    // One thread waits for what is being read: what comes first is done first, and with a disk that
    // is slow, a second reading would not end sooner.
    if (reading_ && !ahead_ && !is_awaited_) {
      is_awaited_ = true;
      changed_.wait(lock, [&] { return ahead_ || !reading_; });
      is_awaited_ = false;
    }
    if (ahead_) {
      Item item = *ahead_;
      ahead_.reset();
      reading_ = false;
      lock.unlock();
      changed_.notify_all();
      return item;
    }
    Item item{next_++, nullptr};
    lock.unlock();
    changed_.notify_all();
    read(item);
    return item;
  }

 private:
  void read(Item& item) const {
    try {
      read_(item.index);
    } catch (...) {
      item.failure = std::current_exception();
    }
  }

  void read_ahead() {
    std::unique_lock lock(mutex_);
    while (true) {
      // The threads read for themselves what they begin with.
      changed_.wait(lock, [&] { return ended_ || (!reading_ && next_ >= threads_); });
      if (ended_ || next_ == count_) return;
      reading_ = true;
      Item item{next_++, nullptr};
      lock.unlock();
      read(item);
      lock.lock();
      ahead_ = item;
      changed_.notify_all();
    }
  }

  const std::size_t count_;
  const std::size_t threads_;
  const std::function<void(std::size_t)>& read_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0;
  bool reading_ = false;  // the reader has begun one that no thread has taken yet
  bool is_awaited_ = false;
  std::optional<Item> ahead_;  // what the reader has read
  bool ended_ = false;
  std::thread reader_;
};

}  // namespace

void in_parallel_reading_ahead(std::size_t count, int threads, const std::atomic<bool>& interrupted,
                               const std::function<void(std::size_t)>& read,
                               const std::function<void(std::size_t)>& work) {
  ReadAhead ahead(count, threads, read);
  std::vector<std::exception_ptr> failures(count);
  try {
    in_parallel(count, threads, interrupted, [&](std::size_t) {
      const ReadAhead::Item item = ahead.next();
      try {
        if (item.failure) std::rethrow_exception(item.failure);
        work(item.index);
      } catch (...) {
        failures[item.index] = std::current_exception();
        throw;
      }
    });
  } catch (...) {
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
    throw;
  }
}

}  // namespace kvsim
