#include "traces/layer_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "traces/selected_dataset.h"
#include "traces/sink_logit.h"

namespace kvsim {
namespace {

const std::string kRecordModelAgain = "record the file again, or without /model";

hsize_t size_of(const Axis& axis, const LayerShape& shape, int tokens) {
  const auto size = [](int number) { return static_cast<hsize_t>(number); };
  switch (axis.size) {
    case Axis::Size::query_heads:
      return size(shape.num_query_heads);
    case Axis::Size::kv_heads:
      return size(shape.num_kv_heads);
    case Axis::Size::tokens:
      return size(tokens);
    case Axis::Size::head_dim:
      return size(shape.head_dim);
    case Axis::Size::value_dim:
      return size(shape.value_dim);
    case Axis::Size::head_outputs:
      return size(shape.num_query_heads) * size(shape.value_dim);
    case Axis::Size::any:
      break;
  }
  return HeadDataset::kAnySize;
}

/// Opens a declared dataset of a group. Nothing if it is optional and not there, or there as a
/// whole and never written.
std::optional<HeadDataset> open_declared(const GroupReader& group, const DatasetInfo& info,
                                         const LayerShape& shape, int tokens) {
  const std::string name(info.name);
  if (info.optional && !group.contains(name)) return {};
  std::vector<hsize_t> sizes;
  for (int axis = 0; axis < info.num_axes(); ++axis) {
    sizes.push_back(size_of(info.axes[axis], shape, tokens));
  }
  HeadDataset opened(group, name, sizes);
  if (info.is_whole() && !opened.contains(0)) return {};
  return opened;
}

int gradient_head(int sample, int kv_head, int member, const LayerShape& shape) {
  return sample * shape.num_query_heads + kv_head * shape.group_size() + member;
}

/// Throws DataError if a layer that reads the cache of another one has its own.
void require_no_cache(const GroupReader& layer, const LayerInfo& info) {
  for (const Dataset dataset : {Dataset::key, Dataset::value}) {
    const std::string name(info_of(dataset).name);
    if (!layer.contains(name)) continue;
    layer.place().child(name).fail(
        fmt::format("none, as the layer reads those of layer {}", *info.kv_from), "a dataset",
        layer.fix());
  }
}

}  // namespace

const HeadDataset* LayerData::find(Dataset dataset) const {
  const auto found = matrices.find(dataset);
  return found == matrices.end() ? nullptr : &found->second;
}

LayerData open_datasets(const GroupReader& layer, const LayerInfo& info, int tokens) {
  LayerData data;
  if (info.kv_from) require_no_cache(layer, info);
  for (const DatasetInfo& dataset : datasets()) {
    if (dataset.level != Level::layer || !dataset.is_matrices()) continue;
    if (info.kv_from && (dataset.id == Dataset::key || dataset.id == Dataset::value)) continue;
    if (auto opened = open_declared(layer, dataset, info.shape, tokens)) {
      data.matrices.emplace(dataset.id, std::move(*opened));
    }
  }
  if (const HeadDataset* const gradient = data.find(Dataset::output_score_grad)) {
    const AttributeReader attributes = gradient->attributes();
    data.gradient_scale = attributes.positive("scale");
    attributes.integer("label_seed", 0);
  }
  data.sink_logit = read_sink_logit(layer, info.shape.num_query_heads);
  data.selected = shape_of_selected(layer, tokens);
  return data;
}

bool contains_unit(const LayerData& data, Dataset dataset, int kv_head, const LayerShape& shape) {
  const HeadDataset* const found = data.find(dataset);
  if (found == nullptr) return false;
  const int heads = found->size(static_cast<int>(found->shape().size()) - 3);
  const int samples = found->num_heads() / heads;
  const int of_unit = heads / shape.num_kv_heads;
  for (int head = kv_head * of_unit; head < (kv_head + 1) * of_unit; ++head) {
    int written = 0;
    for (int sample = 0; sample < samples; ++sample) {
      written += found->contains(sample * heads + head);
    }
    if (written == 0) return false;
    if (written < samples) {
      found->place().fail(fmt::format("all samples of query head {} or none", head),
                          fmt::format("{} of {}", written, samples), found->fix());
    }
  }
  return true;
}

std::vector<std::vector<Matrix>> read_gradients(const LayerData& data, int kv_head,
                                                const LayerShape& shape) {
  const HeadDataset& stored = data.matrices.at(Dataset::output_score_grad);
  const auto scale = static_cast<float>(data.gradient_scale);
  std::vector<std::vector<Matrix>> gradients(stored.size(0));
  for (int sample = 0; sample < stored.size(0); ++sample) {
    for (int member = 0; member < shape.group_size(); ++member) {
      Matrix gradient = stored.read(gradient_head(sample, kv_head, member, shape)) * scale;
      if (!gradient.allFinite()) {
        stored.place().attribute("scale").fail(
            "gradients that fit float32", fmt::format("{}", data.gradient_scale), stored.fix());
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

std::optional<HeadDataset> open_projection(const GroupReader& root, const LayerShape& shape,
                                           int layer) {
  if (!root.contains("model")) return {};
  const GroupReader model = root.group("model", kRecordModelAgain);
  if (!model.contains("layers")) return {};
  const GroupReader layers = model.group("layers", kRecordModelAgain);
  const std::string name = fmt::format("{}", layer);
  if (!layers.contains(name)) return {};
  const GroupReader group = layers.group(name, kRecordModelAgain);
  return open_declared(group, info_of(Dataset::output_projection), shape, 0);
}

std::vector<Matrix> read_projection(const HeadDataset& projection, const LayerShape& shape,
                                    const UnitName& name) {
  std::vector<Matrix> heads;
  for (int member = 0; member < shape.group_size(); ++member) {
    const int head = name.kv_head * shape.group_size() + member;
    heads.push_back(projection.read_rows(0, head * shape.value_dim, shape.value_dim));
  }
  return heads;
}

}  // namespace kvsim
