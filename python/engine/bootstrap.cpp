#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "python/engine/arrays.h"
#include "python/engine/bindings.h"
#include "sim/results/paired_bootstrap.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// How often each draw takes each of so many samples, [draws, samples].
nb::object bootstrap_counts(std::size_t samples, std::uint64_t seed) {
  std::vector<std::size_t> each(samples);
  std::iota(each.begin(), each.end(), std::size_t{0});
  const PairedBootstrap bootstrap(std::move(each), seed);
  std::vector<double> counts(PairedBootstrap::kDraws * samples);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i - i % samples + bootstrap.drawn()[i]] += 1;
  }
  const double* numbers = counts.data();
  return array_over(numbers, {PairedBootstrap::kDraws, samples}, std::move(counts));
}

}  // namespace

void bind_bootstrap(nb::module_& module) {
  module.attr("BOOTSTRAP_DRAWS") = nb::int_(PairedBootstrap::kDraws);
  module.attr("FEWEST_SAMPLES") = nb::int_(PairedBootstrap::kFewestSamples);
  module.def("bootstrap_counts", &bootstrap_counts, "samples"_a, "seed"_a);
}

}  // namespace kvsim::python
