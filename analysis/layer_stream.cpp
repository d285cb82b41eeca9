#include "analysis/layer_stream.h"

#include <algorithm>

#include "sim/attention/attention_blocks.h"
#include "sim/sweep/selection.h"
#include "traces/residual_stream.h"

namespace kvsim {
namespace {

using StreamRow = Eigen::RowVectorXd;

double cosine_of(const StreamRow& a, const StreamRow& b) {
  const double lengths = a.norm() * b.norm();
  return lengths == 0 ? 0 : std::clamp(a.dot(b) / lengths, -1.0, 1.0);
}

}  // namespace

LayerStream::LayerStream(const Matrix& r, const Matrix& a, const Matrix& f) {
  for (Eigen::Index t = 0; t < r.rows(); ++t) {
    const StreamRow before = r.row(t).cast<double>();
    const StreamRow part = a.row(t).cast<double>();
    const StreamRow x = before + part;
    residual.push_back(before.norm());
    attention.push_back(part.norm());
    input.push_back(x.norm());
    if (f.rows() == 0) continue;
    const StreamRow after = f.row(t).cast<double>();
    added.push_back((after - x).norm());
    cosine.push_back(cosine_of(x, after));
    attention_cosine.push_back(cosine_of(part, after));
    if (t + 1 < r.rows()) next_cosine.push_back(cosine_of(after, r.row(t + 1).cast<double>()));
  }
}

Matrix attention_added(const Trace& trace, const std::string& sequence, int layer,
                       const Backend& backend) {
  Matrix added;
  const int kv_heads = layer_info(trace, {sequence, layer, 0}).shape.num_kv_heads;
  for (int kv_head = 0; kv_head < kv_heads; ++kv_head) {
    const Unit unit =
        trace.read_unit({sequence, layer, kv_head}, {.text = false, .gradients = false});
    const Eigen::Index hidden = unit.output_projection.front().cols();
    if (kv_head == 0) added = Matrix::Zero(unit.num_tokens(), hidden);
    for_each_block(unit, unit.num_tokens(), backend, [&](const AttentionBlock& block) {
      for (int head = 0; head < unit.group_size(); ++head) {
        const MatrixDouble projection = unit.output_projection[head].cast<double>();
        added.middleRows(block.first_step, block.num_steps) +=
            (block.heads[head].output.topRows(block.num_steps) * projection).cast<float>();
      }
    });
  }
  return added;
}

const LayerStream& LayerStreams::at(const std::string& sequence, int layer) {
  Place* place = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    place = &places_[{sequence, layer}];
  }
  std::call_once(place->once, [&] {
    place->stream = std::make_unique<LayerStream>(
        read_residual(trace_, sequence, layer), attention_added(trace_, sequence, layer, backend_),
        read_residual(trace_, sequence, layer + 1));
  });
  return *place->stream;
}

}  // namespace kvsim
