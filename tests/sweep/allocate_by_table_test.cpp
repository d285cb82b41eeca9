#include "sim/sweep/allocate_by_table.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>

#include "sim/base/errors.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::allocate_by_table_test {

using namespace test_support;
using traces_test::TemporaryFolder;

const std::vector<UnitName> kUnitsOfTwo{{"a", 0, 0}, {"a", 0, 1}, {"a", 1, 0}, {"a", 1, 1}};

HeadTable table(std::vector<double> values, int rows = 1) {
  return {.file = "t", .rows = rows, .layers = 2, .heads = 2, .values = std::move(values)};
}

std::vector<int> split(const AllocationSpec& allocation, int budget, const HeadTable& numbers,
                       int protects = 0) {
  return allocate_by_table(
      allocation, {.tokens = budget, .most = 100, .length = 80, .window = {.protects = protects}},
      kUnitsOfTwo, numbers);
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

TEST_CASE("weights of heads split the total in proportion to them", "[allocate]") {
  CHECK(split(Allocation::file, 10, table({1, 2, 3, 4})) == std::vector<int>{4, 8, 12, 16});
  CHECK(split(Allocation::file, 10, table({0, 0, 0, 1})) == std::vector<int>{1, 1, 1, 37});
  CHECK(split(Allocation::file, 60, table({0, 0, 1, 1})) == std::vector<int>{20, 20, 100, 100});
  CHECK(split(Allocation::file, 100, table({0, 0, 1, 1})) == std::vector<int>(4, 100));
}

TEST_CASE("of shares per ratio the nearest ratio counts", "[allocate]") {
  std::vector<double> values;
  for (int ratio = 1; ratio <= 99; ++ratio) {
    const double kept = 1 - ratio / 100.0;
    values.insert(values.end(), {1 - kept / 2, 1 - kept, 1 - kept, 1 - 1.5 * kept});
  }
  // From 33% on the last head's share would be more than 1 below that.
  for (double& value : values) value = std::max(0.0, value);
  values[4 * 49] = 1;  // at 50% the first head keeps nothing
  CHECK(split(Allocation::file, 40, table(values, 99)) == std::vector<int>{1, 46, 46, 67});
  CHECK(split(Allocation::file, 20, table(values, 99)) == std::vector<int>{10, 20, 20, 30});
  CHECK(split(Allocation::file, 1, table(values, 99)) == std::vector<int>{1, 1, 1, 1});
}

TEST_CASE("duo keeps whole texts in the heads of highest alpha", "[allocate]") {
  AllocationSpec duo(Allocation::duo);
  duo.set("sinks", "4");
  duo.set("recent", "6");
  const HeadTable alpha = table({0.2, 1.7, 1, -0.1});
  // Alphas above 1 are 1; of equals the first is higher. (25 - 10) * 4 tokens do not fill a head.
  CHECK(split(duo, 25, alpha) == std::vector<int>{10, 70, 10, 10});
  CHECK(split(duo, 40, alpha) == std::vector<int>{10, 100, 40, 10});
  CHECK(split(duo, 10, alpha) == std::vector<int>(4, 10));
  CHECK_THROWS_WITH(split(duo, 9, alpha), Catch::Contains("sinks + recent = 10"));
}

TEST_CASE("headkv splits a pool by scores outside the window", "[allocate]") {
  AllocationSpec headkv(Allocation::headkv);
  headkv.set("beta", "2");
  // Of 20 each 10 go to a pool of 40.
  CHECK(split(headkv, 24, table({1, 1, 2, 4}), 4) == std::vector<int>{19, 19, 24, 34});
  CHECK(split(headkv, 4, table({1, 1, 2, 4}), 4) == std::vector<int>(4, 4));
}

TEST_CASE("numbers that cannot split a budget are refused", "[allocate]") {
  const auto refused = [](const AllocationSpec& allocation, const HeadTable& numbers,
                          const char* hint) {
    CHECK_THROWS_AS(check_table(allocation, numbers), DataError);
    CHECK_THROWS_WITH(check_table(allocation, numbers), Catch::Contains(hint));
  };
  refused(Allocation::file, table({1, -1, 1, 1}), "0 or more");
  refused(Allocation::file, table({0, 0, 0, 0}), "above 0");
  refused(Allocation::file, table(std::vector<double>(8, 0.5), 2), "[99, layers, heads]");
  refused(Allocation::file, table(std::vector<double>(4 * 99, 1.5), 99), "0 to 1");
  refused(Allocation::headkv, table(std::vector<double>(4 * 99, 0.5), 99), "[layers, heads]");
  CHECK_NOTHROW(check_table(Allocation::duo, table({1, -1, 1, 1})));
}

TEST_CASE("a sweep splits by the file, and its rows name the file's content", "[allocate]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  write(folder / "w.json", "[[1, 2], [3, 4]]");
  const std::string spec = "window@file:" + (folder / "w.json").string();
  const auto first = rows_of(request(folder / "t.h5", spec, {"10"}));
  REQUIRE(first.size() == kUnits);
  for (const Result& row : first) {
    CHECK(row.peak_tokens == 4 * (2 * row.layer + row.kv_head + 1));
    CHECK(row.policy.size() > spec.size() + 64);
  }
  write(folder / "w.json", "[[1, 2], [3, 5]]");
  const auto second = rows_of(request(folder / "t.h5", spec, {"10"}));
  CHECK(second.front().policy != first.front().policy);
  CHECK_THROWS_WITH(plan_sweep(request(folder / "t.h5", first.front().policy, {"10"})),
                    Catch::Contains("it has changed"));
  write(folder / "w.json", "[[1, 2], [3, 5], [1, 1]]");
  CHECK_THROWS_WITH(plan_sweep(request(folder / "t.h5", spec, {"10"})),
                    Catch::Contains("the 2 layers of the model, found 3"));
  CHECK_THROWS_WITH(
      plan_sweep(request(folder / "t.h5", "tova:scope=layer" + spec.substr(6), {"10"})),
      Catch::Contains("share one cache"));
}

}  // namespace kvsim::allocate_by_table_test
