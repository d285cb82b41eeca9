#include "sim/plugin/load_plugin.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "analysis/analysis.h"
#include "policies/registry/registry.h"
#include "sim/base/errors.h"
#include "tests/plugin/plugin_files.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::load_plugin_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

/// Why a file cannot be loaded: one line that names it.
std::string refusal(const std::filesystem::path& file) {
  try {
    load_plugin(file);
  } catch (const DataError& error) {
    const std::string message = error.what();
    CHECK_THAT(message, Contains(file.string() + ": "));
    CHECK(message.find('\n') == std::string::npos);
    return message;
  }
  return "";
}

TEST_CASE("plugin: loading names what was registered, and again does nothing") {
  const PluginNames& names = load_plugin(plugin_file("probe"));
  CHECK(names.policies ==
        std::vector<std::string>{"failing", "drawn", "value-attention", "newest"});
  CHECK(names.analyses == std::vector<std::string>{"probe-rows"});
  const PolicyInfo* const before = &find_policy("drawn");
  const auto folder = plugin_file("probe").parent_path();
  CHECK(&load_plugin(folder / ".." / folder.filename() / "libprobe.so") == &names);
  CHECK(&find_policy("drawn") == before);
}

TEST_CASE("plugin: a file that is no plug-in is refused") {
  const TemporaryFolder folder;
  std::ofstream(folder / "text.so") << "no library";
  CHECK_THAT(refusal(folder / "none.so"), Contains("No such file"));
  CHECK_THAT(refusal(folder.path()), Contains("found no file"));
  CHECK_THAT(refusal(folder / "text.so"), Contains("expected a plug-in, a shared library"));
  CHECK_THAT(refusal(plugin_file("no_entry")), Contains("expected the function kvsim_plugin()"));
}

TEST_CASE("plugin: what a plug-in registers wrongly is refused with the reason") {
  const auto [fault, reason] = GENERATE(table<std::string, std::string>({
      {"version", "expected version 1 of kvsim/plugin.h, found version 7; compile it against"},
      {"size", "bytes, found 16; set size to sizeof the descriptor"},
      {"name", "expected a name of lower-case letters, digits, '-' and '_'"},
      {"built in", "a policy that is built in has this name"},
      {"alias", "the name has a meaning in lists of policies"},
      {"lines", "keeps: expected one line, found several"},
      {"update", "policy 'broken': expected update(), found NULL"},
      {"null", "expected parameters, found 2 of them at NULL"},
      {"parameter name", "parameter 0: expected a name of lower-case letters"},
      {"type", "parameter 'decay': expected a type of kvsim/plugin.h, found 17"},
      {"initial", "decay='2' is not allowed, expected 0..1"},
      {"range", "parameter 'decay': expected lowest <= highest, found 2 and 1"},
      {"help", "parameter 'decay': help: expected a text, found none"},
      {"twice", "parameter 1: the name 'decay' is taken"},
      {"choice", "parameter 'mode': expected choices that differ, without"},
      {"no choice", "parameter 'mode': expected choices, found none"},
      {"no column", "analysis 'broken-analysis': expected a column or more, found none"},
      {"column", "column 0: the name 'trace_id' is taken"},
      {"sql", "column 0: 'order' is a word of SQL"},
      {"key", "column 1: 'place' is a key; put keys first"},
      {"table", "another table or analysis has this name"},
      {"analysis", "another table or analysis has this name"},
      {"nothing", "expected a policy or an analysis, found none"},
      {"refusal", "kvsim_plugin() returned 5"},
      {"ignored", "expected version 1 of kvsim/plugin.h, found version 7"},
  }));
  INFO(fault);
  setenv("KVSIM_TEST_FAULT", fault.c_str(), 1);
  CHECK_THAT(refusal(plugin_file("broken")), Contains(reason));
  unsetenv("KVSIM_TEST_FAULT");
}

TEST_CASE("plugin: two plug-ins cannot have policies of one name, nor may a file change") {
  const TemporaryFolder folder;
  load_plugin(plugin_file("decayed_attention"));
  std::filesystem::copy(plugin_file("decayed_attention"), folder / "libcopy.so");
  CHECK_THAT(refusal(folder / "libcopy.so"), Contains("has this name; choose another"));
  std::ofstream(folder / "libcopy.so", std::ios::app) << "more";
  CHECK_THAT(refusal(folder / "libcopy.so"), Contains("has changed since it was loaded"));
}

}  // namespace kvsim::load_plugin_test
