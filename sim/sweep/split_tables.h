#pragma once

#include <map>
#include <string>

#include "policies/registry/spec.h"
#include "sim/sweep/head_table.h"
#include "traces/trace.h"

namespace kvsim {

/// The heads of a trace's model, of the layers that were recorded of a sequence and have a cache of
/// their own.
ModelHeads model_heads(const Trace& trace, const std::string& sequence);

/// The files that the splits of some specs read, each read once.
class SplitTables {
 public:
  /// The table of the spec's split. Throws DataError if the file cannot be read, check_table()
  /// refuses it, or its SHA-256 is not the one that the spec names.
  const HeadTable& of(const Spec& policy);

 private:
  std::map<std::string, HeadTable> tables_;  // by path
};

/// The spec, whose split reads a file, with the SHA-256 of that file: a row names the split by
/// that, not by its path alone. Throws DataError as SplitTables::of() does.
Spec with_split_hash(const Spec& policy);

/// The spec with the SHA-256 of each file that it names: with_policy_file_hash() and
/// with_split_hash().
Spec with_file_hashes(const Spec& policy);

}  // namespace kvsim
