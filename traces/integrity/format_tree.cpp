#include "traces/integrity/format_tree.h"

namespace kvsim {
namespace {

/// The attributes that the format knows of one kind of group.
struct KnownAttributes {
  std::vector<std::string> integers;
  std::vector<std::string> numbers;
  std::vector<std::string> texts;
};

const KnownAttributes kRoot{
    {"kvtrace_version", "num_layers", "num_query_heads", "num_kv_heads", "head_dim", "value_dim"},
    {"scale", "logit_softcap"},
    {}};

KnownAttributes known_attributes(Level level) {
  switch (level) {
    case Level::rope:
      return {{}, {"attention_factor"}, {"style"}};
    case Level::sequence:
      return {{"num_tokens", "prompt_length"}, {}, {}};
    case Level::layer:
      return {{"kv_from", "sliding_window", "attention_chunk", "num_query_heads", "num_kv_heads",
               "head_dim", "value_dim"},
              {"scale"},
              {}};
    case Level::model_layer:
    case Level::spans:
      break;
  }
  return {};
}

/// Whether groups of this kind may hold a group `rope`, as the file does.
bool has_rope(Level level) { return level == Level::sequence || level == Level::layer; }

nlohmann::json attributes_of(const GroupReader& group, const KnownAttributes& known) {
  nlohmann::json found = nlohmann::json::object();
  const AttributeReader attributes = group.attributes();
  for (const std::string& name : known.integers) {
    if (attributes.has(name)) found[name] = attributes.integer(name, 0);
  }
  for (const std::string& name : known.numbers) {
    if (attributes.has(name)) found[name] = attributes.positive(name);
  }
  for (const std::string& name : known.texts) {
    if (attributes.has(name)) found[name] = attributes.text(name);
  }
  return found;
}

nlohmann::json members_of(const GroupReader& group, Level level, const DescribeDataset& describe) {
  nlohmann::json found = attributes_of(group, known_attributes(level));
  if (has_rope(level) && group.contains("rope")) {
    found["rope"] = members_of(group.group("rope", group.fix()), Level::rope, describe);
  }
  for (const DatasetInfo& dataset : datasets()) {
    const std::string name(dataset.name);
    if (dataset.level == level && group.contains(name)) found[name] = describe(group, dataset);
  }
  return found;
}

/// The groups of a group, each described by `members`.
template <class Members>
nlohmann::json groups_of(const GroupReader& group, const Members& members) {
  nlohmann::json found = nlohmann::json::object();
  for (const std::string& name : group.names()) {
    found[name] = members(group.group(name, group.fix()));
  }
  return found;
}

}  // namespace

nlohmann::json format_tree(const GroupReader& root, const DescribeDataset& describe) {
  const auto layers_of = [&](const GroupReader& group, Level level, nlohmann::json& found) {
    if (!group.contains("layers")) return;
    found["layers"] = groups_of(group.group("layers", group.fix()), [&](const GroupReader& layer) {
      return members_of(layer, level, describe);
    });
  };
  nlohmann::json tree = attributes_of(root, kRoot);
  if (root.contains("rope")) {
    tree["rope"] = members_of(root.group("rope", root.fix()), Level::rope, describe);
  }
  if (root.contains("model")) {
    nlohmann::json& model = tree["model"] = nlohmann::json::object();
    layers_of(root.group("model", root.fix()), Level::model_layer, model);
  }
  tree["sequences"] = groups_of(root.group("sequences", root.fix()), [&](const GroupReader& group) {
    nlohmann::json sequence = members_of(group, Level::sequence, describe);
    if (group.contains("spans")) {
      sequence["spans"] = members_of(group.group("spans", group.fix()), Level::spans, describe);
    }
    layers_of(group, Level::layer, sequence);
    return sequence;
  });
  return tree;
}

std::vector<DatasetPlace> list_datasets(const GroupReader& root) {
  std::vector<DatasetPlace> found;
  format_tree(root, [&](const GroupReader& group, const DatasetInfo& dataset) {
    found.push_back({group.place().path, &dataset});
    return nlohmann::json();
  });
  return found;
}

}  // namespace kvsim
