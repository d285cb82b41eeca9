#include "gpu/device_pass.h"

#include "gpu/batch_memory.h"
#include "sim/kernels/attention_kernels.h"

namespace kvsim::gpu {
namespace {

static_assert(kBlockSteps <= kSteps);

class DevicePass final : public AttentionPass {
 public:
  DevicePass(std::shared_ptr<Device> device, const Unit& unit)
      : unit_(unit),
        longest_value_(longest_values(unit)),
        device_(std::move(device)),
        memory_(*device_, {.shape = shape_of(unit), .num_units = 1}),
        rows_(device_->allocate_host(memory_.batch().block_row(1, 0) * unit.key.rows() *
                                     sizeof(float))) {
    const UnitTask task = task_of(unit);
    const Unit* const recorded = &unit;
    memory_.upload_units({&task, 1}, {&recorded, 1});
  }

  void compute(int first_step, int num_steps, Outputs outputs, AttentionBlock& block) override {
    Batch& batch = memory_.batch();
    batch.first_step = first_step;
    batch.num_steps = num_steps;
    device_->multiply_keys(batch);
    device_->run(Kernel::weigh_row, batch);
    const bool has_outputs = outputs == Outputs::required;
    if (has_outputs) device_->run(Kernel::sum_values, batch);
    block.first_step = first_step;
    block.num_steps = num_steps;
    const auto longest = longest_value_.begin() + first_step;
    block.longest_value.assign(longest, longest + num_steps);
    block.heads.resize(unit_.query.size());
    fetch_rows(batch.logit, &HeadAttention::logit, block);
    fetch_rows(batch.weight, &HeadAttention::weight, block);
    fetch_sums(has_outputs, block);
  }

 private:
  // A row of the device is a (step, query head) pair, the heads of a step in a row. Only the tokens
  // up to the block's last step are there.
  void fetch_rows(const float* from, BlockMatrix HeadAttention::*to, AttentionBlock& block) {
    const Batch& batch = memory_.batch();
    const auto width = static_cast<std::size_t>(batch.width());
    const auto num_heads = block.heads.size();
    device_->download_rows(from, batch.tokens_of(1) * sizeof(float), width * sizeof(float),
                           static_cast<std::size_t>(batch.rows()), rows_.get());
    const auto* rows = reinterpret_cast<const float*>(rows_.get());
    for (std::size_t h = 0; h < num_heads; ++h) {
      BlockMatrix& matrix = block.heads[h].*to;
      matrix.resize(batch.num_steps, batch.width());
      for (int step = 0; step < batch.num_steps; ++step) {
        const std::size_t row = static_cast<std::size_t>(step) * num_heads + h;
        std::copy_n(rows + row * width, width, matrix.row(step).data());
      }
    }
  }

  void fetch_sums(bool has_outputs, AttentionBlock& block) {
    const Batch& batch = memory_.batch();
    const auto rows = static_cast<std::size_t>(batch.rows());
    const auto dims = static_cast<std::size_t>(batch.shape.value_dim);
    const auto num_heads = static_cast<int>(block.heads.size());
    const auto sink_weight = memory_.download(batch.sink_weight, rows);
    const auto weight_sum = memory_.download(batch.weight_sum, rows);
    const auto num_pivotal = memory_.download(batch.num_pivotal + batch.text_row(0, 0), rows);
    const auto full_sum = memory_.download(batch.full_sum, has_outputs ? rows * dims : 0);
    for (int h = 0; h < num_heads; ++h) {
      HeadAttention& head = block.heads[h];
      head.output.resize(has_outputs ? batch.num_steps : 0, batch.shape.value_dim);
      head.sink_weight.clear();
      head.weight_sum.clear();
      head.num_pivotal.clear();
      for (int step = 0; step < batch.num_steps; ++step) {
        const auto row = static_cast<std::size_t>(step) * num_heads + h;
        head.sink_weight.push_back(sink_weight[row]);
        head.weight_sum.push_back(weight_sum[row]);
        head.num_pivotal.push_back(num_pivotal[row]);
        if (!has_outputs) continue;
        for (std::size_t d = 0; d < dims; ++d) {
          head.output(step, static_cast<int>(d)) = full_sum[row * dims + d] / weight_sum[row];
        }
      }
      summarise_weights(block.first_step, head);
      set_output_norms(head);
    }
  }

  const Unit& unit_;
  std::vector<double> longest_value_;
  std::shared_ptr<Device> device_;
  BatchMemory memory_;
  std::shared_ptr<std::byte> rows_;  // of logits or weights, on the host
};

}  // namespace

std::unique_ptr<AttentionPass> make_device_pass(std::shared_ptr<Device> device, const Unit& unit) {
  return std::make_unique<DevicePass>(std::move(device), unit);
}

}  // namespace kvsim::gpu
