#include "traces/integrity/manifest.h"

#include <fmt/format.h>

#include "traces/hdf5/attribute_writer.h"
#include "traces/hdf5/hdf5_type.h"
#include "traces/head_dataset.h"
#include "traces/integrity/digest_attribute.h"
#include "traces/integrity/format_tree.h"
#include "traces/integrity/known_groups.h"
#include "traces/sha256.h"

namespace kvsim {
namespace {

using nlohmann::json;

constexpr const char* kManifest = "manifest";
constexpr const char* kTraceId = "trace_id";
const std::string kCopyAgain = "copy the file again";

void require_digests(const std::vector<std::uint64_t>& digests, const Place& place) {
  if (digests.empty())
    place.attribute("digests").fail("one number per head", "nothing", kCopyAgain);
}

json describe_matrices(const GroupReader& group, const DatasetInfo& info) {
  const HeadDataset dataset = HeadDataset::of_any_size(group, info);
  require_digests(dataset.digests(), dataset.place());
  json digests = json::array();
  for (int head = 0; head < dataset.num_heads(); ++head) {
    const std::uint64_t digest = dataset.digests()[static_cast<std::size_t>(head)];
    const bool is_there = dataset.contains(head);
    if (!is_there && digest != 0) {
      dataset.place().fail(fmt::format("head {} with digest {}", head, digest_name(digest)),
                           "nothing of it", kCopyAgain);
    }
    digests.push_back(is_there ? json(digest_name(digest)) : json(nullptr));
  }
  json found{{"type", fmt::format("float{}", 8 * dataset.element_bytes())},
             {"shape", dataset.shape()},
             {"digests", std::move(digests)}};
  const AttributeReader attributes = dataset.attributes();
  if (attributes.has("scale")) found["scale"] = attributes.positive("scale");
  if (attributes.has("label_seed")) found["label_seed"] = attributes.integer("label_seed", 0);
  return found;
}

json describe_list(const GroupReader& group, const DatasetInfo& info) {
  const std::string name(info.name);
  const H5::DataSet dataset = group.dataset(name);
  const Place place = group.place().child(name);
  const H5::DataSpace space = dataset.getSpace();
  if (space.getSimpleExtentNdims() != info.num_axes()) {
    place.fail(info.num_axes() == 1 ? "a list" : "a matrix", shape_name(space), group.fix());
  }
  std::vector<hsize_t> shape(static_cast<std::size_t>(info.num_axes()));
  space.getSimpleExtentDims(shape.data());
  const auto digests = read_digests(dataset, 1, place, group.fix());
  require_digests(digests, place);
  return {{"type", type_name(dataset.getDataType())},
          {"shape", shape},
          {"digests", json::array({digest_name(digests.front())})}};
}

json describe_file(const GroupReader& root) {
  return format_tree(root, [](const GroupReader& group, const DatasetInfo& dataset) {
    return dataset.is_matrices() ? describe_matrices(group, dataset)
                                 : describe_list(group, dataset);
  });
}

std::string text_of(const json& tree, const GroupReader& root) {
  try {
    return tree.dump();
  } catch (const json::exception&) {
    root.place().child("sequences").fail("names in UTF-8", "other bytes", root.fix());
  }
}

std::string read_manifest(const GroupReader& root) {
  const Place place = root.place().child(kManifest);
  const H5::DataSet dataset = root.dataset(kManifest);
  const H5::DataSpace space = dataset.getSpace();
  const auto size = static_cast<hsize_t>(space.getSimpleExtentNpoints());
  // The bytes are in the file as they are, so that a damaged size takes no memory.
  if (dataset.getDataType() != H5::PredType::STD_U8LE || space.getSimpleExtentNdims() != 1 ||
      dataset.getCreatePlist().getLayout() != H5D_CONTIGUOUS || dataset.getStorageSize() != size) {
    place.fail("uint8 [bytes], contiguous",
               fmt::format("{} {}", type_name(dataset.getDataType()), shape_name(space)),
               kCopyAgain);
  }
  std::string text(size, '\0');
  if (size > 0) dataset.read(text.data(), H5::PredType::NATIVE_UINT8);
  return text;
}

/// What stands there, in a word if it is more than a value.
std::string at(const json& tree, const json::json_pointer& place) {
  if (!tree.contains(place)) return "nothing";
  const json& found = tree.at(place);
  if (found.is_object()) return found.contains("digests") ? "a dataset" : "a group";
  if (found.is_array()) return fmt::format("{} entries", found.size());
  if (found.is_null()) return "no such head";
  return found.is_string() ? in_quotes(found.get<std::string>()) : found.dump();
}

/// Names the first place where the file is not what its manifest lists.
[[noreturn]] void fail_at_difference(const std::string& manifest, const json& tree,
                                     const GroupReader& root) {
  const Place place = root.place().child(kManifest);
  const json listed = json::parse(manifest, nullptr, false);
  if (listed.is_discarded()) place.fail("JSON", "other bytes", kCopyAgain);
  const json differences = json::diff(listed, tree);
  if (differences.empty()) {
    place.fail("sorted JSON without spaces", "the same in another form", kCopyAgain);
  }
  // An element of an array may be said to be removed at its end: the array is what differs.
  const auto pointer = json::json_pointer(differences.front().at("path").get<std::string>());
  place.fail(fmt::format("{} at {}, as listed", at(listed, pointer), pointer.to_string()),
             at(tree, pointer), "the file is not what was recorded: " + kCopyAgain);
}

/// Nothing that was recorded may be missing in the manifest.
void refuse_unknown_members(const GroupReader& root) {
  const std::vector<std::string> unknown = unknown_members(root);
  if (unknown.empty()) return;
  root.place().child(kManifest).fail("all of the file to be of the format",
                                     unknown.front() + ", which it does not know",
                                     "remove it, or declare it in traces/datasets.cpp");
}

}  // namespace

std::string make_manifest(const GroupReader& root) { return text_of(describe_file(root), root); }

std::string check_manifest(const GroupReader& root) {
  std::string manifest = read_manifest(root);
  const json tree = describe_file(root);
  if (manifest != text_of(tree, root)) fail_at_difference(manifest, tree, root);
  return manifest;
}

std::string check_trace_id(const GroupReader& root, const std::string& manifest) {
  std::string found = root.attributes().text(kTraceId);
  if (const std::string id = sha256(manifest); found != id) {
    root.place().attribute(kTraceId).fail(in_quotes(id) + ", the SHA-256 of /manifest",
                                          in_quotes(found), kCopyAgain);
  }
  return found;
}

void write_manifest(const GroupReader& root) {
  refuse_unknown_members(root);
  const H5::Group& group = root.hdf5();
  if (root.contains(kManifest)) group.unlink(kManifest);
  if (group.attrExists(kTraceId)) group.removeAttr(kTraceId);
  const std::string manifest = make_manifest(root);
  const hsize_t size = manifest.size();
  H5::DSetCreatPropList properties;
  H5Pset_obj_track_times(properties.getId(), false);
  group.createDataSet(kManifest, H5::PredType::STD_U8LE, H5::DataSpace(1, &size), properties)
      .write(manifest.data(), H5::PredType::NATIVE_UINT8);
  write_attribute(group, kTraceId, sha256(manifest));
}

}  // namespace kvsim
