#include "traces/integrity/known_groups.h"

#include <algorithm>
#include <set>

#include "traces/integrity/format_tree.h"

namespace kvsim {
namespace {

using nlohmann::json;

/// Attributes that describe, which the tree does not list, and those of the file itself.
const std::set<std::string> kDescriptive = {"model", "recorder", "dtype", "source"};
const std::set<std::string> kOfFile = {"kvtrace_version", "trace_id", "trace_id_v1"};

/// The tree of the file: groups are objects, datasets are null.
json tree_of(const GroupReader& root) {
  return format_tree(root, [](const GroupReader&, const DatasetInfo&) { return json(); });
}

/// Calls `see` for the group with its tree, then for all groups below it.
template <class See>
void for_each_known(const GroupReader& group, const json& tree, const See& see) {
  see(group, tree);
  for (const auto& [name, member] : tree.items()) {
    if (member.is_object()) for_each_known(group.group(name, group.fix()), member, see);
  }
}

KnownGroup described(const GroupReader& group, const json& tree) {
  KnownGroup known{group.place().path};
  for (const auto& [name, member] : tree.items()) {
    if (kOfFile.contains(name)) continue;
    if (member.is_number_float()) known.numbers[name] = member;
    if (member.is_number_integer()) known.integers[name] = member;
    if (member.is_string()) known.texts[name] = member;
  }
  const AttributeReader attributes = group.attributes();
  for (const std::string& name : kDescriptive) {
    if (attributes.has(name)) known.texts[name] = attributes.text(name);
  }
  return known;
}

}  // namespace

std::vector<KnownGroup> known_groups(const GroupReader& root) {
  std::vector<KnownGroup> groups;
  for_each_known(root, tree_of(root), [&](const GroupReader& group, const json& tree) {
    groups.push_back(described(group, tree));
  });
  return groups;
}

std::vector<std::string> unknown_members(const GroupReader& root) {
  std::vector<std::string> unknown;
  for_each_known(root, tree_of(root), [&](const GroupReader& group, const json& tree) {
    const bool is_root = group.place().path == "/";
    for (const std::string& name : group.names()) {
      const bool is_manifest = is_root && name == "manifest";
      if (!tree.contains(name) && !is_manifest) unknown.push_back(group.place().child(name).path);
    }
    for (int i = 0; i < group.hdf5().getNumAttrs(); ++i) {
      const std::string name = group.hdf5().openAttribute(static_cast<unsigned>(i)).getName();
      const bool is_known =
          tree.contains(name) || kDescriptive.contains(name) || (is_root && kOfFile.contains(name));
      if (!is_known) unknown.push_back(group.place().attribute(name).path);
    }
  });
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

}  // namespace kvsim
