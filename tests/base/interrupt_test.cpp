#include "sim/base/interrupt.h"

#include <catch2/catch.hpp>

namespace kvsim::interrupt_test {

TEST_CASE("a scope of interrupts ends where it began") {
  const std::atomic<bool> interrupted = true;
  const std::atomic<bool> not_interrupted = false;
  CHECK_NOTHROW(poll_interrupt());
  {
    const InterruptScope outer(&interrupted);
    CHECK_THROWS_AS(poll_interrupt(), Interrupted);
    {
      const InterruptScope same(nullptr);
      CHECK_THROWS_AS(poll_interrupt(), Interrupted);
      const InterruptScope inner(&not_interrupted);
      CHECK_NOTHROW(poll_interrupt());
    }
    CHECK_THROWS_AS(poll_interrupt(), Interrupted);
  }
  CHECK_NOTHROW(poll_interrupt());
}

}  // namespace kvsim::interrupt_test
