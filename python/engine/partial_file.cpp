#include "traces/output/partial_file.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>

#include "python/engine/bindings.h"
#include "traces/hdf5/digest.h"
#include "traces/hdf5/pack_chunk.h"
#include "traces/output/partial_name.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// A PartialFile that Python ends when it wants, not when it collects garbage.
class OwnFile {
 public:
  explicit OwnFile(const std::string& target) : file_(std::make_unique<PartialFile>(target)) {}

  std::string path() const { return file_->path(); }
  void reserve(std::uint64_t bytes) const { file_->reserve(bytes); }
  void commit() { file_->commit(); }
  /// After commit() it does nothing.
  void discard() { file_.reset(); }

 private:
  std::unique_ptr<PartialFile> file_;
};

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::bytes packed(const Bytes& numbers, std::size_t width) {
  PackedChunk chunk;
  {
    const nb::gil_scoped_release release;
    chunk = pack_chunk({numbers.data(), numbers.size()}, width);
  }
  return nb::bytes(chunk.bytes.get(), chunk.size);
}

}  // namespace

void bind_partial_file(nb::module_& module) {
  const auto alone = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<OwnFile>(module, "PartialFile")
      .def(nb::init<const std::string&>(), "target"_a)
      .def_prop_ro("path", &OwnFile::path)
      .def("reserve", &OwnFile::reserve, "bytes"_a)
      .def("commit", &OwnFile::commit, alone)
      .def("discard", &OwnFile::discard);
  module.def("pack_chunk", &packed, "numbers"_a, "width"_a);
  nb::class_<Digest>(module, "Digest")
      .def(nb::init<>())
      .def(
          "update",
          [](Digest& digest, const Bytes& bytes) { digest.update(bytes.data(), bytes.size()); },
          "bytes"_a, alone)
      .def("value", &Digest::value);
  module.def(
      "own_partial_prefix", [](const std::string& target) { return own_partial_prefix(target); },
      "target"_a);
  module.def(
      "remove_left_behind", [](const std::string& target) { remove_left_behind(target); },
      "target"_a);
}

}  // namespace kvsim::python
