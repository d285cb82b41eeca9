#include "traces/layer_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/sink_logit.h"

namespace kvsim {
namespace {

const std::string kRecordModelAgain = "record the file again, or without /model";

hsize_t extent(int size) { return static_cast<hsize_t>(size); }

int gradient_head(int sample, int kv_head, int member, const TraceHeader& header) {
  return sample * header.num_query_heads + kv_head * header.group_size() + member;
}

/// A dataset [tokens, any], of the layer as a whole; nothing if it is not there or never written.
std::optional<HeadDataset> open_rows(const GroupReader& layer, const std::string& name,
                                     int tokens) {
  if (!layer.contains(name)) return {};
  HeadDataset rows(layer, name, {extent(tokens), HeadDataset::kAnySize});
  if (!rows.contains(0)) return {};
  return rows;
}

}  // namespace

LayerData open_datasets(const GroupReader& layer, const TraceHeader& header, int tokens) {
  const auto open = [&](const std::string& name, int heads, int dim) {
    return HeadDataset(layer, name, {extent(heads), extent(tokens), extent(dim)});
  };
  LayerData data{.query = open("query", header.num_query_heads, header.head_dim),
                 .key = open("key", header.num_kv_heads, header.head_dim),
                 .value = open("value", header.num_kv_heads, header.value_dim)};
  if (layer.contains("output")) {
    data.output = open("output", header.num_query_heads, header.value_dim);
  }
  if (layer.contains("output_score_grad")) {
    data.gradient.emplace(
        layer, "output_score_grad",
        std::vector<hsize_t>{HeadDataset::kAnySize, extent(header.num_query_heads), extent(tokens),
                             extent(header.value_dim)});
    const AttributeReader attributes = data.gradient->attributes();
    data.gradient_scale = attributes.positive("scale");
    attributes.integer("label_seed", 0);
  }
  data.residual = open_rows(layer, "residual", tokens);
  data.mlp_activation = open_rows(layer, "mlp_activation", tokens);
  data.sink_logit = read_sink_logit(layer, header.num_query_heads);
  return data;
}

bool contains_group(const HeadDataset& dataset, int kv_head, const TraceHeader& header) {
  for (int member = 0; member < header.group_size(); ++member) {
    if (!dataset.contains(kv_head * header.group_size() + member)) return false;
  }
  return true;
}

bool contains_gradients(const LayerData& data, int kv_head, const TraceHeader& header) {
  if (!data.gradient) return false;
  const int samples = data.gradient->size(0);
  for (int member = 0; member < header.group_size(); ++member) {
    int written = 0;
    for (int sample = 0; sample < samples; ++sample) {
      written += data.gradient->contains(gradient_head(sample, kv_head, member, header));
    }
    if (written == 0) return false;
    if (written < samples) {
      data.gradient->place().fail(fmt::format("all samples of query head {} or none",
                                              kv_head * header.group_size() + member),
                                  fmt::format("{} of {}", written, samples), data.gradient->fix());
    }
  }
  return true;
}

std::vector<std::vector<Matrix>> read_gradients(const LayerData& data, int kv_head,
                                                const TraceHeader& header) {
  const auto scale = static_cast<float>(data.gradient_scale);
  std::vector<std::vector<Matrix>> gradients(data.gradient->size(0));
  for (int sample = 0; sample < data.gradient->size(0); ++sample) {
    for (int member = 0; member < header.group_size(); ++member) {
      const int head = gradient_head(sample, kv_head, member, header);
      Matrix gradient = data.gradient->read(head) * scale;
      if (!gradient.allFinite()) {
        data.gradient->place().attribute("scale").fail("gradients that fit float32",
                                                       fmt::format("{}", data.gradient_scale),
                                                       data.gradient->fix());
      }
      gradients[sample].push_back(std::move(gradient));
    }
  }
  return gradients;
}

void for_each_rows(const HeadDataset& dataset, const SeeRows& see) {
  const int num_rows = dataset.size(0);
  const int at_once = dataset.rows_at_once();
  HeadDigest digest;
  for (int first = 0; first < num_rows; first += at_once) {
    see(dataset.read_rows(0, first, std::min(at_once, num_rows - first), digest));
  }
}

std::vector<double> residual_squares(const HeadDataset& residual) {
  std::vector<double> squares;
  squares.reserve(residual.size(0));
  for_each_rows(residual, [&](const Matrix& rows) {
    for (Eigen::Index row = 0; row < rows.rows(); ++row) {
      squares.push_back(rows.row(row).cast<double>().squaredNorm());
    }
  });
  return squares;
}

std::optional<HeadDataset> open_projection(const GroupReader& root, const TraceHeader& header,
                                           int layer) {
  if (!root.contains("model")) return {};
  const GroupReader model = root.group("model", kRecordModelAgain);
  if (!model.contains("layers")) return {};
  const GroupReader layers = model.group("layers", kRecordModelAgain);
  const std::string name = fmt::format("{}", layer);
  if (!layers.contains(name)) return {};
  const GroupReader group = layers.group(name, kRecordModelAgain);
  if (!group.contains("output_projection")) return {};
  HeadDataset projection(
      group, "output_projection",
      {extent(header.num_query_heads) * extent(header.value_dim), HeadDataset::kAnySize});
  if (!projection.contains(0)) return {};
  return projection;
}

std::vector<Matrix> read_projection(const HeadDataset& projection, const TraceHeader& header,
                                    const UnitName& name) {
  std::vector<Matrix> heads;
  for (int member = 0; member < header.group_size(); ++member) {
    const int head = name.kv_head * header.group_size() + member;
    heads.push_back(projection.read_rows(0, head * header.value_dim, header.value_dim));
  }
  return heads;
}

}  // namespace kvsim
