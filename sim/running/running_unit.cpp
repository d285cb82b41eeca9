#include "sim/running/running_unit.h"

#include <algorithm>

#include "sim/kernels/attention_kernels.h"

namespace kvsim {
namespace {

constexpr int kFirstRows = 64;  // for which memory is taken at first; it doubles from there

/// Weights of a unit that grows between blocks. Takes over its keys as steps come.
class GrowingPass final : public AttentionPass {
 public:
  explicit GrowingPass(const Unit& unit)
      : unit_(unit), keys_(static_cast<int>(unit.key.cols()), unit.scale) {}

  /// Computes what CachedAttention and AlteredAttention read: logits, weights and their sums.
  void compute(int first_step, int num_steps, Outputs, AttentionBlock& block) override {
    block.first_step = first_step;
    block.num_steps = num_steps;
    for (; num_keys_ < first_step + num_steps; ++num_keys_) {
      keys_.put(num_keys_, unit_.key.row(num_keys_).data());
    }
    block.heads.resize(unit_.query.size());
    for (int head = 0; head < unit_.group_size(); ++head) {
      weigh(unit_, keys_, unit_.query[head].row(first_step).data(), head, block);
    }
  }

 private:
  const Unit& unit_;
  KeyPanels keys_;
  int num_keys_ = 0;
};

class GrowingBackend final : public Backend {
 public:
  std::string device() const override { return "cpu"; }

  std::unique_ptr<AttentionPass> attend(const Unit& unit) const override {
    return std::make_unique<GrowingPass>(unit);
  }
};

const Backend& growing_backend() {
  static const GrowingBackend kBackend;
  return kBackend;
}

Unit empty_unit(UnitName name, const ModelShape& model, const ModelLayer& layer,
                int prompt_length) {
  const LayerShape& shape = layer.shape;
  Unit unit;
  unit.sliding_window = layer.sliding_window;
  unit.attention_chunk = layer.attention_chunk;
  const auto add_queries = [&](int num_query_heads, const std::vector<float>& sinks) {
    const int size = num_query_heads / shape.num_kv_heads;
    for (int i = 0; i < size; ++i) {
      unit.query.emplace_back(0, shape.head_dim);
      if (!sinks.empty()) unit.sink_logit.push_back(sinks[name.kv_head * size + i]);
    }
  };
  add_queries(shape.num_query_heads, layer.sink_logit);
  for (const ReadingLayer& reader : layer.readers) {
    add_queries(reader.num_query_heads, reader.sink_logit);
  }
  unit.name = std::move(name);
  unit.prompt_length = prompt_length;
  unit.scale = static_cast<float>(shape.scale);
  unit.logit_softcap = model.logit_softcap;
  unit.rope = shape.rope;
  unit.key_bytes = unit.value_bytes = model.element_bytes;
  unit.key.resize(0, shape.head_dim);
  unit.value.resize(0, shape.value_dim);
  return unit;
}

std::vector<std::size_t> group_ends(const ModelLayer& layer) {
  std::vector<std::size_t> ends{static_cast<std::size_t>(layer.shape.group_size())};
  for (const ReadingLayer& reader : layer.readers) {
    ends.push_back(ends.back() +
                   static_cast<std::size_t>(reader.num_query_heads / layer.shape.num_kv_heads));
  }
  return ends;
}

void append_rows(Matrix& matrix, int num_rows, const float* rows, int count) {
  if (num_rows + count > matrix.rows()) {
    const Eigen::Index doubled = std::max<Eigen::Index>(kFirstRows, 2 * matrix.rows());
    const Eigen::Index known = matrix.rows();
    matrix.conservativeResize(std::max<Eigen::Index>(doubled, num_rows + count), matrix.cols());
    matrix.bottomRows(matrix.rows() - known).setZero();
  }
  matrix.middleRows(num_rows, count) = Eigen::Map<const Matrix>(rows, count, matrix.cols());
}

}  // namespace

RunningUnit::RunningUnit(UnitName name, const ModelShape& model, const ModelLayer& layer,
                         int prompt_length)
    : projection_(layer.output_projection),
      projection_size_(static_cast<std::size_t>(layer.shape.value_dim) *
                       static_cast<std::size_t>(layer.hidden)),
      group_ends_(group_ends(layer)),
      unit_(empty_unit(std::move(name), model, layer, prompt_length)),
      replayed_(unit_, growing_backend(), {}) {}

std::vector<std::span<const float>> RunningUnit::output_projection() const {
  std::vector<std::span<const float>> heads;
  if (projection_ == nullptr) return heads;
  const std::size_t size = group_ends_.front();
  const float* own =
      projection_.get() + static_cast<std::size_t>(unit_.name.kv_head) * size * projection_size_;
  for (std::size_t i = 0; i < size; ++i, own += projection_size_) {
    heads.emplace_back(own, projection_size_);
  }
  return heads;
}

void RunningUnit::append_group(std::size_t group, int first_row, const LayerRows& rows) {
  const std::size_t begin = group == 0 ? 0 : group_ends_[group - 1];
  const std::size_t size = group_ends_[group] - begin;
  const float* query =
      rows.query + static_cast<std::size_t>(unit_.name.kv_head) * size * rows.query_stride;
  for (std::size_t i = 0; i < size; ++i, query += rows.query_stride) {
    append_rows(unit_.query[begin + i], first_row, query, rows.count);
  }
}

void RunningUnit::append(const LayerRows& rows) {
  const auto kv_head = static_cast<std::size_t>(unit_.name.kv_head);
  append_group(0, num_tokens_, rows);
  append_rows(unit_.key, num_tokens_, rows.key + kv_head * rows.key_stride, rows.count);
  append_rows(unit_.value, num_tokens_, rows.value + kv_head * rows.value_stride, rows.count);
  replayed_.append(num_tokens_, rows.count);
  num_tokens_ += rows.count;
}

void RunningUnit::append_queries(std::size_t reader, const LayerRows& rows) {
  append_group(reader + 1, num_tokens_ - rows.count, rows);
}

}  // namespace kvsim
