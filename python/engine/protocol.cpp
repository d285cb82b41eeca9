#include "python/engine/protocol.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "python/engine/bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

Protocol* make_protocol(const nb::kwargs& given) {
  ProtocolOptions options;
  Fields fields;
  add_fields(options, fields);
  fields.take(given);
  return new Protocol(protocol_of(options));
}

/// The options that say when caches evict.
nb::dict evictions_of(const Protocol& protocol) {
  ProtocolOptions options = protocol.options();
  nb::dict found;
  options.each_of_evictions(
      [&](const char* name, const auto& value, const char*) { found[name] = value; });
  return found;
}

}  // namespace

void bind_protocol(nb::module_& module) {
  nb::class_<Protocol>(module, "Protocol")
      .def(nb::new_(&make_protocol))
      .def_static("of_name", &Protocol::of_name, "name"_a)
      .def_prop_ro("name", &Protocol::name)
      .def_prop_ro("mode", [](const Protocol& protocol) { return protocol.options().mode; })
      .def_prop_ro("evictions", &evictions_of)
      .def_prop_ro("evicts_every_step", &Protocol::evicts_every_step)
      .def_prop_ro("evicts_once", &Protocol::evicts_once)
      .def_prop_ro("is_sample",
                   [](const Protocol& protocol) { return protocol.reference == Reference::sample; })
      .def("first_measured", &Protocol::first_measured, "prompt_length"_a)
      .def("most_held", &Protocol::most_held, "budget"_a)
      .def("__eq__", [](const Protocol& one, const Protocol& other) { return one == other; });
}

}  // namespace kvsim::python
