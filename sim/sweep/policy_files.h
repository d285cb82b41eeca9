#pragma once

#include "policies/registry/spec.h"

namespace kvsim {

struct SweepPlan;

/// The spec, whose policy reads a file, with the SHA-256 of that file: a row names the file by
/// that, not by its path alone. Trained scorers are read, and come with the spec. Throws DataError
/// for another file, and if the spec names another SHA-256.
Spec with_policy_file_hash(const Spec& policy);

/// Throws DataError where trained scorers are not of the model of a trace.
void check_scorers(const SweepPlan& plan);

}  // namespace kvsim
