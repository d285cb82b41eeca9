#include "sim/sweep/head_table_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>

#include "sim/base/printable.h"
#include "sim/results/numpy/file_bytes.h"
#include "sim/sweep/head_table_formats.h"

namespace kvsim {
namespace {

constexpr int kMostHeadIndex = 100'000;

/// The part of JSON that a table needs: lists of lists of numbers, and an object of such lists.
class JsonNumbers {
 public:
  JsonNumbers(const std::string& file, std::string_view text) : file_(file), text_(text) {}

  bool takes(char wanted) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void require(char wanted) {
    if (!takes(wanted)) fail(fmt::format("'{}'", wanted));
  }

  void require_end() {
    skip_blanks();
    if (at_ != text_.size()) fail("the end");
  }

  std::string key() {
    require('"');
    const std::size_t end = std::min(text_.find('"', at_), text_.size());
    std::string name(text_.substr(at_, end - at_));
    at_ = end;
    require('"');
    require(':');
    return name;
  }

  /// A number; null and NaN are NaN.
  double number() {
    skip_blanks();
    for (const std::string_view none : {"null", "NaN"}) {
      if (text_.substr(at_).starts_with(none)) {
        at_ += none.size();
        return std::numeric_limits<double>::quiet_NaN();
      }
    }
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  /// A list of numbers or of lists, at most three deep: appends the numbers, and takes down how
  /// long the lists of each level are, which has to be the same.
  void list(std::size_t level, std::vector<std::size_t>& shape, std::vector<double>& values) {
    if (level == 3) fail("at most three levels of lists");
    if (level == 0) known_.clear();
    require('[');
    std::size_t count = 0;
    bool holds_lists = false;
    while (!takes(']')) {
      if (count > 0) require(',');
      skip_blanks();
      const bool is_list = at_ < text_.size() && text_[at_] == '[';
      if (count > 0 && is_list != holds_lists) fail("numbers alone, or lists alone");
      holds_lists = is_list;
      if (is_list) {
        list(level + 1, shape, values);
      } else {
        values.push_back(number());
      }
      ++count;
    }
    if (shape.size() <= level) shape.resize(level + 1, 0);
    if (is_new(level)) shape[level] = count;
    if (shape[level] != count || (!holds_lists && shape.size() > level + 1)) {
      fail("lists of the same length; write null where a layer has fewer heads");
    }
  }

  [[noreturn]] void fail(const std::string& expected) const {
    const std::string found =
        at_ == text_.size() ? std::string("the end of the file") : printable(text_.substr(at_, 20));
    refuse_file(file_, expected, fmt::format("'{}' at byte {}", found, at_),
                "write [[numbers of a layer], ...] or {\"LAYER-HEAD\": [scores]}");
  }

 private:
  bool is_new(std::size_t level) {
    if (known_.size() <= level) known_.resize(level + 1, false);
    const bool was_known = known_[level];
    known_[level] = true;
    return !was_known;
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  const std::string& file_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<bool> known_;  // levels whose length is known
};

std::optional<std::pair<int, int>> layer_and_head(const std::string& key) {
  const auto index = [](std::string_view digits) -> std::optional<int> {
    int value = 0;
    const char* end = digits.data() + digits.size();
    const auto result = std::from_chars(digits.data(), end, value);
    const bool is_index = result.ec == std::errc() && result.ptr == end;
    return is_index && value >= 0 && value < kMostHeadIndex ? std::optional(value) : std::nullopt;
  };
  const std::size_t dash = key.find('-');
  if (dash == std::string::npos) return std::nullopt;
  const auto layer = index(std::string_view(key).substr(0, dash));
  const auto head = index(std::string_view(key).substr(dash + 1));
  if (!layer || !head) return std::nullopt;
  return std::pair(*layer, *head);
}

/// {"0-0": [scores], ...}: the mean of each head's scores.
HeadTable table_of_heads(const std::string& file, JsonNumbers& json) {
  std::map<std::pair<int, int>, double> scores;
  std::size_t layers = 0;
  std::size_t heads = 0;
  while (!json.takes('}')) {
    if (!scores.empty()) json.require(',');
    const std::string key = json.key();
    const auto head = layer_and_head(key);
    if (!head) json.fail("names LAYER-HEAD, as in \"0-31\"");
    std::vector<std::size_t> shape;
    std::vector<double> of_head;
    json.list(0, shape, of_head);
    double sum = 0;
    for (const double score : of_head) sum += score;
    if (shape.size() != 1 || of_head.empty()) json.fail("a list of scores");
    if (!scores.emplace(*head, sum / static_cast<double>(of_head.size())).second) {
      json.fail("each head once");
    }
    layers = std::max(layers, static_cast<std::size_t>(head->first) + 1);
    heads = std::max(heads, static_cast<std::size_t>(head->second) + 1);
  }
  json.require_end();
  if (layers * heads > 64 * scores.size() + 1024) json.fail("heads without large gaps");
  std::vector<double> values(layers * heads, std::numeric_limits<double>::quiet_NaN());
  for (const auto& [head, score] : scores) {
    values[static_cast<std::size_t>(head.first) * heads + static_cast<std::size_t>(head.second)] =
        score;
  }
  return table_of_shape(file, {layers, heads}, std::move(values));
}

}  // namespace

HeadTable table_of_json(const std::string& file, std::string_view bytes) {
  JsonNumbers json(file, bytes);
  if (json.takes('{')) return table_of_heads(file, json);
  std::vector<std::size_t> shape;
  std::vector<double> values;
  json.list(0, shape, values);
  json.require_end();
  return table_of_shape(file, shape, std::move(values));
}

}  // namespace kvsim
