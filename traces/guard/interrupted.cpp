#include "traces/guard/interrupted.h"

#include <utility>

namespace kvsim {
namespace {

thread_local const InterruptCheck* newest = nullptr;

}  // namespace

InterruptCheck::InterruptCheck(std::function<void()> check)
    : check_(std::move(check)), outer_(std::exchange(newest, this)) {}

InterruptCheck::~InterruptCheck() { newest = outer_; }

void InterruptCheck::call() {
  if (newest != nullptr) newest->check_();
}

}  // namespace kvsim
