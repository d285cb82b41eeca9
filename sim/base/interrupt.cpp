#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

thread_local const std::atomic<bool>* current = nullptr;

}  // namespace

InterruptScope::InterruptScope(const std::atomic<bool>* flag) : outer_(current) {
  if (flag != nullptr) current = flag;
}

InterruptScope::~InterruptScope() { current = outer_; }

void poll_interrupt() {
  if (current != nullptr && current->load(std::memory_order_relaxed)) {
    throw Interrupted("interrupted");
  }
}

}  // namespace kvsim
