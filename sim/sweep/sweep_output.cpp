#include "sim/sweep/sweep_output.h"

#include "sim/sweep/cut_amounts.h"
#include "sim/sweep/shards/sharding.h"
#include "sim/sweep/stored_sweep.h"
#include "sim/sweep/whole_layers.h"

namespace kvsim {

SweepOutput::SweepOutput(SweepPlan& plan, const Output& output, std::string device, bool force) {
  const auto note = [&](std::string sentence) {
    if (!sentence.empty()) notes_.push_back(std::move(sentence));
  };
  if (output.file) {
    store_ =
        std::make_unique<ResultStore>(*output.file, ResultStore::Access::write, output.scratch);
    const RunLabels labels = labels_of(plan, output.command, std::move(device));
    note(note_of_another_code(begin_sweep(plan, *store_, labels, force)));
  }
  note(note_of_empty_shard(plan));
  for (std::string& cut : cut_amounts(plan)) note(std::move(cut));
  note(note_of_cut_layers(plan));
}

void SweepOutput::add(const std::vector<std::vector<Outcome>>& units) {
  if (store_) {
    store_units(units, *store_);
  } else {
    store_units(units, memory_);
  }
}

void SweepOutput::finish() {
  if (store_) store_->finish_run();
}

std::vector<Result> SweepOutput::rows(const SweepPlan& plan) const {
  return store_ ? rows_of_sweep(plan, *store_) : memory_.results();
}

}  // namespace kvsim
