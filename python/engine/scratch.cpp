#include "python/engine/scratch.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace kvsim::python {
namespace {

void warn(const std::string& line) {
  if (Py_IsInitialized() == 0) return;
  const nb::gil_scoped_acquire lock;
  try {
    const nb::object kind = nb::module_::import_("kvsim.errors").attr("KvsimWarning");
    nb::module_::import_("warnings").attr("warn")(line.c_str(), kind);
  } catch (nb::python_error& error) {  // warnings are errors, but the rows are where the line says
    error.discard_as_unraisable("kvsim");
  }
}

}  // namespace

Scratch scratch_in(const std::string& folder) {
  Scratch scratch;
  scratch.folder = folder;
  scratch.tell = [](const std::string& line) { warn(line); };  // whose type only we know
  return scratch;
}

}  // namespace kvsim::python
