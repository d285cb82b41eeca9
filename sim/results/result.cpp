#include "sim/results/result.h"

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

}  // namespace

Value value_of(std::optional<double> number) {
  if (number) return *number;
  return std::monostate();
}

Value value_of(std::optional<std::int64_t> number) {
  if (number) return *number;
  return std::monostate();
}

bool Column::can_be_null() const {
  return std::holds_alternative<std::optional<double> Result::*>(member) ||
         std::holds_alternative<std::optional<std::int64_t> Result::*>(member) ||
         std::holds_alternative<std::optional<std::string> Result::*>(member);
}

Value Column::get(const Result& result) const {
  return std::visit([&](auto pointer) { return to_value(result.*pointer); }, member);
}

void Column::set(Result& result, const Value& value) const {
  std::visit([&](auto pointer) { assign(result.*pointer, value); }, member);
}

std::span<const Column> result_columns() {
  static const std::vector<Column> columns{
      {"trace_id", &Result::trace_id},
      {"sequence", &Result::sequence},
      {"layer", &Result::layer},
      {"kv_head", &Result::kv_head},
      {"policy", &Result::policy},
      {"budget", &Result::budget},
      {"mode", &Result::mode},
      {"seed", &Result::seed},
      {"trace", &Result::trace},
      {"budget_request", &Result::budget_request},
      {"steps", &Result::steps},
      {"attention_recall", &Result::attention_recall},
      {"attention_loss", &Result::attention_loss},
      {"miss_rate", &Result::miss_rate},
      {"token_accesses", &Result::token_accesses},
      {"token_misses", &Result::token_misses},
      {"output_error_mean", &Result::output_error_mean},
      {"output_error_p50", &Result::output_error_p50},
      {"output_error_p95", &Result::output_error_p95},
      {"output_error_max", &Result::output_error_max},
      {"output_error_sq", &Result::output_error_sq},
      {"predicted_kl", &Result::predicted_kl},
      {"bound_mean", &Result::bound_mean},
      {"bound_violations", &Result::bound_violations},
      {"evictions", &Result::evictions},
      {"peak_tokens", &Result::peak_tokens},
      {"cache_bytes", &Result::cache_bytes},
      {"device", &Result::device},
      {"kvsim_version", &Result::kvsim_version},
      {"label", &Result::label},
      {"ties", &Result::ties},
      {"policy_code", &Result::policy_code},
      {"run_id", &Result::run_id},
  };
  return columns;
}

}  // namespace kvsim
