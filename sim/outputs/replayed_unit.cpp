#include "sim/outputs/replayed_unit.h"

#include "sim/attention/step_pass.h"

namespace kvsim {
namespace {

std::unique_ptr<AttentionPass> pass_of(const Unit& unit, const Backend& backend,
                                       Reference reference) {
  switch (reference) {
    case Reference::full:
      return backend.attend(unit);
    case Reference::sample:
      return attend_single_steps(unit);
    case Reference::none:
      return nullptr;
  }
  return nullptr;
}

void round_rows(Matrix& matrix, int first, int count, const Quantization& quantization,
                int element_bytes) {
  for (int row = first; row < first + count; ++row) {
    quantization.round({matrix.row(row).data(), static_cast<std::size_t>(matrix.cols())},
                       element_bytes);
  }
}

void append_rows(Matrix& matrix, const Matrix& original, int first, int count) {
  if (const Eigen::Index known = matrix.rows(); known < original.rows()) {
    matrix.conservativeResize(original.rows(), matrix.cols());
    matrix.bottomRows(original.rows() - known).setZero();
  }
  matrix.middleRows(first, count) = original.middleRows(first, count);
}

}  // namespace

StoredUnit::StoredUnit(const Unit& original, const Quantization& stored_as, const Backend& backend)
    : unit(original), quantization(stored_as) {
  round_rows(unit.key, 0, unit.num_tokens(), quantization, unit.key_bytes);
  round_rows(unit.value, 0, unit.num_tokens(), quantization, unit.value_bytes);
  key_bytes = quantization.bytes(static_cast<std::size_t>(unit.key.cols()), unit.key_bytes);
  value_bytes = quantization.bytes(static_cast<std::size_t>(unit.value.cols()), unit.value_bytes);
  pass = backend.attend(unit);
}

void StoredUnit::append(const Unit& original, int first, int count) {
  append_rows(unit.key, original.key, first, count);
  append_rows(unit.value, original.value, first, count);
  round_rows(unit.key, first, count, quantization, unit.key_bytes);
  round_rows(unit.value, first, count, quantization, unit.value_bytes);
  for (std::size_t head = 0; head < unit.query.size(); ++head) {
    append_rows(unit.query[head], original.query[head], first, count);
  }
}

ReplayedUnit::ReplayedUnit(const Unit& unit, const Backend& backend, const Protocol& protocol)
    : unit_(unit),
      backend_(backend),
      steps_(protocol, unit.prompt_length, unit.num_tokens()),
      pass_(pass_of(unit, backend, protocol.reference)),
      retained_(unit),
      scratch_(unit.query.size()) {
  if (protocol.measures() && !unit.output_score_grad.empty()) gradients_.emplace(unit);
}

const StoredUnit& ReplayedUnit::stored(const Quantization& quantization) {
  std::unique_ptr<StoredUnit>& stored = stored_[{quantization.bits, quantization.group}];
  if (!stored) stored = std::make_unique<StoredUnit>(unit_, quantization, backend_);
  return *stored;
}

void ReplayedUnit::append(int first, int count) {
  for (const auto& [key, stored] : stored_) stored->append(unit_, first, count);
}

std::size_t ReplayedUnit::bytes_per_token(const Rules& rules) {
  if (rules.stored) {
    const StoredUnit& quantised = stored(*rules.stored);
    return quantised.key_bytes + quantised.value_bytes;
  }
  return static_cast<std::size_t>(unit_.key.cols() * unit_.key_bytes +
                                  unit_.value.cols() * unit_.value_bytes);
}

void ReplayedUnit::compute(int first_step, int num_steps) {
  if (unit_.rows && (first_step < part_.first || first_step + num_steps > part_.end())) {
    unit_.rows->read(first_step, part_);
  }
  const bool is_sample = protocol().reference == Reference::sample;
  if (pass_ == nullptr || (is_sample && !steps_.measures(first_step))) {
    block_.first_step = first_step;
    block_.num_steps = num_steps;
    return;
  }
  if (gradients_) gradients_->read_block(first_step, num_steps);
  bool takes_any = false;
  for (int row = 0; row < num_steps; ++row) takes_any = takes_any || takes_error(first_step + row);
  pass_->compute(first_step, num_steps, takes_any ? outputs_ : Outputs::optional, block_);
  for (const auto& [key, stored] : stored_) {
    stored->pass->compute(first_step, num_steps, Outputs::optional, stored->block);
  }
}

}  // namespace kvsim
