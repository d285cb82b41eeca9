#pragma once

#include <string>
#include <vector>

#include "traces/trace.h"

namespace kvsim {

/// Which part of a trace to replay; an empty list means all there is.
struct Selection {
  std::vector<std::string> sequences;
  std::vector<int> layers;
  std::vector<int> kv_heads;
};

/// One selected unit with what is known of it before it is read.
struct SelectedUnit {
  UnitName name;
  int num_tokens = 0;
  int prompt_length = 0;
};

/// The selected units in the order sequence, layer, KV head. A layer or head that some sequence
/// lacks is skipped there; one that no selected sequence has is an error: UsageError, naming what
/// there is. Throws DataError if the selected sequences hold no head at all.
std::vector<SelectedUnit> select_units(const Trace& trace, const Selection& selection);

}  // namespace kvsim
