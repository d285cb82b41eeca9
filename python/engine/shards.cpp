#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "python/engine/bindings.h"
#include "sim/sweep/shards/shard.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {

void bind_shards(nb::module_& module) {
  module.def(
      "parse_shard",
      [](const std::string& text) {
        const Shard shard = parse_shard(text);
        return std::pair(shard.index, shard.count);
      },
      "text"_a);
  module.def("partition", &partition, "costs"_a, "count"_a);
}

}  // namespace kvsim::python
