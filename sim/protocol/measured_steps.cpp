#include "sim/protocol/measured_steps.h"

#include <algorithm>
#include <cstdint>

namespace kvsim {

// Whether a multiple of M / N lies above the number of the step before and not above its own.
bool MeasuredSteps::samples(int step) const {
  const std::int64_t all = num_tokens_ - first_;
  const std::int64_t before = step - first_;
  return (before + 1) * protocol_.samples / all > before * protocol_.samples / all;
}

int MeasuredSteps::count() const {
  if (!protocol_.measures()) return 0;
  return protocol_.reference == Reference::sample ? protocol_.samples : num_tokens_ - first_;
}

int MeasuredSteps::num_errors() const {
  const int steps = count();
  return steps == 0 ? 0 : (steps - 1) / protocol_.error_stride + 1;
}

int MeasuredSteps::together(int step, int most) const {
  const int count = std::min(most, num_tokens_ - step);
  if (protocol_.reference != Reference::sample) return count;
  if (measures(step)) return 1;
  int before = 1;
  while (before < count && !measures(step + before)) ++before;
  return before;
}

}  // namespace kvsim
