#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/replay/replay.h"
#include "sim/results/store.h"

namespace kvsim::python {

/// The members of a Proof.
using SentProof = std::tuple<double, double, std::optional<double>>;

/// The members of a LayerError.
using SentLayerError =
    std::tuple<std::optional<double>, std::optional<double>, std::optional<double>, int>;

/// The members of a SampledInterval.
using SentInterval = std::pair<std::string, std::optional<std::pair<double, double>>>;

/// A row of the table `replay`, its values parallel to result_columns(), what its oracle proves,
/// the errors of its layer and its intervals, as processes send them to each other.
using SentRow = std::tuple<std::vector<Value>, std::optional<SentProof>,
                           std::optional<SentLayerError>, std::vector<SentInterval>>;

SentRow sent(const Outcome& outcome);

/// Throws as fail_to_receive() for a row with other columns.
Outcome received(const SentRow& row);

/// Throws std::runtime_error: another version of the program may have sent what was found.
[[noreturn]] void fail_to_receive(const std::string& expected_and_found);

}  // namespace kvsim::python
