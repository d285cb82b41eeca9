#include "gpu/cuda_pass.h"

#include <limits>

#include "gpu/resources.h"
#include "gpu/weigh_rows.h"

namespace kvsim::gpu {
namespace {

// cuBLAS counts matrices by columns: a matrix of ours is the transpose of the one that it sees.
class CudaPass final : public AttentionPass {
 public:
  explicit CudaPass(const Unit& unit)
      : unit_(unit),
        longest_value_(longest_values(unit)),
        stream_(make_stream()),
        blas_(make_blas(stream_.get())),
        key_(unit.key.size()),
        value_(unit.value.size()) {
    for (const Matrix& query : unit.query) {
      query_.emplace_back(query.size());
      upload(query.data(), query.size(), query_.back(), stream_.get());
    }
    upload(unit.key.data(), unit.key.size(), key_, stream_.get());
    const MatrixDouble value = unit.value.cast<double>();
    upload(value.data(), value.size(), value_, stream_.get());
  }

  void compute(int first_step, int num_steps, Outputs, AttentionBlock& block) override {
    reserve(num_steps);
    block.first_step = first_step;
    block.num_steps = num_steps;
    const auto longest = longest_value_.begin() + first_step;
    block.longest_value.assign(longest, longest + num_steps);
    block.heads.resize(unit_.query.size());
    for (std::size_t head = 0; head < unit_.query.size(); ++head) {
      multiply_keys(query_[head], first_step, num_steps);
      weigh_rows({.first_step = first_step,
                  .num_steps = num_steps,
                  .sliding_window = unit_.sliding_window.value_or(std::numeric_limits<int>::max()),
                  .softcap = unit_.logit_softcap.value_or(0.0F),
                  .logit = logit_.data(),
                  .weight = weight_.data(),
                  .wide_weight = wide_weight_.data(),
                  .weight_sum = weight_sum_.data(),
                  .num_pivotal = num_pivotal_.data()},
                 stream_.get());
      multiply_values(first_step, num_steps);
      fetch(first_step, num_steps, block.heads[head]);
    }
  }

 private:
  // Room for blocks as wide as the last one, so that a replay allocates once.
  void reserve(int num_steps) {
    if (num_steps <= most_steps_) return;
    const auto steps = static_cast<std::size_t>(num_steps);
    const std::size_t entries = steps * unit_.num_tokens();
    most_steps_ = 0;  // in case of an exception
    logit_ = DeviceBuffer<float>(entries);
    weight_ = DeviceBuffer<float>(entries);
    wide_weight_ = DeviceBuffer<double>(entries);
    weight_sum_ = DeviceBuffer<double>(steps);
    num_pivotal_ = DeviceBuffer<int>(steps);
    output_ = DeviceBuffer<double>(steps * unit_.value.cols());
    most_steps_ = num_steps;
  }

  void multiply_keys(const DeviceBuffer<float>& query, int first_step, int num_steps) {
    const int dim = static_cast<int>(unit_.key.cols());
    const int width = first_step + num_steps;
    const float* first_query = query.data() + static_cast<std::size_t>(first_step) * dim;
    const float zero = 0;
    check(cublasSgemm(blas_.get(), CUBLAS_OP_T, CUBLAS_OP_N, width, num_steps, dim, &unit_.scale,
                      key_.data(), dim, first_query, dim, &zero, logit_.data(), width),
          "cublasSgemm");
  }

  // In double: the error of an evicting cache is a difference from this output, often a small one.
  void multiply_values(int first_step, int num_steps) {
    const int dim = static_cast<int>(unit_.value.cols());
    const int width = first_step + num_steps;
    const double one = 1;
    const double zero = 0;
    check(cublasDgemm(blas_.get(), CUBLAS_OP_N, CUBLAS_OP_N, dim, num_steps, width, &one,
                      value_.data(), dim, wide_weight_.data(), width, &zero, output_.data(), dim),
          "cublasDgemm");
  }

  void fetch(int first_step, int num_steps, HeadAttention& head) {
    const int width = first_step + num_steps;
    head.logit.resize(num_steps, width);
    head.weight.resize(num_steps, width);
    head.weight_sum.resize(num_steps);
    head.num_pivotal.resize(num_steps);
    head.output.resize(num_steps, unit_.value.cols());
    download(logit_, head.logit.size(), head.logit.data(), stream_.get());
    download(weight_, head.weight.size(), head.weight.data(), stream_.get());
    download(weight_sum_, head.weight_sum.size(), head.weight_sum.data(), stream_.get());
    download(num_pivotal_, head.num_pivotal.size(), head.num_pivotal.data(), stream_.get());
    download(output_, head.output.size(), head.output.data(), stream_.get());
    for (int row = 0; row < num_steps; ++row) head.output.row(row) /= head.weight_sum[row];
    index_weights(first_step, head);
    measure_outputs(head);
  }

  const Unit& unit_;
  std::vector<double> longest_value_;
  Stream stream_;
  Blas blas_;
  std::vector<DeviceBuffer<float>> query_;
  DeviceBuffer<float> key_;
  DeviceBuffer<double> value_;

  int most_steps_ = 0;  // that the buffers below have room for
  DeviceBuffer<float> logit_;
  DeviceBuffer<float> weight_;
  DeviceBuffer<double> wide_weight_;
  DeviceBuffer<double> weight_sum_;
  DeviceBuffer<int> num_pivotal_;
  DeviceBuffer<double> output_;
};

}  // namespace

std::unique_ptr<AttentionPass> make_cuda_pass(const Unit& unit) {
  return std::make_unique<CudaPass>(unit);
}

}  // namespace kvsim::gpu
