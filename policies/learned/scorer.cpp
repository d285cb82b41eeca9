#include "policies/learned/scorer.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace kvsim {
namespace {

constexpr std::pair<std::string_view, FeatureKind> kNames[] = {
    {"key", FeatureKind::key},
    {"value", FeatureKind::value},
    {"key_norm", FeatureKind::key_norm},
    {"value_norm", FeatureKind::value_norm},
    {"key_like_mean", FeatureKind::key_like_mean},
    {"first", FeatureKind::first},
    {"position", FeatureKind::position},
    {"punctuation", FeatureKind::punctuation},
    {"special", FeatureKind::special},
    {"now", FeatureKind::now},
    {"mean", FeatureKind::mean},
    {"largest", FeatureKind::largest},
    {"age", FeatureKind::age},
    {"decayed", FeatureKind::decayed},
    {"neighbours", FeatureKind::neighbours}};

}  // namespace

std::optional<Feature> find_feature(std::string_view name) {
  const std::size_t colon = name.find(':');
  const auto* const found =
      std::find_if(std::begin(kNames), std::end(kNames),
                   [&](const auto& known) { return known.first == name.substr(0, colon); });
  if (found == std::end(kNames)) return std::nullopt;
  Feature feature{found->second};
  if (feature.is_decayed() != (colon != std::string_view::npos)) return std::nullopt;
  if (!feature.is_decayed()) return feature;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + colon + 1, end, feature.rate);
  if (error != std::errc() || rest != end) return std::nullopt;
  if (!(feature.rate > 0 && feature.rate < 1)) return std::nullopt;
  return feature;
}

std::vector<std::string> feature_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kNames) {
    names.emplace_back(name);
    if (Feature{kind}.is_decayed()) names.back() += ":0.98";
  }
  return names;
}

std::size_t Scorer::num_scorers() const {
  if (reach == Reach::model) return 1;
  const auto each = static_cast<std::size_t>(layers);
  return reach == Reach::layer ? each : each * static_cast<std::size_t>(kv_heads);
}

std::size_t Scorer::columns_of(const Feature& feature) const {
  if (feature.kind == FeatureKind::key) return static_cast<std::size_t>(head_dim);
  if (feature.kind == FeatureKind::value) return static_cast<std::size_t>(value_dim);
  return 1;
}

std::size_t Scorer::num_columns() const {
  std::size_t count = 0;
  for (const Feature& feature : features) count += columns_of(feature);
  return count;
}

std::size_t Scorer::index_of(int layer, int kv_head) const {
  if (reach == Reach::model) return 0;
  const auto of_layer = static_cast<std::size_t>(layer);
  if (reach == Reach::layer) return of_layer;
  return of_layer * static_cast<std::size_t>(kv_heads) + static_cast<std::size_t>(kv_head);
}

bool Scorer::sees(FeatureKind wanted) const {
  return std::any_of(features.begin(), features.end(),
                     [&](const Feature& feature) { return feature.kind == wanted; });
}

bool Scorer::sees_rotation() const {
  return unrotated && (sees(FeatureKind::key) || sees(FeatureKind::key_like_mean));
}

}  // namespace kvsim
