#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/results/column.h"

namespace kvsim {

/// One row of the table `replay`: one unit under one policy at one budget. Means are over all query
/// heads and measured steps.
struct Result {
  // The key.
  std::string trace_id;
  std::string sequence;
  std::int64_t layer = 0;
  std::int64_t kv_head = 0;
  std::string policy;       ///< canonical spec
  std::int64_t budget = 0;  ///< tokens
  std::string mode;         ///< Protocol::name()
  std::int64_t seed = 0;

  std::string trace;           ///< the file, as named by the user
  std::string budget_request;  ///< the budget, as written by the user
  std::int64_t steps = 0;      ///< measured steps

  // Comparisons with the full attention; empty without a reference.
  std::optional<double> attention_recall = 0;  ///< share of the full attention on cached tokens
  std::optional<double> attention_loss = 0;    ///< 1 - attention_recall
  std::optional<double> miss_rate = 0;  ///< token_misses / token_accesses; 0: nothing was accessed
  std::optional<std::int64_t> token_accesses = 0;  ///< pivotal tokens, a[t,j] > 1/(t+1)
  std::optional<std::int64_t> token_misses = 0;    ///< of these, those not in the cache
  std::optional<double> output_error_mean = 0;     ///< |o - o'| / |o|, o' of the evicting cache
  std::optional<double> output_error_p50 = 0;
  std::optional<double> output_error_p95 = 0;
  std::optional<double> output_error_max = 0;
  std::optional<double> output_error_sq = 0;  ///< |o - o'|², absolute
  std::optional<double> predicted_kl;         ///< nats per token; empty without recorded gradients

  // Scissorhands Lemma B.4, relative to |o|. Empty for estimators, and if keys and values were
  // quantised or moved to other positions.
  std::optional<double> bound_mean = 0;
  std::optional<std::int64_t> bound_violations = 0;  ///< errors above their bound; 0 unless wrong

  std::int64_t evictions = 0;                ///< tokens
  std::int64_t peak_tokens = 0;              ///< most tokens in the cache after any step
  std::int64_t cache_bytes = 0;              ///< K and V of peak_tokens at the trace's element size
  std::optional<std::int64_t> kv_footprint;  ///< tokens held, summed over steps; not of estimators

  std::string device;
  std::string kvsim_version;
  std::optional<std::string> label;  ///< the user's name of the policy; empty: none
  std::optional<std::int64_t> ties;  ///< evictions that equal scores decided; not of estimators
  std::string policy_code;           ///< policy_code() of the policy
  std::string run_id;  ///< the row of the table `run` of the command that wrote this row
};

/// What an oracle proves of all policies on one unit at one budget, in the loss that it minimises:
/// the mean over the steps that count, in the units of its cost.
struct Proof {
  double loss = 0;                          ///< of the oracle's own schedule
  double loss_bound = 0;                    ///< no policy loses less
  std::optional<double> recall_bound = {};  ///< no policy's attention_recall exceeds it
};

/// The proof of the oracle that is the policy of `row`: a row of the table `certificate`.
struct CertificateRow {
  Result row;
  Proof proof = {};
};

/// The value of a column; std::monostate (NULL): the column does not apply to the row.
using Value = std::variant<std::int64_t, double, std::string, std::monostate>;

Value value_of(std::optional<double> number);
Value value_of(std::optional<std::int64_t> number);

/// One column of the table `replay`, which has the type of its member of Result, and is NULL where
/// that is empty.
struct Column : ColumnSchema {
  using Member =
      std::variant<std::int64_t Result::*, double Result::*, std::string Result::*,
                   std::optional<double> Result::*, std::optional<std::int64_t> Result::*,
                   std::optional<std::string> Result::*>;

  Column(ColumnSchema declared, Member field);

  Member member;

  /// The declaration without the member, as other tables take it.
  const ColumnSchema& schema() const { return *this; }

  Value get(const Result& result) const;
  /// Throws std::bad_variant_access if `value` and the column differ in type.
  void set(Result& result, const Value& value) const;
};

/// All columns in order; the first `kKeyColumns` are the primary key. The schema, value checks,
/// printers, comparisons and the frames of Python are derived from this table.
std::span<const Column> result_columns();
inline constexpr std::size_t kKeyColumns = 8;

/// The declarations alone: of the key, and of one column that is there.
std::vector<ColumnSchema> key_columns();
ColumnSchema result_column(std::string_view name);
/// The same in another table, where it may be NULL unless it is part of the key.
ColumnSchema result_column(std::string_view name, std::string meaning);

TableSchema replay_schema();

}  // namespace kvsim
