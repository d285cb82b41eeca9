#include "traces/integrity/seal.h"

#include <fmt/format.h>

#include <stdexcept>

#include "traces/hdf5/hdf5_lock.h"
#include "traces/hdf5/open_hdf5.h"
#include "traces/head_dataset.h"
#include "traces/integrity/digest_attribute.h"
#include "traces/integrity/format_tree.h"
#include "traces/integrity/manifest.h"

namespace kvsim {
namespace {

const std::string kFix = "write the file again";

/// A file that is open to be written.
struct OpenFile {
  explicit OpenFile(const std::string& name)
      : file(name, H5F_ACC_RDWR, H5::FileCreatPropList::DEFAULT,
             with_checksums(FileLocking::where_supported)),
        root({name, "/"}, file.openGroup("/"), kFix) {
    root.refuse_variable_strings();
  }

  H5::H5File file;
  GroupReader root;
};

/// Runs `action` under the lock.
template <class Action>
auto with_hdf5(const std::filesystem::path& file, const Action& action) {
  const Hdf5Lock lock;
  try {
    return action();
  } catch (const H5::Exception& error) {
    throw std::runtime_error(
        fmt::format("{}: cannot be written: {}", file.string(), error.getDetailMsg()));
  }
}

void seal_list(const GroupReader& group, const std::string& name) {
  const H5::DataSet dataset = group.dataset(name);
  if (!read_digests(dataset, 1, group.place().child(name), group.fix()).empty()) return;
  const auto bytes = read_elements(dataset, group.place().child(name), group.fix());
  Digest digest;
  digest.update(bytes.data(), bytes.size());
  write_digests(dataset, {digest.value()});
}

}  // namespace

void seal_trace(const std::filesystem::path& file) {
  const auto locked = [&](const auto& action) { return with_hdf5(file, action); };
  std::vector<DatasetPlace> places;
  ClosedUnderLock<OpenFile> open;  // outlives the lock, also where list_datasets() throws
  locked([&] {
    open.reset(new OpenFile(file.string()));
    places = list_datasets(open->root);
  });
  for (const DatasetPlace& place : places) {
    const auto heads = locked([&]() -> ClosedUnderLock<HeadDataset> {
      const GroupReader group = open->root.at(place.group);
      if (place.info->is_matrices()) {
        return ClosedUnderLock<HeadDataset>(
            new HeadDataset(HeadDataset::of_any_size(group, *place.info)));
      }
      seal_list(group, place.name());
      return nullptr;
    });
    if (!heads || !heads->digests().empty()) continue;
    std::vector<std::uint64_t> digests;
    for (int head = 0; head < heads->num_heads(); ++head) {
      const bool is_written = locked([&] { return heads->contains(head); });
      digests.push_back(is_written ? heads->digest_of(head) : 0);
    }
    locked([&] { write_digests(open->root.at(place.group).dataset(place.name()), digests); });
  }
  locked([&] {
    write_manifest(open->root);
    H5Fflush(open->file.getId(), H5F_SCOPE_GLOBAL);
  });
}

}  // namespace kvsim
