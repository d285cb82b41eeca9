#include "sim/results/scorer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "sim/base/nearest.h"
#include "sim/base/printable.h"
#include "sim/results/numpy/file_bytes.h"
#include "sim/results/numpy/npy.h"
#include "sim/results/numpy/npz.h"
#include "traces/sha256.h"

namespace kvsim {
namespace {

using Json = nlohmann::json;
using Shape = std::vector<std::size_t>;

const std::string kScorerPage = "see policies/learned/README.md for what a file holds";

/// Reads one file.
class ScorerReader {
 public:
  explicit ScorerReader(const std::filesystem::path& file) : name_(file.string()) {
    const std::string bytes = bytes_of_file(file, "a file of trained scorers (.npz)");
    scorer_.file = name_;
    scorer_.sha256 = sha256(bytes);
    members_ = read_npz(name_, bytes);
  }

  Scorer read() {
    read_header();
    if (scorer_.kind == Scorer::Kind::linear) read_linear();
    if (scorer_.kind == Scorer::Kind::mlp) read_mlp();
    if (scorer_.kind == Scorer::Kind::trees) read_trees();
    for (const auto& [name, bytes] : members_) {
      if (!taken_.contains(name)) refuse("no other arrays", fmt::format("'{}'", printable(name)));
    }
    return std::move(scorer_);
  }

 private:
  [[noreturn]] void refuse(const std::string& expected, const std::string& found) const {
    refuse_file(name_, expected, found, kScorerPage);
  }

  NpyArray array(const std::string& name, const NpyType& type) {
    const auto found = members_.find(name);
    if (found == members_.end()) refuse(fmt::format("an array '{}'", name), "none");
    taken_.insert(name);
    const std::array types{type};
    return read_npy(fmt::format("{}: {}", name_, name), found->second, types, kScorerPage);
  }

  void read_header() {
    constexpr std::size_t kMost = std::size_t{1} << 20U;
    const NpyArray bytes = array("header", kUint8);
    if (bytes.data.size() > kMost) {
      refuse("a header of at most 1 MiB", fmt::format("{} bytes", bytes.data.size()));
    }
    header_ = Json::parse(bytes.data, nullptr, false);
    if (!header_.is_object()) refuse("a header that is a JSON object", "something else");
    if (const Json& version = entry("version"); version != 1) {
      refuse("a header of version 1", shown(version));
    }
    scorer_.kind = choice<Scorer::Kind>("kind", {{"linear", Scorer::Kind::linear},
                                                 {"mlp", Scorer::Kind::mlp},
                                                 {"trees", Scorer::Kind::trees}});
    scorer_.reach = choice<Scorer::Reach>("scope", {{"model", Scorer::Reach::model},
                                                    {"layer", Scorer::Reach::layer},
                                                    {"head", Scorer::Reach::head}});
    scorer_.unrotated = choice<bool>("keys", {{"unrotated", true}, {"recorded", false}});
    scorer_.layers = size("layers");
    scorer_.kv_heads = size("kv_heads");
    scorer_.head_dim = size("head_dim");
    scorer_.value_dim = size("value_dim");
    read_features();
  }

  const Json& entry(const std::string& name) const {
    const auto found = header_.find(name);
    if (found == header_.end()) refuse(fmt::format("'{}' in the header", name), "none");
    return *found;
  }

  static std::string shown(const Json& value) {
    if (value.is_structured()) return value.is_array() ? "a list" : "an object";
    constexpr std::size_t kMost = 60;
    const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    return printable(text.size() > kMost ? text.substr(0, kMost) + "..." : text);
  }

  int size(const std::string& name) const {
    constexpr int kMost = 100'000;
    const Json& value = entry(name);
    if (!value.is_number_integer() || value < 1 || value > kMost) {
      refuse(fmt::format("a whole number from 1 to {} for '{}' in the header", kMost, name),
             shown(value));
    }
    return value.get<int>();
  }

  template <class Choice>
  Choice choice(const std::string& name,
                const std::vector<std::pair<std::string, Choice>>& choices) const {
    const Json& value = entry(name);
    std::vector<std::string> names;
    for (const auto& [text, meaning] : choices) {
      if (value == text) return meaning;
      names.push_back(text);
    }
    refuse(fmt::format("{} for '{}' in the header", fmt::join(names, " or "), name), shown(value));
  }

  void read_features() {
    const Json& names = entry("features");
    if (!names.is_array() || names.empty()) refuse("names of features in the header", shown(names));
    constexpr std::size_t kLongest = 64;
    std::set<std::string> seen;
    for (const Json& name : names) {
      const std::string text = name.is_string() ? name.get<std::string>() : "";
      const std::optional<Feature> feature =
          text.size() <= kLongest ? find_feature(text) : std::nullopt;
      if (!feature) {
        const std::string near = nearest(text.substr(0, kLongest), feature_names());
        refuse(fmt::format("a feature such as '{}'", near), shown(name));
      }
      if (!seen.insert(text).second) refuse("each feature once", fmt::format("'{}' twice", text));
      scorer_.features.push_back(*feature);
    }
    constexpr std::size_t kMost = 1'000'000;
    if (scorer_.num_columns() > kMost) {
      refuse(fmt::format("at most {} columns of features", kMost),
             fmt::format("{}", scorer_.num_columns()));
    }
  }

