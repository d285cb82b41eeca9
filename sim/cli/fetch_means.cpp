#include "sim/cli/fetch_means.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/base/errors.h"
#include "sim/results/store.h"
#include "sim/tiers/selectors.h"

namespace kvsim::cli {
namespace {

/// A row, by the names of columns.
class Row {
 public:
  Row(const Table& table, const std::vector<Value>& values) : table_(table), values_(values) {}

  std::string text(const char* column) const { return std::get<std::string>(at(column)); }
  bool is_null(const char* column) const {
    return std::holds_alternative<std::monostate>(at(column));
  }
  double number(const char* column) const {
    const Value& value = at(column);
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
    return std::get<double>(value);
  }

 private:
  const Value& at(const char* column) const {
    const auto found = std::find(table_.columns.begin(), table_.columns.end(), column);
    return values_.at(static_cast<std::size_t>(found - table_.columns.begin()));
  }

  const Table& table_;
  const std::vector<Value>& values_;
};

/// Of the spec of any selector, one of Python among them.
double page_of(const std::string& select) {
  static const std::string kPage = "page=";
  std::size_t begin = select.find(":" + kPage);
  if (begin == std::string::npos) begin = select.find("," + kPage);
  if (begin == std::string::npos) {
    throw DataError(
        fmt::format("table fetch: expected a selector with its page, found '{}'", select));
  }
  return std::stod(select.substr(begin + 1 + kPage.size()));
}

}  // namespace

std::vector<FetchMean> fetch_means(const std::string& file) {
  const ResultStore store(file, ResultStore::Access::read);
  const Table table = store.table("fetch");
  using Key = std::tuple<std::string, double, std::string, std::string, std::string>;
  std::map<Key, std::pair<FetchMean, int>> groups;
  for (const std::vector<Value>& values : table.rows) {
    const Row row(table, values);
    const bool is_named = !row.is_null("resident_request");
    const double resident = row.number("resident");
    const std::string request =
        is_named ? row.text("resident_request") : fmt::format("{}", resident);
    const Key key{row.text("select"), is_named ? 0 : resident, request, row.text("replace"),
                  row.text("mode")};
    auto& [mean, count] = groups[key];
    mean.select = row.text("select");
    mean.resident = request;
    mean.replace = row.text("replace");
    mean.mode = row.text("mode");
    mean.tiers.resident += resident;
    mean.tiers.attended += row.number("attended_mean");
    mean.tiers.fetched +=
        row.number("misses") * page_of(mean.select) / std::max(1.0, row.number("steps"));
    mean.tiers.summary_bytes += row.number("summary_bytes");
    ++count;
  }
  if (groups.empty()) {
    throw UsageError(
        fmt::format("--fetch: {} has no rows in its table fetch; kvsim fetch -o {} "
                    "writes them",
                    file, file));
  }
  std::vector<FetchMean> means;
  for (auto& [key, group] : groups) {
    auto& [mean, count] = group;
    for (double* sum : {&mean.tiers.resident, &mean.tiers.attended, &mean.tiers.fetched,
                        &mean.tiers.summary_bytes}) {
      *sum /= count;
    }
    means.push_back(std::move(mean));
  }
  return means;
}

}  // namespace kvsim::cli
