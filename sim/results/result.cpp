#include "sim/results/result.h"

#include <algorithm>
#include <type_traits>

namespace kvsim {

namespace {

template <class T>
Value to_value(const T& field) {
  return field;
}

template <class T>
Value to_value(const std::optional<T>& field) {
  return field ? Value(*field) : Value(std::monostate());
}

template <class T>
void assign(T& field, const Value& value) {
  field = std::get<T>(value);
}

template <class T>
void assign(std::optional<T>& field, const Value& value) {
  field.reset();
  if (!std::holds_alternative<std::monostate>(value)) field = std::get<T>(value);
}

template <class T>
constexpr ColumnSchema::Type type_of() {
  if constexpr (std::is_same_v<T, std::string>) return ColumnSchema::Type::text;
  if constexpr (std::is_same_v<T, double>) return ColumnSchema::Type::real;
  return ColumnSchema::Type::integer;
}

template <class T>
void declare(ColumnSchema& column, T Result::*) {
  column.type = type_of<T>();
  column.is_filled = true;
}

template <class T>
void declare(ColumnSchema& column, std::optional<T> Result::*) {
  column.type = type_of<T>();
  column.is_filled = false;
}

/// A column whose type follows from its member.
ColumnSchema column(std::string name, std::string meaning) {
  return {.name = std::move(name), .meaning = std::move(meaning)};
}

}  // namespace

Value value_of(std::optional<double> number) {
  if (number) return *number;
  return std::monostate();
}

Value value_of(std::optional<std::int64_t> number) {
  if (number) return *number;
  return std::monostate();
}

Column::Column(ColumnSchema declared, Member field)
    : ColumnSchema(std::move(declared)), member(field) {
  std::visit([&](auto pointer) { declare(*this, pointer); }, member);
}

Value Column::get(const Result& result) const {
  return std::visit([&](auto pointer) { return to_value(result.*pointer); }, member);
}

void Column::set(Result& result, const Value& value) const {
  std::visit([&](auto pointer) { assign(result.*pointer, value); }, member);
}

std::span<const Column> result_columns() {
  using enum Preferred;
  using namespace ranges;
  static const std::vector<Column> columns{
      {column("trace_id", "the trace: its trace_id, or the SHA-256 of the file").key(),
       &Result::trace_id},
      {column("sequence", "the recorded text").key(), &Result::sequence},
      {column("layer", "0-based").in(kCount).key(), &Result::layer},
      {column("kv_head", "0-based within the layer").in(kCount).key(), &Result::kv_head},
      {column("policy", "canonical spec: every parameter with its value").key(), &Result::policy},
      {column("budget", "most tokens that the KV head may keep, in tokens")
           .in(kFromOne, neither, "tokens")
           .key(),
       &Result::budget},
      {column(
           "mode",
           "stream: every step is measured; prefill: only the steps after the prompt. Suffix "
           "interval=K: the cache may exceed its budget by K - 1 tokens; interval=never: the "
           "prompt is cut once and every later token stays. Suffix page=P: whole pages of P tokens "
           "leave, the one with the lowest mean score first; page-score=max or min: by another "
           "score. Suffix every=K: output errors only at the last step and every K-th step before "
           "it. Suffix reference=none: no comparison with the full attention; reference=sample:N: "
           "at N steps alone, with intervals in the table sampled_interval")
           .key(),
       &Result::mode},
      {column("seed", "of the policy's random choices").key(), &Result::seed},
      {column("trace", "the trace file, as named on the command line"), &Result::trace},
      {column("budget_request",
              "the budget as it was asked for: tokens, a share, or bytes per KV head"),
       &Result::budget_request},
      {column("steps", "measured steps").in(kCount, neither, "steps"), &Result::steps},
      {column("attention_recall",
              "share of the full attention that does not fall on missing tokens, 0..1; a learned "
              "sink stays, so a full cache has 1; this and all below up to evictions is NULL "
              "without a reference")
           .in(kShare, higher)
           .open_loop(),
       &Result::attention_recall},
      {column("attention_loss", "1 - attention_recall").in(kShare, lower).open_loop(),
       &Result::attention_loss},
      {column("miss_rate",
              "of the pivotal tokens, a[t,j] > 1/(t+1), the share not in the cache, 0..1")
           .in(kShare, lower)
           .open_loop(),
       &Result::miss_rate},
      {column("token_accesses", "pivotal tokens, summed over query heads and steps")
           .in(kCount, neither, "tokens"),
       &Result::token_accesses},
      {column("token_misses", "pivotal tokens that are not in the cache")
           .in(kCount, lower, "tokens"),
       &Result::token_misses},
      {column("output_error_mean",
              "|o - o'| / |o| of the attention outputs o of the full and o' of the evicting cache, "
              "mean over query heads and steps")
           .in(kNotNegative, lower)
           .open_loop(),
       &Result::output_error_mean},
      {column("output_error_p50", "the same, median").in(kNotNegative, lower).open_loop(),
       &Result::output_error_p50},
      {column("output_error_p95", "the same, 95th percentile").in(kNotNegative, lower).open_loop(),
       &Result::output_error_p95},
      {column("output_error_max", "the same, largest").in(kNotNegative, lower).open_loop(),
       &Result::output_error_max},
      {column("output_error_sq",
              "|o - o'|^2, in absolute terms, mean over query heads and steps; other than in the "
              "relative error, heads that write little count little")
           .in(kNotNegative, lower, "squared norm")
           .open_loop(),
       &Result::output_error_sq},
      {column("predicted_kl",
              "what the model's predictions lose by it, to second order, in nats per token: half "
              "the mean of (g . (o' - o))^2, g the gradient of the log-probability of tokens that "
              "the model drew; summed over query heads. NULL: the trace has no output_score_grad")
           .in(kNotNegative, lower, "nats per token")
           .open_loop()
           .summed(),
       &Result::predicted_kl},
      {column("bound_mean",
              "Scissorhands Lemma B.4, 2 max|v| attention_loss / |o|, an upper bound of the error; "
              "the 2 is in the lemma's proof, its statement leaves it out; NULL for estimators, "
              "+quant and other stores, +rest and positions=slot")
           .in(kNotNegative, lower),
       &Result::bound_mean},
      {column("bound_violations", "errors above their bound: 0; NULL as the bound is")
           .in(kCount, lower),
       &Result::bound_violations},
      {column(
           "evictions",
           "tokens that left; of an estimator, tokens whose value is not in the cache at the end")
           .in(kCount, neither, "tokens"),
       &Result::evictions},
      {column("peak_tokens", "most tokens held after a step; of an estimator, most vectors")
           .in(kCount, lower, "tokens"),
       &Result::peak_tokens},
      {column(
           "cache_bytes",
           "keys and values of peak_tokens at the trace's element size; of estimators, +quant and "
           "other stores the largest size after a step, as stored")
           .in(kCount, lower, "bytes"),
       &Result::cache_bytes},
      {column("kv_footprint",
              "tokens held after each measured step, summed over steps: each token counts as often "
              "as its lifetime in steps; divided by steps it is the mean size of the cache; NULL "
              "for estimators and in rows of earlier versions")
           .in(kCount, lower, "tokens x steps"),
       &Result::kv_footprint},
      {column("device", "the device that computed the row"), &Result::device},
      {column("kvsim_version", "the release and source revision that wrote the row"),
       &Result::kvsim_version},
      {column("label",
              "the name that the user gave the policy; NULL without one; in no key, the next sweep "
              "may change it"),
       &Result::label},
      {column("ties",
              "evictions that equal scores decided, the lower text position first; rounding "
              "decides what is equal, so compare it between rows of kvsim only; NULL for "
              "estimators and in rows of earlier versions")
           .in(kCount, neither, "evictions"),
       &Result::ties},
      {column("policy_code",
              "a digest of the policy's code and the version of the engine's numbers; kvsim sweep "
              "makes rows of another code again"),
       &Result::policy_code},
      {column("run_id", "the row of the table run of the command that wrote this row"),
       &Result::run_id},
  };
  return columns;
}

std::vector<ColumnSchema> key_columns() {
  const auto key = result_columns().first(kKeyColumns);
  return {key.begin(), key.end()};
}

ColumnSchema result_column(std::string_view name) {
  return std::ranges::find(result_columns(), name, &Column::name)->schema();
}

ColumnSchema result_column(std::string_view name, std::string meaning) {
  ColumnSchema column = result_column(name);
  column.meaning = std::move(meaning);
  column.is_filled = false;
  return column;
}

TableSchema replay_schema() {
  const auto columns = result_columns();
  return {"replay",
          "one policy at one budget on one KV head of one layer of one sequence",
          "",
          {columns.begin(), columns.end()},
          false};  // `run_id` is a member of Result
}

}  // namespace kvsim
