#include "traces/integrity/format_tree.h"

#include <utility>

namespace kvsim {
namespace {

/// What the format knows of one kind of group.
struct KnownMembers {
  std::vector<std::string> integers;
  std::vector<std::string> numbers;
  std::vector<std::string> texts;
  std::vector<std::pair<std::string, int>> datasets;  ///< and their head axes
};

const KnownMembers kRoot{
    {"kvtrace_version", "num_layers", "num_query_heads", "num_kv_heads", "head_dim", "value_dim"},
    {"scale", "logit_softcap"},
    {},
    {}};
const KnownMembers kRope{{}, {"attention_factor"}, {"style"}, {{"inv_freq", 0}}};
const KnownMembers kModelLayer{{}, {}, {}, {{"output_projection", 2}}};
const KnownMembers kSequence{{"num_tokens", "prompt_length"},
                             {},
                             {},
                             {{"token_ids", 0}, {"token_text", 0}, {"token_text_offsets", 0}}};
const KnownMembers kSpans{
    {}, {}, {}, {{"start", 0}, {"end", 0}, {"label", 0}, {"label_offsets", 0}}};
const KnownMembers kLayer{{"sliding_window", "attention_chunk"},
                          {},
                          {},
                          {{"query", 3},
                           {"key", 3},
                           {"value", 3},
                           {"output", 3},
                           {"sink_logit", 0},
                           {"residual", 2},
                           {"output_score_grad", 4},
                           {"mlp_activation", 2}}};

nlohmann::json members_of(const GroupReader& group, const KnownMembers& known,
                          const DescribeDataset& describe) {
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
  for (const auto& [name, head_axes] : known.datasets) {
    if (group.contains(name)) found[name] = describe(group, name, head_axes);
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
  const auto with = [&](const KnownMembers& known) {
    return [&](const GroupReader& group) { return members_of(group, known, describe); };
  };
  const auto layers_of = [&](const GroupReader& group, const KnownMembers& known,
                             nlohmann::json& found) {
    if (!group.contains("layers")) return;
    found["layers"] = groups_of(group.group("layers", group.fix()), with(known));
  };
  nlohmann::json tree = members_of(root, kRoot, describe);
  if (root.contains("rope")) {
    tree["rope"] = members_of(root.group("rope", root.fix()), kRope, describe);
  }
  if (root.contains("model")) {
    nlohmann::json& model = tree["model"] = nlohmann::json::object();
    layers_of(root.group("model", root.fix()), kModelLayer, model);
  }
  tree["sequences"] = groups_of(root.group("sequences", root.fix()), [&](const GroupReader& group) {
    nlohmann::json sequence = members_of(group, kSequence, describe);
    if (group.contains("spans")) {
      sequence["spans"] = members_of(group.group("spans", group.fix()), kSpans, describe);
    }
    layers_of(group, kLayer, sequence);
    return sequence;
  });
  return tree;
}

std::vector<DatasetName> list_datasets(const GroupReader& root) {
  std::vector<DatasetName> datasets;
  format_tree(root, [&](const GroupReader& group, const std::string& name, int head_axes) {
    datasets.push_back({group.place().path, name, head_axes});
    return nlohmann::json();
  });
  return datasets;
}

}  // namespace kvsim
