#include "policies/registry/allocation.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/registry/settings.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"

namespace kvsim {
namespace {

const AllocationInfo& info_of(Allocation allocation) {
  return allocations()[static_cast<std::size_t>(allocation)];
}

/// The parameters of an allocation that reads a file, before its own.
std::vector<Param> of_file(const std::string& help, std::vector<Param> own = {}) {
  std::vector<Param> params{
      Param::text("file", help),
      Param::text("sha256", "what the file has to hold; filled in when it is read")};
  params.insert(params.end(), own.begin(), own.end());
  return params;
}

std::string owner_of(Allocation allocation) { return "allocation @" + info_of(allocation).name; }

/// Whether "PATH" stands where "key=value" is expected: no name has a '.' or '/'.
bool is_path(std::string_view entry) {
  const std::size_t equals = entry.find('=');
  return equals == std::string_view::npos ||
         entry.substr(0, equals).find_first_of("./") != std::string_view::npos;
}

}  // namespace

std::span<const AllocationInfo> allocations() {
  static const std::vector<AllocationInfo> table{
      {"uniform", "every head gets the budget", "the default", ""},
      {"pyramid",
       "less for later layers: apart from the newest tokens that the policy always keeps, a "
       "layer's part falls evenly from nearly twice an even split to a twentieth of it",
       "PyramidKV section 4.1; KVCache-Factory, whose beta, the even split over the last layer's "
       "part, is 20",
       "the program rounds the step between layers down and may so keep more than the budget; "
       "where it does, later layers get less here. As in the program, the split is even where "
       "twice the budget without those newest tokens exceeds the text"},
      {"persistence", "more for layers in which less of what is important stays so",
       "Scissorhands section 4.1, \"Allocating Budgets Across Attention Heads\"",
       "the paper gives a rule of thumb; here in proportion to 1 / persistence ratio, measured "
       "over the prompt, or in stream mode over the whole text, the future included"},
      {"adaptive",
       "a fifth of the budget for every head, the rest of a layer where its heads attend; newest "
       "tokens that the policy always keeps do not compete",
       "AdaKV Algorithm 1, alpha = 0.2; AdaKVPress of kvpress",
       "the votes are those of a policy that has votes, snapkv, else the attention of the "
       "prompt's last 32 steps, or in stream mode the text's, the future included"},
      {"cake",
       "more for layers whose last steps spread their attention (entropy H) and shift it from step "
       "to step (variance V): in proportion to H^(1/tau1) V^(1/tau2), apart from the newest tokens "
       "that the policy always keeps",
       "CAKE (Qin et al., ICLR 2025) section 4.1; antgroup/cakekv",
       "the paper's cascade, which cuts layers while later ones are read, ends in this split. The "
       "last steps are those of a policy that has votes, snapkv, else 32. Measured over the "
       "prompt, or in stream mode over the whole text, the future included. What a layer cannot "
       "hold goes to the others evenly, as in the program, until none holds more than the text; "
       "the program stops after the first round and may keep less than the budget",
       {Param::real("tau1", 1, 0.01, 100, "temperature of the entropy; cakekv has one per model"),
        Param::real("tau2", 1, 0.01, 100, "temperature of the variance; likewise")}},
      {"file",
       "what a file says of each head: LU-KV's shares per compression ratio, as `python -m "
       "kvsim.head_budgets` writes them, or one weight per head",
       "LUKVPress of kvpress; LU-KV (arXiv 2602.08585)",
       "of 99 rows the one of the nearest ratio counts, as in LUKVPress, and the total of all "
       "heads is kept, where LUKVPress rounds that of each layer",
       of_file(".npy, .json or a table of numbers: [99, layers, KV heads] or [layers, KV heads]")},
      {"duo",
       "everything for the heads of highest alpha, sinks + recent tokens for the others; the head "
       "between them gets what is left of the total",
       "DuoAttention (Xiao et al., ICLR 2025) section 2.3; full_attention_heads.tsv of "
       "mit-han-lab/duo-attention",
       "the program takes a share of heads, here that share follows from the budget; of equal "
       "alphas the first counts as higher, where the program draws",
       of_file("full_attention_heads.tsv: [layers, KV heads] of alpha, 0 to 1",
               {Param::integer("sinks", 128, 0, 1'000'000'000,
                               "first tokens of a streaming head: sink_size of config.json"),
                Param::integer("recent", 256, 1, 1'000'000'000,
                               "its newest tokens: recent_size of config.json")})},
      {"headkv",
       "of the budget without the newest tokens that the policy always keeps, 1/beta of every "
       "head goes to a pool, which is split in proportion to the scores of a file",
       "HeadKV (Fu et al., ICLR 2025) section 3.2; FYYFU/HeadKV",
       "the program has a cache per query head; a KV head here gets the mean of its query heads. "
       "The program rounds each head for itself and so may miss the total, and does not pass on "
       "what a head cannot hold",
       of_file("head scores: {\"LAYER-HEAD\": [scores]} as in Important_Head/head_score, or "
               "[layers, heads]",
               {Param::real("beta", 1.2, 1, 1e6, "the pool is this part of the budget: 1/beta")})}};
  return table;
}

std::vector<std::string> allocation_names() {
  std::vector<std::string> names;
  for (const AllocationInfo& allocation : allocations()) names.push_back(allocation.name);
  return names;
}

const std::string& allocation_name(Allocation allocation) { return info_of(allocation).name; }

Allocation parse_allocation(std::string_view name) {
  const std::vector<std::string> names = allocation_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw UsageError(fmt::format("unknown allocation '{}'; did you mean '{}'? There are: {}", name,
                                 nearest(name, names), fmt::join(names, ", ")));
  }
  return static_cast<Allocation>(found - names.begin());
}

