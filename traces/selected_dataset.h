#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "traces/hdf5/group_reader.h"
#include "traces/selected_tokens.h"
#include "traces/trace.h"

namespace kvsim {

// The dataset `selected` of a layer, int32 [tokens, K]: per step ascending positions, -1 behind
// them. The caller holds the Hdf5Lock for what reads a group.

/// Its shape, if it is there. Throws DataError unless it is int32 and has a row per token.
std::optional<std::vector<int>> shape_of_selected(const GroupReader& layer, int tokens);

/// Null if it is not there. Throws DataError unless each step selects at least one token, ascending
/// and none later than itself, the last one inside the window and the chunk of the layer.
std::shared_ptr<const SelectedTokens> read_selected(const GroupReader& layer, const LayerInfo& info,
                                                    int tokens);

/// The same of rows of so many numbers. Calls `fail`, which throws, with what was expected and what
/// was found; the steps begin at `first_step`.
SelectedTokens selected_of_rows(
    std::span<const std::int32_t> rows, std::size_t width,
    const std::function<void(const std::string& expected, const std::string& found)>& fail,
    int first_step = 0);

/// The rows of a selection as they are stored, as wide as the longest.
std::vector<std::int32_t> padded_rows(const SelectedTokens& selection);

}  // namespace kvsim
