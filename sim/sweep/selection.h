#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policies/interface/store.h"
#include "traces/trace.h"

namespace kvsim {

/// Which part of a trace to replay; an empty list selects all.
struct Selection {
  std::vector<std::string> sequences;
  std::vector<int> layers;
  std::vector<int> kv_heads;
};

/// One selected unit, before it is read.
struct SelectedUnit {
  UnitName name;
  int num_tokens = 0;
  int prompt_length = 0;
  LayerShape shape = {};     ///< with the query heads of all layers that read the unit
  VectorShape vectors = {};  ///< its keys and values as recorded
  std::optional<int> sliding_window = {};
  std::optional<int> attention_chunk = {};
  int most_selected = 0;  ///< tokens that the model selects at a step; 0: it sees all
};

/// The selected units, ordered by sequence, layer and KV head. A layer or head that is missing in
/// some sequence is skipped there. Throws UsageError, which lists the valid choices, if a sequence,
/// layer or head is in no selected sequence; DataError if the selected sequences have no head.
std::vector<SelectedUnit> select_units(const Trace& trace, const Selection& selection);

/// The keys and values of a layer as recorded.
VectorShape vectors_of(const LayerInfo& layer);

/// What is recorded of the sequence and of the layer of a unit that the trace has.
const SequenceInfo& sequence_info(const Trace& trace, const UnitName& unit);
const LayerInfo& layer_info(const Trace& trace, const UnitName& unit);

}  // namespace kvsim
