#include "traces/synth/synth_layer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <thread>

#include "traces/synth/synth_head.h"

namespace kvsim {
namespace {

/// The matrix as the file stores it.
Matrix rounded(const Matrix& matrix, ElementType elements) {
  if (elements == ElementType::float32) return matrix;
  return matrix.cast<Eigen::half>().cast<float>();
}

/// The work on a layer, which threads share: how far it is, and whether it failed.
class LayerWork {
 public:
  explicit LayerWork(const std::function<void(double)>& heads_done) : heads_done_(heads_done) {}

  /// Runs `work(i)` for i in 0 .. count - 1 on `threads` threads, of which the calling one is one.
  /// After a failure no further i begins, then throws the first failure.
  void run(int count, int threads, const std::function<void(int)>& work) {
    std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic) num_threads(std::min(count, threads))
    for (int i = 0; i < count; ++i) {
      if (failed_) continue;
      try {
        work(i);
      } catch (...) {
#pragma omp critical(kvsim_synth_layer)
        if (!failure) failure = std::current_exception();
        failed_ = true;
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

  /// Tells the caller how far the work is, `of_head` of a head included, if this is its thread.
  void report(double of_head) {
    if (failed_) throw Abandoned();
    if (std::this_thread::get_id() == caller_) heads_done_(finished_ + of_head);
  }

  void finish_head() {
    ++finished_;
    report(0);
  }

 private:
  /// Another thread has failed.
  struct Abandoned {};

  const std::function<void(double)>& heads_done_;
  std::thread::id caller_ = std::this_thread::get_id();
  std::atomic<int> finished_ = 0;
  std::atomic<bool> failed_ = false;
};

/// How the attention of a head differs from causal attention to all keys.
struct HeadMask {
  std::optional<int> chunk;
  float sink = -std::numeric_limits<float>::infinity();  ///< minus infinity: none
};

/// Causal softmax attention, one query after the other.
Matrix attention_output(const Matrix& query, const Matrix& key, const Matrix& value, double scale,
                        const HeadMask& mask, LayerWork& work) {
  constexpr Eigen::Index kStepsPerReport = 256;
  const auto num_steps = static_cast<double>(query.rows());
  const Eigen::MatrixXd keys = key.cast<double>();
  const Eigen::MatrixXd values = value.cast<double>();
  Matrix output(value.rows(), value.cols());
  for (Eigen::Index step = 0; step < query.rows(); ++step) {
    // The work up to a step grows with its square.
    const double share = static_cast<double>(step) / num_steps;
    if (step % kStepsPerReport == 0) work.report(share * share);
    const Eigen::VectorXd current = query.row(step).transpose().cast<double>();
    const Eigen::Index begin = mask.chunk ? step / *mask.chunk * *mask.chunk : 0;
    const Eigen::Index visible = step + 1 - begin;
    const Eigen::VectorXd logits = scale * (keys.middleRows(begin, visible) * current);
    const double most = std::max(logits.maxCoeff(), double{mask.sink});
    const Eigen::VectorXd weights = (logits.array() - most).exp();
    const double sum = weights.sum() + std::exp(double{mask.sink} - most);
    output.row(step) =
        (weights.transpose() * values.middleRows(begin, visible) / sum).cast<float>();
  }
  return output;
}

/// The sink logits of a layer, one per query head; empty: it has none.
std::vector<float> sinks_of(const SynthOptions& options, int layer) {
  if (!options.sink_logit) return {};
  std::vector<float> sinks;
  for (int head = 0; head < options.query_heads; ++head) {
    sinks.push_back(synth_sink(options, layer, head));
  }
  return sinks;
}

/// Every fourth layer of Llama 4 attends to the whole text.
std::optional<int> chunk_of(const SynthOptions& options, int layer) {
  if (options.attention_chunk == 0 || layer % 4 == 3) return {};
  return options.attention_chunk;
}

}  // namespace

SynthLayer synth_layer(const SynthOptions& options, const TraceHeader& header,
                       const std::vector<std::int32_t>& text, int layer,
                       const std::function<void(double)>& heads_done) {
  SynthLayer made{.query = std::vector<Matrix>(options.query_heads),
                  .key = std::vector<Matrix>(options.kv_heads),
                  .value = std::vector<Matrix>(options.kv_heads),
                  .output = std::vector<Matrix>(options.output ? options.query_heads : 0),
                  .sinks = sinks_of(options, layer),
                  .chunk = chunk_of(options, layer)};
  LayerWork work(heads_done);
  work.run(options.kv_heads, options.threads, [&](int kv_head) {
    const SynthHead head(options, text, layer, kv_head);
    made.key[kv_head] = rounded(head.key(), options.elements);
    made.value[kv_head] = rounded(head.value(header.shape.value_dim), options.elements);
    HeadMask mask{.chunk = made.chunk};
    for (int member = 0; member < header.shape.group_size(); ++member) {
      const int query_head = kv_head * header.shape.group_size() + member;
      made.query[query_head] = rounded(head.query(query_head), options.elements);
      if (!made.sinks.empty()) mask.sink = made.sinks[query_head];
      if (options.output) {
        made.output[query_head] =
            attention_output(made.query[query_head], made.key[kv_head], made.value[kv_head],
                             header.shape.scale, mask, work);
      }
      work.finish_head();
    }
  });
  return made;
}

}  // namespace kvsim
