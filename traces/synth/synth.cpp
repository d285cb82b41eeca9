#include "traces/synth/synth.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "traces/synth/synth_head.h"

namespace kvsim {
namespace {

constexpr int kAnyInteger = std::numeric_limits<int>::max();
constexpr double kLargestStrength = 100;

void check_integer(const std::string& option, int value, int lowest, int highest = kAnyInteger) {
  if (value >= lowest && value <= highest) return;
  const std::string range = highest == kAnyInteger ? fmt::format("of at least {}", lowest)
                                                   : fmt::format("in {}..{}", lowest, highest);
  throw std::invalid_argument(
      fmt::format("{}: expected an integer {}, found {}", option, range, value));
}

void check_number(const std::string& option, double value, double lowest = 0,
                  double highest = kLargestStrength) {
  if (value >= lowest && value <= highest) return;
  throw std::invalid_argument(
      fmt::format("{}: expected a number in [{}, {}], found {}", option, lowest, highest, value));
}

void check_options(const SynthOptions& options) {
  check_integer("tokens", options.tokens, 1);
  check_integer("prompt_length", options.prompt_length, 0, options.tokens);
  check_integer("layers", options.layers, 1);
  check_integer("kv_heads", options.kv_heads, 1);
  check_integer("query_heads", options.query_heads, 1);
  if (options.query_heads % options.kv_heads != 0) {
    throw std::invalid_argument(
        fmt::format("query_heads: expected a multiple of kv_heads = {}, found {}", options.kv_heads,
                    options.query_heads));
  }
  check_integer("head_dim", options.head_dim, 1);
  check_integer("value_dim", options.value_dim, 0);
  check_integer("sinks", options.sinks, 0);
  check_number("sink_strength", options.sink_strength);
  check_number("local_strength", options.local_strength);
  if (options.local_decay == 1) {
    throw std::invalid_argument("local_decay: expected a number in [0, 1), found 1");
  }
  check_number("local_decay", options.local_decay, 0, 1);
  check_number("heavy_strength", options.heavy_strength);
  check_number("heavy_exponent", options.heavy_exponent, 0.1);
  check_number("retrieval_share", options.retrieval_share, 0, 1);
  check_number("retrieval_strength", options.retrieval_strength);
  check_integer("retrieval_period", options.retrieval_period, 0, options.tokens);
  check_number("drift", options.drift);
  check_number("noise", options.noise);
}

std::string describe(const SynthOptions& options) {
  return fmt::format(
      "seed={} sinks={} sink_strength={} local_strength={} local_decay={} heavy_strength={} "
      "heavy_exponent={} retrieval_share={} retrieval_strength={} retrieval_period={} drift={} "
      "noise={}",
      options.seed, options.sinks, options.sink_strength, options.local_strength,
      options.local_decay, options.heavy_strength, options.heavy_exponent, options.retrieval_share,
      options.retrieval_strength, options.retrieval_period, options.drift, options.noise);
}

TraceHeader make_header(const SynthOptions& options) {
  TraceHeader header;
  header.model = "synthetic";
  header.recorder = "kvsim synth";
  header.num_layers = options.layers;
  header.num_query_heads = options.query_heads;
  header.num_kv_heads = options.kv_heads;
  header.head_dim = options.head_dim;
  header.value_dim = options.value_dim == 0 ? options.head_dim : options.value_dim;
  header.scale = 1 / std::sqrt(options.head_dim);
  return header;
}

/// The matrix as the file stores it.
Matrix rounded(const Matrix& matrix, ElementType elements) {
  if (elements == ElementType::float32) return matrix;
  return matrix.cast<Eigen::half>().cast<float>();
}

/// Tells the caller how far the work is, in query heads and shares of one.
class HeadsDone {
 public:
  HeadsDone(double total, const SynthProgress& progress) : total_(total), progress_(progress) {}

  void report(double of_next_head) const {
    if (progress_) progress_((finished_ + of_next_head) / total_);
  }
  void finish_head() {
    ++finished_;
    report(0);
  }

 private:
  double total_;
  double finished_ = 0;
  const SynthProgress& progress_;
};

/// Causal softmax attention, one query after the other.
Matrix attention_output(const Matrix& query, const Matrix& key, const Matrix& value, double scale,
                        const HeadsDone& done) {
  constexpr Eigen::Index kStepsPerReport = 256;
  const auto num_steps = static_cast<double>(query.rows());
  const Eigen::MatrixXd keys = key.cast<double>();
  const Eigen::MatrixXd values = value.cast<double>();
  Matrix output(value.rows(), value.cols());
  for (Eigen::Index step = 0; step < query.rows(); ++step) {
    // The work up to a step grows with its square.
    const double share = static_cast<double>(step) / num_steps;
    if (step % kStepsPerReport == 0) done.report(share * share);
    const Eigen::VectorXd current = query.row(step).transpose().cast<double>();
    const Eigen::VectorXd logits = scale * (keys.topRows(step + 1) * current);
    const Eigen::VectorXd weights = (logits.array() - logits.maxCoeff()).exp();
    output.row(step) =
        (weights.transpose() * values.topRows(step + 1) / weights.sum()).cast<float>();
  }
  return output;
}

void write_layer(TraceWriter& writer, const SynthOptions& options, const TraceHeader& header,
                 const std::vector<std::int32_t>& text, int layer, HeadsDone& done) {
  std::vector<Matrix> query, key, value, output;
  for (int kv_head = 0; kv_head < options.kv_heads; ++kv_head) {
    const SynthHead head(options, text, layer, kv_head);
    key.push_back(rounded(head.key(), options.elements));
    value.push_back(rounded(head.value(header.value_dim), options.elements));
    for (int member = 0; member < header.group_size(); ++member) {
      query.push_back(
          rounded(head.query(kv_head * header.group_size() + member), options.elements));
      if (options.output) {
        output.push_back(
            attention_output(query.back(), key.back(), value.back(), header.scale, done));
      }
      done.finish_head();
    }
  }
  writer.write_layer(layer, query, key, value, output);
}

void write_sequence(TraceWriter& writer, const SynthOptions& options,
                    const SynthProgress& progress) {
  const TraceHeader header = make_header(options);
  const std::vector<std::int32_t> text = synth_text(options);
  writer.begin_sequence("synthetic", options.tokens, options.prompt_length, describe(options),
                        text);
  HeadsDone done(1.0 * options.layers * options.query_heads, progress);
  for (int layer = 0; layer < options.layers; ++layer) {
    write_layer(writer, options, header, text, layer, done);
  }
}

}  // namespace

void synthesize(const std::filesystem::path& file, const SynthOptions& options,
                const SynthProgress& progress) {
  check_options(options);
  TraceWriter writer(file, make_header(options), options.elements);
  write_sequence(writer, options, progress);
  writer.close();
}

Trace synthesize(const SynthOptions& options, const SynthProgress& progress) {
  check_options(options);
  TraceWriter writer(make_header(options), options.elements);
  write_sequence(writer, options, progress);
  return writer.open();
}

}  // namespace kvsim