  /// The numbers of an array of this shape, in which 0 stands for any size but 0.
  template <class Number>
  std::vector<Number> numbers(const std::string& name, const NpyType& type, const Shape& expected,
                              Shape* shape = nullptr) {
    const NpyArray found = array(name, type);
    bool fits = found.shape.size() == expected.size();
    for (std::size_t i = 0; fits && i < expected.size(); ++i) {
      fits = expected[i] == 0 ? found.shape[i] > 0 : found.shape[i] == expected[i];
    }
    if (!fits) {
      std::vector<std::string> sizes;
      for (const std::size_t each : expected) {
        sizes.push_back(each == 0 ? "any" : std::to_string(each));
      }
      refuse(fmt::format("'{}' of shape [{}]", name, fmt::join(sizes, ", ")),
             fmt::format("[{}]", fmt::join(found.shape, ", ")));
    }
    if (shape != nullptr) *shape = found.shape;
    return found.numbers<Number>();
  }

  std::vector<float> weights(const std::string& name, const Shape& expected,
                             Shape* shape = nullptr) {
    std::vector<float> found = numbers<float>(name, kFloat32, expected, shape);
    constexpr float kMost = 1e9F;
    const auto is_sane = [](float x) { return x >= -kMost && x <= kMost; };
    const auto wrong = std::find_if_not(found.begin(), found.end(), is_sane);
    if (wrong == found.end()) return found;
    refuse(fmt::format("finite numbers of at most 1e9 in '{}'", name), fmt::format("{}", *wrong));
  }

  void read_linear() {
    const std::size_t count = scorer_.num_scorers();
    scorer_.weights = weights("weights", {count, scorer_.num_columns()});
    scorer_.bias = weights("bias", {count});
  }

  void read_mlp() {
    const std::size_t count = scorer_.num_scorers();
    Shape shape;
    scorer_.weights = weights("hidden_weights", {count, 0, scorer_.num_columns()}, &shape);
    scorer_.units = shape[1];
    scorer_.hidden_bias = weights("hidden_bias", {count, scorer_.units});
    scorer_.output_weights = weights("output_weights", {count, scorer_.units});
    scorer_.bias = weights("output_bias", {count});
  }

  void read_trees() {
    constexpr int kDeepest = 16;
    const std::size_t count = scorer_.num_scorers();
    Shape shape;
    scorer_.split_feature = numbers<std::int32_t>("split_feature", kInt32, {count, 0, 0}, &shape);
    scorer_.units = shape[1];
    while ((std::size_t{2} << static_cast<unsigned>(scorer_.depth)) <= shape[2] + 1 &&
           scorer_.depth < kDeepest) {
      ++scorer_.depth;
    }
    const std::size_t leaves = std::size_t{1} << static_cast<unsigned>(scorer_.depth);
    if (shape[2] != leaves - 1) {
      refuse(fmt::format("2^E - 1 splits per tree, with E from 1 to {}", kDeepest),
             fmt::format("{}", shape[2]));
    }
    scorer_.split_threshold = numbers<float>("split_threshold", kFloat32, shape);
    scorer_.leaf = weights("leaf", {count, scorer_.units, leaves});
    scorer_.bias = weights("bias", {count});
    const auto columns = static_cast<std::int64_t>(scorer_.num_columns());
    for (const std::int32_t feature : scorer_.split_feature) {
      if (feature >= 0 && feature < columns) continue;
      refuse(fmt::format("columns from 0 to {} in 'split_feature'", columns - 1),
             fmt::format("{}", feature));
    }
    const auto is_nan = [](float x) { return std::isnan(x); };
    if (std::any_of(scorer_.split_threshold.begin(), scorer_.split_threshold.end(), is_nan)) {
      refuse("numbers in 'split_threshold'", "nan");
    }
  }

  std::string name_;
  std::map<std::string, std::string> members_;
  std::set<std::string> taken_;  // of the members
  Json header_;
  Scorer scorer_;
};

}  // namespace

std::shared_ptr<const Scorer> read_scorer(const std::filesystem::path& file) {
  return std::make_shared<const Scorer>(ScorerReader(file).read());
}

void check_scorer(const Scorer& scorer, const ScoredLayer& layer, const std::string& where) {
  const auto check = [&](const char* what, int expected, int found) {
    if (expected == found) return;
    refuse_file(scorer.file, fmt::format("scorers for the {} of {}: {}", what, where, expected),
                fmt::format("{}", found), "train them on this model");
  };
  check("number of layers", layer.layers, scorer.layers);
  check("number of KV heads", layer.kv_heads, scorer.kv_heads);
  check("head dimension", layer.head_dim, scorer.head_dim);
  check("value dimension", layer.value_dim, scorer.value_dim);
}

}  // namespace kvsim
