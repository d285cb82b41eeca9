#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/traces/full_trace.h"
#include "traces/trace.h"

namespace kvsim::traces_test::many_threads_test {

bool is_same(const Unit& a, const Unit& b) {
  return a.query == b.query && a.key == b.key && a.value == b.value &&
         a.output_score_grad == b.output_score_grad && a.output_projection == b.output_projection &&
         a.residual_square == b.residual_square;
}

std::vector<Unit> all_units(const Trace& trace) {
  std::vector<Unit> units;
  for (const int layer : {0, 1}) {
    for (const int head : {0, 1}) units.push_back(trace.read_unit({"a", layer, head}));
  }
  return units;
}

TEST_CASE("many threads that read one trace read what one reads") {
  const TemporaryFolder folder;
  write_full_trace(folder / "t.h5");
  const std::vector<Unit> expected = all_units(Trace(folder / "t.h5"));
  REQUIRE(!expected.front().output_score_grad.empty());
  REQUIRE(!expected.front().residual_square.empty());
  const Trace trace(folder / "t.h5");
  std::atomic<int> differing = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const std::vector<Unit> units = all_units(trace);
      for (std::size_t u = 0; u < units.size(); ++u) differing += !is_same(units[u], expected[u]);
      UnitPart part;
      trace.read_unit({"a", 0, 1}, {.vectors = false}).rows->read(0, part);
      differing += part.key != expected[1].key;
      Matrix activation;
      trace.read_rows(Dataset::mlp_activation, "a", 0,
                      [&](const Matrix& rows) { activation = rows; });
      differing += activation != numbered_activation();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(differing == 0);
}

}  // namespace kvsim::traces_test::many_threads_test
