#include "tests/support/format_versions.h"

#include <H5Cpp.h>

#include <string>
#include <vector>

#include "tests/support/hdf5_edit.h"
#include "traces/hdf5/hdf5_lock.h"
#include "traces/integrity/format_tree.h"
#include "traces/integrity/seal.h"
#include "traces/text_list.h"
#include "traces/trace.h"

namespace kvsim::traces_test {
namespace {

void remove_digests(const H5::H5File& file) {
  const auto remove = [](hid_t object, const char* name, const H5O_info_t* info, void*) -> herr_t {
    if (info->type != H5O_TYPE_DATASET) return 0;
    const H5::DataSet dataset = H5::Group(object).openDataSet(name);
    if (dataset.attrExists("digests")) dataset.removeAttr("digests");
    return 0;
  };
  H5Ovisit(file.getId(), H5_INDEX_NAME, H5_ITER_NATIVE, remove, nullptr);
}

void write_strings(const H5::H5File& file, const std::string& path,
                   const std::vector<std::string>& texts) {
  H5::StrType type(H5::PredType::C_S1, H5T_VARIABLE);
  type.setCset(H5T_CSET_UTF8);
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  file.unlink(path + "_offsets");
  set_dataset(file, path, type, {texts.size()}).write(pointers.data(), type);
}

}  // namespace

void seal_again(const std::filesystem::path& file) {
  {
    const Hdf5Lock lock;
    remove_digests(edit(file));
  }
  seal_trace(file);
}

void make_version_1(const std::filesystem::path& file, const std::string& id) {
  struct Texts {
    std::string path;
    std::vector<std::string> texts;
  };
  std::vector<Texts> lists;
  Trace(file).with_root([&](const GroupReader& root) {
    for (const DatasetPlace& place : list_datasets(root)) {
      if (place.info->elements != Elements::text) continue;
      const GroupReader group = root.at(place.group);
      const auto offsets = group.dataset(place.name() + "_offsets").getSpace();
      const auto count = static_cast<std::size_t>(offsets.getSimpleExtentNpoints() - 1);
      lists.push_back(
          {place.group + "/" + place.name(), read_text_list(group, place.name(), count)});
    }
  });
  const Hdf5Lock lock;
  const H5::H5File open = edit(file);
  for (const Texts& list : lists) write_strings(open, list.path, list.texts);
  remove_digests(open);
  const H5::Group root = open.openGroup("/");
  open.unlink("/manifest");
  root.removeAttr("trace_id");
  if (!id.empty()) set_text(root, "trace_id", id);
  set_integer(root, "kvtrace_version", 1);
}

}  // namespace kvsim::traces_test
