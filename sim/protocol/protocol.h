#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "sim/protocol/paging.h"

namespace kvsim {

struct ProtocolOptions;

enum class Mode {
  stream,  ///< every step evicts; every step is measured
  prefill  ///< the prompt attends in full, then evicts once; later steps are measured
};

/// The eviction interval of a cache that evicts at the end of the prompt and never again.
inline constexpr int kNeverEvict = std::numeric_limits<int>::max();

/// What a replay compares its caches with.
enum class Reference {
  full,    ///< the full attention at every step; takes O(n²) time per unit
  sample,  ///< the full attention at some steps, O(n) each; see MeasuredSteps
  none     ///< nothing: the replay only records evictions
};

/// At which steps caches evict, and which steps are measured against what. EvictionSteps and
/// MeasuredSteps are what it comes to on one text.
struct Protocol {
  Mode mode = Mode::stream;
  int eviction_interval = 1;  ///< see most_held(); kNeverEvict in prefill mode only
  Paging paging = {};         ///< whole pages leave, where their size is above 1
  int error_stride = 1;       ///< steps between measured output errors, counted back from the last
  Reference reference = Reference::full;
  int samples = 0;  ///< of Reference::sample: the number of measured steps

  /// The protocol that the column `mode` names. Throws DataError for another text.
  static Protocol of_name(std::string_view name);

  /// The column `mode`: "stream" or "prefill", then what is not the default: "stream:every=10",
  /// "prefill:interval=never,reference=sample:64".
  std::string name() const;

  /// The options that ask for it: protocol_of() gives it back.
  ProtocolOptions options() const;

  bool operator==(const Protocol&) const = default;

  /// The tokens that a share of a text stands for: of all in stream mode, else of the prompt.
  int base(int num_tokens, int prompt_length) const {
    return mode == Mode::stream ? num_tokens : prompt_length;
  }

  /// The first step that is measured: the one after the prompt, or step 0 in stream mode.
  int first_measured(int prompt_length) const { return mode == Mode::prefill ? prompt_length : 0; }

  /// The most tokens that a cache may hold after a step without evicting. One that holds more
  /// evicts down to its budget. Between evictions the cache may grow by the interval - 1 tokens
  /// beyond it; the end of a prompt always cuts down to the budget (EvictionSteps::most_held()).
  int most_held(int budget) const;

  /// Whether a cache evicts at the end of the prompt and never again.
  bool evicts_once() const { return eviction_interval == kNeverEvict; }

  /// Whether a full cache evicts at every step.
  bool evicts_every_step() const { return eviction_interval == 1; }

  /// Whether the full attention of every step is there.
  bool has_reference() const { return reference == Reference::full; }

  /// Whether something is compared with the full attention.
  bool measures() const { return reference != Reference::none; }
};

/// A protocol as users of the program and of Python write it.
struct ProtocolOptions {
  std::string mode = "stream";
  std::string eviction_interval = "1";  ///< tokens, or "never"
  int page = 1;                         ///< tokens
  std::string page_score = "mean";      ///< or "max", "min"
  int every = 1;
  std::string reference = "full";  ///< or "none", "sample:N"

  /// Calls take(name, member, help) for each that says when caches evict: the one declaration of
  /// these options. `name` is that in Python; the program has '-' for '_'.
  template <class Take>
  void each_of_evictions(const Take& take) {
    take("mode", mode,
         "stream: evict from the first token on; prefill: the prompt attends in full and is cut to "
         "the budget; then every later token evicts one, unless --eviction-interval says "
         "otherwise; only later steps are measured");
    take("eviction_interval", eviction_interval,
         "K: the cache may grow by K - 1 tokens beyond its budget before a step evicts again; "
         "never: with --mode prefill, the prompt is cut once and every later token stays, as in "
         "SnapKV and kvpress (sweep and replay only)");
    take("page", page,
         "P: caches evict whole pages of P tokens, as a paged engine can; budgets are multiples of "
         "P, of at least 2 P");
    take("page_score", page_score,
         "the score of a page from those of its tokens: mean, max or min; the lowest page goes");
  }

  /// The same for each that says what is measured.
  template <class Take>
  void each_of_measuring(const Take& take) {
    take("every", every, "output errors at the last step and at every so many steps before it");
    take("reference", reference,
         "full: what is lost against the full attention; sample:N: the same at N steps, evenly "
         "spaced, the last included, with 95% intervals, for long texts; none: only what leaves "
         "and when, for texts of millions of tokens");
  }

  /// The same for all, in the order of Protocol::name().
  template <class Take>
  void each(const Take& take) {
    each_of_evictions(take);
    each_of_measuring(take);
  }
};

/// Throws UsageError, which names the option as the program does, for a value that is not allowed.
Protocol protocol_of(const ProtocolOptions& options);

/// Throws UsageError, which says why, unless caches evict at every step.
void check_evicts_every_step(const Protocol& protocol, std::string_view why);

/// The same unless they evict token by token.
void check_evicts_by_token(const Protocol& protocol, std::string_view why);

}  // namespace kvsim