bool needs_measurement(Allocation allocation) {
  return allocation == Allocation::persistence || allocation == Allocation::adaptive ||
         allocation == Allocation::cake;
}

bool splits_layers(Allocation allocation) {
  return allocation == Allocation::adaptive || allocation == Allocation::file ||
         allocation == Allocation::duo || allocation == Allocation::headkv;
}

bool follows_policy(Allocation allocation) {
  return allocation == Allocation::pyramid || allocation == Allocation::adaptive ||
         allocation == Allocation::cake || allocation == Allocation::headkv;
}

AllocationSpec::AllocationSpec(Allocation rule) : rule_(rule), params_(info_of(rule).params) {}

AllocationSpec::AllocationSpec(std::string_view text)
    : AllocationSpec(parse_allocation(text.substr(0, text.find(':')))) {
  const std::size_t colon = text.find(':');
  bool has_settings = colon != std::string_view::npos;
  std::string_view settings = has_settings ? text.substr(colon + 1) : std::string_view();
  if (const auto first = settings.substr(0, settings.find(','));
      has_settings && reads_file() && is_path(first)) {
    set("file", first);
    has_settings = first.size() < settings.size();
    if (has_settings) settings.remove_prefix(first.size() + 1);
  }
  if (has_settings) {
    for (const auto& [name, value] : parse_settings(settings, owner_of(rule_))) {
      if (name == "file" && !file().empty()) {
        throw UsageError(fmt::format("{}: 'file' is given twice", owner_of(rule_)));
      }
      set(name, value);
    }
  }
  require_file();
}

std::string AllocationSpec::text() const {
  const std::string values = params_.text();
  return values.empty() ? allocation_name(rule_) : allocation_name(rule_) + ':' + values;
}

bool AllocationSpec::reads_file() const { return has("file"); }

AllocationSpec AllocationSpec::with_sha256(const std::string& sha256) const {
  AllocationSpec changed = *this;
  changed.set("sha256", sha256);
  return changed;
}

bool AllocationSpec::has(std::string_view name) const {
  const std::vector<Param>& params = info_of(rule_).params;
  return std::any_of(params.begin(), params.end(),
                     [&](const Param& param) { return param.name == name; });
}

void AllocationSpec::set(std::string_view name, std::string_view value) {
  if (const std::size_t at = value.find_first_of("@+;"); at != std::string_view::npos) {
    throw UsageError(fmt::format("{}: {}='{}' has a '{}', which separates parts of a spec{}",
                                 owner_of(rule_), name, value, value[at],
                                 name == "file" ? "; rename the file or its folder" : ""));
  }
  params_.set(name, value, owner_of(rule_));
}

void AllocationSpec::require_file() const {
  if (!reads_file() || !file().empty()) return;
  throw UsageError(fmt::format("allocation @{0} needs a file: @{0}:PATH", allocation_name(rule_)));
}

}  // namespace kvsim
