#include "sim/outputs/replayed_unit.h"

namespace kvsim {
namespace {

void round_rows(Matrix& matrix, const Quantization& quantization, int element_bytes) {
  for (int row = 0; row < matrix.rows(); ++row) {
    quantization.round({matrix.row(row).data(), static_cast<std::size_t>(matrix.cols())},
                       element_bytes);
  }
}

}  // namespace

StoredUnit::StoredUnit(const Unit& original, const Quantization& quantization,
                       const Backend& backend)
    : unit(original) {
  round_rows(unit.key, quantization, unit.key_bytes);
  round_rows(unit.value, quantization, unit.value_bytes);
  key_bytes = quantization.bytes(static_cast<std::size_t>(unit.key.cols()), unit.key_bytes);
  value_bytes = quantization.bytes(static_cast<std::size_t>(unit.value.cols()), unit.value_bytes);
  pass = backend.attend(unit);
}

ReplayedUnit::ReplayedUnit(const Unit& unit, const Backend& backend,
                           const MeasureOptions& measuring)
    : unit_(unit),
      backend_(backend),
      measuring_(measuring),
      pass_(measuring.has_reference() ? backend.attend(unit) : nullptr),
      retained_(unit),
      scratch_(unit.query.size()) {}

const StoredUnit& ReplayedUnit::stored(const Quantization& quantization) {
  std::unique_ptr<StoredUnit>& stored = stored_[{quantization.bits, quantization.group}];
  if (!stored) stored = std::make_unique<StoredUnit>(unit_, quantization, backend_);
  return *stored;
}

void ReplayedUnit::compute(int first_step, int num_steps) {
  if (pass_ == nullptr) {
    block_.first_step = first_step;
    block_.num_steps = num_steps;
    return;
  }
  bool takes_any = false;
  for (int row = 0; row < num_steps; ++row) takes_any = takes_any || takes_error(first_step + row);
  pass_->compute(first_step, num_steps, takes_any ? outputs_ : Outputs::optional, block_);
  for (const auto& [key, stored] : stored_) {
    stored->pass->compute(first_step, num_steps, Outputs::optional, stored->block);
  }
}

}  // namespace kvsim
