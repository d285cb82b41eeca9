#include "traces/datasets.h"

#include <algorithm>
#include <iterator>

namespace kvsim {
namespace {

constexpr Axis kQueryHeads{"num_query_heads", Axis::Size::query_heads};
constexpr Axis kKvHeads{"num_kv_heads", Axis::Size::kv_heads};
constexpr Axis kTokens{"n", Axis::Size::tokens};
constexpr Axis kHeadDim{"head_dim", Axis::Size::head_dim};
constexpr Axis kValueDim{"value_dim", Axis::Size::value_dim};
constexpr Axis kHeadOutputs{"num_query_heads * value_dim", Axis::Size::head_outputs};

constexpr std::string_view kRecordStream =
    "record the trace with --also output_projection,residual";

constexpr DatasetInfo kDatasets[] = {
    {.id = Dataset::inv_freq,
     .name = "inv_freq",
     .level = Level::rope,
     .elements = Elements::float64,
     .axes = {Axis{"rotary_dim / 2"}},
     .optional = false,
     .holds = "the angle of each pair of dimensions per position, in radians"},
    {.id = Dataset::token_ids,
     .name = "token_ids",
     .level = Level::sequence,
     .elements = Elements::int32,
     .axes = {kTokens},
     .holds = "the tokens",
     .title = "the tokens",
     .cure = "record them"},
    {.id = Dataset::token_text,
     .name = "token_text",
     .level = Level::sequence,
     .elements = Elements::text,
     .axes = {Axis{"bytes"}},
     .holds = "the texts of all tokens in UTF-8, one after the other"},
    {.id = Dataset::token_text_offsets,
     .name = "token_text_offsets",
     .level = Level::sequence,
     .elements = Elements::offsets,
     .axes = {Axis{"n + 1"}},
     .holds = "with it: where each text begins, and where the last one ends"},
    {.id = Dataset::span_start,
     .name = "start",
     .level = Level::spans,
     .elements = Elements::int32,
     .axes = {Axis{"m"}},
     .optional = false,
     .holds = "the first token of each labelled part of the text"},
    {.id = Dataset::span_end,
     .name = "end",
     .level = Level::spans,
     .elements = Elements::int32,
     .axes = {Axis{"m"}},
     .optional = false,
     .holds = "the token after its last"},
    {.id = Dataset::span_label,
     .name = "label",
     .level = Level::spans,
     .elements = Elements::text,
     .axes = {Axis{"bytes"}},
     .optional = false,
     .holds = "its label, as token text"},
    {.id = Dataset::span_label_offsets,
     .name = "label_offsets",
     .level = Level::spans,
     .elements = Elements::offsets,
     .axes = {Axis{"m + 1"}},
     .optional = false,
     .holds = "as those of token text"},
    {.id = Dataset::query,
     .name = "query",
     .level = Level::layer,
     .axes = {kQueryHeads, kTokens, kHeadDim},
     .optional = false,
     .holds = "the queries after positional rotation, before scaling"},
    {.id = Dataset::key,
     .name = "key",
     .level = Level::layer,
     .axes = {kKvHeads, kTokens, kHeadDim},
     .optional = false,
     .holds = "the keys after positional rotation"},
    {.id = Dataset::value,
     .name = "value",
     .level = Level::layer,
     .axes = {kKvHeads, kTokens, kValueDim},
     .optional = false,
     .holds = "the values"},
    {.id = Dataset::output,
     .name = "output",
     .level = Level::layer,
     .axes = {kQueryHeads, kTokens, kValueDim},
     .holds = "the outputs of the model's heads, before the output projection"},
    {.id = Dataset::sink_logit,
     .name = "sink_logit",
     .level = Level::layer,
     .axes = {kQueryHeads},
     .holds = "a learned logit per query head that takes its share of every softmax and gives no "
              "value (gpt-oss)"},
    {.id = Dataset::selected,
     .name = "selected",
     .level = Level::layer,
     .elements = Elements::int32,
     .axes = {kTokens, Axis{"K"}},
     .holds = "the tokens that the model itself selected at each step, which sees no others: "
              "ascending, -1 behind (DeepSeek-V3.2)",
     .title = "what the model selected",
     .cure = "record a model that selects",
     .shown_axis = 1},
    {.id = Dataset::output_projection,
     .name = "output_projection",
     .level = Level::model_layer,
     .axes = {kHeadOutputs, Axis{"hidden"}},
     .holds = "the output projection W_O, a row per number of the heads' outputs, head by head",
     .title = "the output projection",
     .cure = kRecordStream,
     .shown_axis = 1},
    {.id = Dataset::residual,
     .name = "residual",
     .level = Level::layer,
     .axes = {kTokens, Axis{"hidden"}},
     .holds = "the residual stream that the layer's attention output is added to",
     .title = "the residual stream",
     .cure = kRecordStream},
    {.id = Dataset::output_score_grad,
     .name = "output_score_grad",
     .level = Level::layer,
     .axes = {Axis{"S"}, kQueryHeads, kTokens, kValueDim},
     .holds = "gradients with respect to the head outputs, over `scale`; attributes `scale`, "
              "`label_seed`",
     .title = "the gradients",
     .cure = "record the trace with --also output_score_grad",
     .shown_axis = 0},
    {.id = Dataset::mlp_activation,
     .name = "mlp_activation",
     .level = Level::layer,
     .axes = {kTokens, Axis{"width"}},
     .holds = "what the neurons of the layer's MLP gave after their nonlinearity",
     .title = "what the MLP's neurons gave",
     .cure = "record the trace with --also mlp_activation",
     .shown_axis = 1},
};

constexpr bool are_in_order() {
  for (std::size_t i = 0; i < std::size(kDatasets); ++i) {
    if (kDatasets[i].id != static_cast<Dataset>(i)) return false;
  }
  return true;
}
static_assert(are_in_order(), "info_of() takes the number of a dataset for its place");

std::string_view type_name(Elements elements) {
  switch (elements) {
    case Elements::vectors:
      return "";
    case Elements::float64:
      return "float64 ";
    case Elements::int32:
      return "int32 ";
    case Elements::text:
      return "uint8 ";
    case Elements::offsets:
      return "int64 ";
  }
  return "";
}

}  // namespace

int DatasetInfo::num_axes() const {
  return static_cast<int>(
      std::count_if(axes.begin(), axes.end(), [](const Axis& axis) { return !axis.name.empty(); }));
}

std::span<const DatasetInfo> datasets() { return kDatasets; }

const DatasetInfo& info_of(Dataset dataset) { return kDatasets[static_cast<std::size_t>(dataset)]; }

std::string type_and_shape(const DatasetInfo& info) {
  std::string text;
  for (const Axis& axis : info.axes) {
    if (axis.name.empty()) continue;
    text += (text.empty() ? "" : ", ") + std::string(axis.name);
  }
  return std::string(type_name(info.elements)) + "[" + text + "]";
}

std::string group_path(Level level) {
  switch (level) {
    case Level::rope:
      return "/rope";
    case Level::model_layer:
      return "/model/layers/<l>";
    case Level::sequence:
      return "/sequences/<name>";
    case Level::spans:
      return "/sequences/<name>/spans";
    case Level::layer:
      return "/sequences/<name>/layers/<l>";
  }
  return "";
}

std::string path_of(const DatasetInfo& info, const std::string& sequence, int layer) {
  std::string path = group_path(info.level);
  const auto replace = [&](std::string_view placeholder, const std::string& by) {
    const std::size_t at = path.find(placeholder);
    if (at != std::string::npos) path.replace(at, placeholder.size(), by);
  };
  replace("<l>", std::to_string(layer));
  replace("<name>", sequence);
  return path + "/" + std::string(info.name);
}

}  // namespace kvsim
