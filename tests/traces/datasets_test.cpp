#include "traces/datasets.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <set>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/source_tree.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/full_trace.h"
#include "traces/integrity/format_tree.h"

namespace kvsim::traces_test::datasets_test {

using Catch::Contains;

TEST_CASE("traces: the README's table of datasets is what is declared") {
  std::string table = "| dataset | type and shape | what it holds |\n| --- | --- | --- |\n";
  for (const Level level :
       {Level::rope, Level::model_layer, Level::sequence, Level::spans, Level::layer}) {
    for (const DatasetInfo& info : datasets()) {
      if (info.level != level) continue;
      table += fmt::format("| `{}/{}` | {}{} | {} |\n", group_path(level), info.name,
                           info.optional ? "optional, " : "", type_and_shape(info), info.holds);
    }
  }
  INFO(table);
  const std::string marked = "<!-- datasets -->\n" + table + "<!-- end of datasets -->";
  const bool is_there = house::read("traces/README.md").find(marked) != std::string::npos;
  CHECK(is_there);
}

TEST_CASE("no two datasets of a group have one name") {
  std::set<std::pair<Level, std::string_view>> names;
  for (const DatasetInfo& info : datasets()) names.emplace(info.level, info.name);
  CHECK(names.size() == datasets().size());
}

TEST_CASE("every dataset that is declared can be written and is listed") {
  const TemporaryFolder folder;
  write_full_trace(folder / "t.h5");
  std::set<Dataset> found;
  Trace(folder / "t.h5").with_root([&](const GroupReader& root) {
    for (const DatasetPlace& place : list_datasets(root)) found.insert(place.info->id);
  });
  for (const DatasetInfo& info : datasets()) {
    CAPTURE(info.name);
    CHECK(found.contains(info.id));
  }
}

TEST_CASE("a file with what is not declared is not sealed") {
  const TemporaryFolder folder;
  for (const std::string& path : {kLayer + "/router_logit", std::string("/sequences/a/notes")}) {
    write_full_trace(folder / "t.h5");
    set_dataset(edit(folder / "t.h5"), path, H5::PredType::IEEE_F32LE, {kSmallTokens, 3});
    CHECK_THROWS_WITH(seal_again(folder / "t.h5"),
                      Contains("/manifest: expected all of the file to be of the format, found " +
                               path + ", which it does not know"));
  }
}

}  // namespace kvsim::traces_test::datasets_test
