// Keys per channel, values per token (KIVI: Liu et al., ICML 2024, section 3.3, Algorithm 1;
// models/llama_kivi.py of the authors' program). Outliers of keys lie in few channels, so a channel
// of a group of tokens shares a range; values have no such channels, so a token does.
//
// The newest tokens stay as recorded: keys until `residual` of them have gathered, which are then
// all quantised, values until they are older than the newest `residual`. Where tokens are evicted,
// only those count that are held when it happens.

#include <algorithm>
#include <string>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/interface/store_combinator.h"
#include "policies/parts/min_max_codes.h"

namespace kvsim {
namespace {

struct KiviSettings {
  int bits = 2;
  int group = 32;
  int residual = 32;
};

class KiviStore final : public Store {
 public:
  KiviStore(const StoreContext& context, const KiviSettings& settings)
      : Store(context), settings_(settings) {}

  void admit(std::span<const float> key, std::span<const float> value) override {
    Store::admit(key, value);
    group_of_.push_back(-1);
  }

  void settle(const StoredStep& step) override {
    if (!step.is_whole) {
      const auto keys = held_from(keys_end_, step.held);
      quantise_keys(keys.first(keys.size() - keys.size() % residual()));
      const auto values = held_from(values_end_, step.held);
      quantise_values(values.first(values.size() - std::min(values.size(), residual())));
    }
    count_bytes(step.held);
  }

  std::size_t bytes() const override { return bytes_; }

 private:
  std::size_t residual() const { return static_cast<std::size_t>(settings_.residual); }

  static std::span<const std::int32_t> held_from(std::int32_t token,
                                                 std::span<const std::int32_t> held) {
    return {std::lower_bound(held.begin(), held.end(), token), held.end()};
  }

  void quantise_keys(std::span<const std::int32_t> tokens) {
    const auto size = static_cast<std::size_t>(settings_.group);
    for (; !tokens.empty(); tokens = tokens.subspan(size)) {
      quantise_group(tokens.first(size));
      keys_end_ = tokens[size - 1] + 1;
      ++num_groups_;
    }
  }

  void quantise_group(std::span<const std::int32_t> tokens) {
    std::vector<float> channel(tokens.size());
    for (std::size_t c = 0; c < static_cast<std::size_t>(shape().head_dim); ++c) {
      for (std::size_t i = 0; i < tokens.size(); ++i) channel[i] = key_row(tokens[i])[c];
      round_min_max(channel, settings_.bits, shape().key_bytes);
      for (std::size_t i = 0; i < tokens.size(); ++i) key_row(tokens[i])[c] = channel[i];
    }
    for (const std::int32_t token : tokens)
      group_of_[static_cast<std::size_t>(token)] = num_groups_;
  }

  void quantise_values(std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) {
      round_min_max(value_row(token), settings_.group, settings_.bits, shape().value_bytes);
      values_end_ = token + 1;
    }
  }

  void count_bytes(std::span<const std::int32_t> held) {
    const auto dim = static_cast<std::size_t>(shape().head_dim);
    const auto value_dim = static_cast<std::size_t>(shape().value_dim);
    const auto key_bytes = static_cast<std::size_t>(shape().key_bytes);
    const std::size_t code_bytes = bytes_of_codes(dim, settings_.bits);
    const std::size_t value_bytes =
        bytes_of_min_max(value_dim, settings_.group, settings_.bits, shape().value_bytes);
    bytes_ = 0;
    int last_group = -1;
    for (const std::int32_t token : held) {
      const int group = group_of_[static_cast<std::size_t>(token)];
      bytes_ += group < 0 ? dim * key_bytes : code_bytes;
      if (group != last_group && group >= 0) bytes_ += 2 * dim * key_bytes;
      last_group = group;
      bytes_ += token < values_end_ ? value_bytes
                                    : value_dim * static_cast<std::size_t>(shape().value_bytes);
    }
  }

  KiviSettings settings_;
  std::int32_t keys_end_ = 0;    // keys of held tokens before it are quantised
  std::int32_t values_end_ = 0;  // the same of values
  std::vector<int> group_of_;    // per token, of its key; -1: as recorded
  int num_groups_ = 0;
  std::size_t bytes_ = 0;
};

class Kivi final : public StoreKind {
 public:
  explicit Kivi(const KiviSettings& settings) : settings_(settings) {}

  std::unique_ptr<Store> make(const StoreContext& context) const override {
    return std::make_unique<KiviStore>(context, settings_);
  }

  std::size_t bytes(const VectorShape& shape, int tokens, int) const override {
    const auto dim = static_cast<std::size_t>(shape.head_dim);
    const int window = std::min(tokens, settings_.residual);
    const int num_groups = (tokens - window + settings_.group - 1) / settings_.group;
    const std::size_t old_bytes =
        bytes_of_codes(dim, settings_.bits) +
        bytes_of_min_max(static_cast<std::size_t>(shape.value_dim), settings_.group, settings_.bits,
                         shape.value_bytes);
    return static_cast<std::size_t>(window) * shape.bytes() +
           static_cast<std::size_t>(tokens - window) * old_bytes +
           static_cast<std::size_t>(num_groups) * 2 * dim *
               static_cast<std::size_t>(shape.key_bytes);
  }

 private:
  KiviSettings settings_;
};

void store_as_kivi(Rules& rules, const Params& params, const Context&) {
  rules.store = std::make_shared<Kivi>(KiviSettings{.bits = params.integer("bits"),
                                                    .group = params.integer("group"),
                                                    .residual = params.integer("residual")});
}

std::string why_not_kivi(const PolicyInfo& policy, const Rules& rules, const Params& params) {
  if (params.integer("residual") % params.integer("group") != 0) {
    return "residual must be a multiple of group, as keys are quantised residual tokens at a time";
  }
  return why_not_stored(policy, rules);
}

}  // namespace

CombinatorInfo kivi_combinator() {
  return {
      .name = "kivi",
      .does =
          "keys are kept as integers of a few bits per channel, values per token, the newest "
          "as recorded",
      .source = "Liu et al., ICML 2024 (KIVI), section 3.3, Algorithm 1",
      .differences =
          "least numbers and steps have the recorded precision, the program's are halves; keys "
          "and values have the same bits; the last group of a value may be shorter, where the "
          "program asks for a multiple of the group; codes are packed per token, so that those "
          "of an evicted token are freed",
      .params = {Param::integer("bits", 2, 1, 8, "bits per number"),
                 Param::integer("group", 32, 1, 1'000'000,
                                "tokens of a key's channel, and channels of a value, that share "
                                "a least number and a step"),
                 Param::integer("residual", 32, 1, 1'000'000,
                                "newest tokens kept as recorded; a multiple of group")},
      .change = store_as_kivi,
      .why_not = why_not_kivi};
}

}  // namespace kvsim
