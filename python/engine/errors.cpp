#include "sim/base/errors.h"

#include "python/engine/bindings.h"
#include "sim/base/printable.h"
#include "sim/replay/replay.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

// Errors in Python are one line, as those of the program.
void raise(const char* type, const char* message) {
  const nb::object error = nb::module_::import_("kvsim.errors").attr(type);
  PyErr_SetString(error.ptr(), error_line(message).c_str());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const UsageError& error) {
    raise("UsageError", error.what());
  } catch (const DataError& error) {
    raise("DataError", error.what());
  } catch (const Interrupted& error) {
    PyErr_SetString(PyExc_KeyboardInterrupt, error.what());
  } catch (const nb::builtin_exception&) {
    throw;
  } catch (const nb::python_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    raise("KvsimError", error.what());
  }
}

}  // namespace

void bind_errors() { nb::register_exception_translator(&translate); }

}  // namespace kvsim::python
