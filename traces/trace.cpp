#include "traces/trace.h"

#include <fmt/format.h>

#include <mutex>

#include "traces/first_reading.h"
#include "traces/guard/guard.h"
#include "traces/hdf5/open_hdf5.h"
#include "traces/sha256.h"
#include "traces/tokens.h"
#include "traces/trace_state.h"

namespace kvsim {
namespace {

const std::string kRecordFileAgain = "record the file again";
const std::string kCopyOrRecordAgain = "copy it again or " + kRecordFileAgain;

/// Adds the query heads of a layer that belong to the unit's KV head, with their sinks.
void add_queries(const LayerData& data, const LayerInfo& layer, bool vectors, Unit& unit) {
  const int group_size = layer.shape.group_size();
  for (int member = 0; member < group_size; ++member) {
    const int head = unit.name.kv_head * group_size + member;
    unit.query.push_back(vectors ? data.query().read(head) : Matrix(0, layer.shape.head_dim));
    if (!data.sink_logit.empty()) unit.sink_logit.push_back(data.sink_logit[head]);
  }
}

/// Adds what another layer has of each sample.
void add_samples(std::vector<std::vector<Matrix>> added,
                 std::vector<std::vector<Matrix>>& samples) {
  samples.resize(added.size());
  for (std::size_t sample = 0; sample < added.size(); ++sample) {
    for (Matrix& head : added[sample]) samples[sample].push_back(std::move(head));
  }
}

}  // namespace

Trace::Trace(const std::filesystem::path& file) : Trace(file, GuardLimits::of(file)) {}

Trace::Trace(const std::filesystem::path& file, const GuardLimits& limits)
    : file_(std::make_shared<File>(file)) {
  const auto open = [&file](File& opened) {
    opened.with_hdf5([&] {
      opened.open(
          open_hdf5(file, {.kind = "a trace file",
                           .make = "python -m kvsim.record writes one of a model and a text, "
                                   "kvsim synth a synthetic one",
                           .repair = kRecordFileAgain}));
    });
  };
  try_in_child(file.string(), kCopyOrRecordAgain, limits, [&] {
    File tried(file);
    open(tried);
    read_by_library(*tried.root, tried.sequences);
  });
  open(*file_);
  file_->with_hdf5([&] { file_->identify(); });
}

Trace::Trace(const std::function<GroupReader()>& open) : file_(std::make_shared<File>(kInMemory)) {
  file_->with_hdf5([&] {
    file_->open(open());
    file_->identify();
  });
}

Trace Trace::from_image(const std::string& image) {
  return Trace([&] { return open_hdf5_image(image, kInMemory); });
}

bool Trace::in_memory() const { return file_->path == kInMemory; }

void Trace::with_root(const std::function<void(const GroupReader& root)>& see) const {
  file_->with_hdf5([&] { see(*file_->root); });
}

std::string Trace::image() const {
  return file_->with_hdf5([&] { return file_->root->file_image(); });
}

const std::filesystem::path& Trace::file() const { return file_->path; }

const TraceHeader& Trace::header() const { return file_->header; }

const std::vector<SequenceInfo>& Trace::sequences() const { return file_->sequences; }

const std::string& Trace::id() const {
  const std::lock_guard lock(file_->id_mutex);
  if (file_->id.empty()) file_->id = sha256_of_file(file_->path);
  return file_->id;
}

Unit Trace::read_unit(const UnitName& name, UnitParts parts) const {
  const auto [sequence, layer] = file_->find(name);
  const LayerShape& shape = layer->shape;
  Unit unit;
  unit.name = name;
  unit.prompt_length = sequence->prompt_length;
  unit.scale = static_cast<float>(shape.scale);
  if (header().logit_softcap) unit.logit_softcap = static_cast<float>(*header().logit_softcap);
  unit.sliding_window = layer->sliding_window;
  unit.attention_chunk = layer->attention_chunk;
  unit.selected = file_->selection(*sequence, *layer);
  unit.rope = shape.rope;
  unit.key_bytes = layer->key_bytes;
  unit.value_bytes = layer->value_bytes;
  unit.spans = sequence->spans;

  unit.key.resize(0, shape.head_dim);
  unit.value.resize(0, shape.value_dim);
  if (!parts.vectors) unit.rows = std::make_shared<Rows>(file_, name, parts.values);
  bool has_gradients = parts.gradients;
  for (const LayerInfo* const each : file_->reading(*sequence, *layer)) {
    const auto data = file_->layer_data(*sequence, *each);
    add_queries(*data, *each, parts.vectors, unit);
    if (each == layer && parts.vectors) {
      unit.key = data->key().read(name.kv_head);
      if (parts.values) unit.value = data->value().read(name.kv_head);
    }
    has_gradients = has_gradients && file_->with_hdf5([&] {
      return contains_unit(*data, Dataset::output_score_grad, name.kv_head, each->shape);
    });
    if (has_gradients) {
      add_samples(read_gradients(*data, name.kv_head, each->shape), unit.output_score_grad);
    }
    // What several layers lose is not added to one residual stream.
    if (parts.projection && layer->readers.empty()) {
      unit.output_projection = file_->projection(name, shape);
      if (const HeadDataset* const residual = data->find(Dataset::residual)) {
        unit.residual_square = file_->cache.residual_square(name.sequence, name.layer, *residual);
      }
    }
  }
  if (!has_gradients) unit.output_score_grad.clear();
  file_->with_hdf5([&, &info = *sequence] {
    const std::string& fix = file_->root->fix();
    const GroupReader group = file_->root->group("sequences", fix).group(info.name, fix);
    unit.token_ids = read_token_ids(group);
    if (parts.text) unit.token_text = read_token_text(group, info.num_tokens);
  });
  if (parts.vectors) {
    LogitBound(layer_place(file_->path, name), unit.scale).add(unit.query, unit.key);
  }
  return unit;
}

std::vector<Matrix> Trace::read_output(const UnitName& name) const {
  const auto [sequence, layer] = file_->find(name);
  std::vector<Matrix> output;
  for (const LayerInfo* const each : file_->reading(*sequence, *layer)) {
    const auto data = file_->layer_data(*sequence, *each);
    const HeadDataset* const stored = data->find(Dataset::output);
    const int group_size = each->shape.group_size();
    for (int member = 0; member < group_size; ++member) {
      const int head = name.kv_head * group_size + member;
      if (stored == nullptr || !file_->with_hdf5([&] { return stored->contains(head); })) {
        Place{file_->path.string(),
              fmt::format("/sequences/{}/layers/{}/output", sequence->name, each->index)}
            .fail(fmt::format("query head {}", head), "nothing recorded of it");
      }
      output.push_back(stored->read(head));
    }
  }
  return output;
}

void Trace::read_rows(Dataset dataset, const std::string& sequence, int layer,
                      const SeeRows& see) const {
  const DatasetInfo& declared = info_of(dataset);
  const auto [found, info] = file_->find(sequence, layer);
  const auto data = file_->layer_data(*found, *info);
  const HeadDataset* const rows = declared.is_whole() ? data->find(dataset) : nullptr;
  if (rows == nullptr) {
    Place{file_->path.string(), path_of(declared, sequence, layer)}.fail(
        std::string(declared.title), "nothing recorded of it", std::string(declared.cure));
  }
  for_each_rows(*rows, see);
}

}  // namespace kvsim
