// Names and texts out of files, and arguments, may hold anything; a terminal would obey some of it.

#include <catch2/catch.hpp>

#include "tests/cli/program.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::hostile_text_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

/// Colours, a bell, a one-byte CSI (C1), a direction of writing, line ends, DEL.
const std::string kHostile = "\x1b[31m\a\u009b2J\u202e\r\nkvsim: error: \x7f";

const std::string kTrace = "\x1b]0;t\x07.h5";

void write_hostile_trace(const std::filesystem::path& folder) {
  TraceHeader header = traces_test::small_header();
  header.model = "m" + kHostile;
  header.recorder = "r" + kHostile;
  const std::vector<Span> spans{{0, 1, "l" + kHostile}, {1, 4, "answer"}};
  TraceWriter writer(folder / kTrace, header, ElementType::float16);
  for (const char* name : {"a", "b"}) {
    constexpr int kTokens = traces_test::kSmallTokens;
    writer.begin_sequence(name + kHostile, kTokens, 2, "s" + kHostile, {7, 8, 9, 7, 8});
    writer.write_spans(spans);
    const auto numbers = traces_test::numbered_layer(header, kTokens, 0);
    writer.write_layer(0, numbers.query, numbers.key, numbers.value, numbers.output);
  }
  writer.close();
}

/// What of the text no terminal may see: the first such part, or nothing.
std::string obeyed(const std::string& text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < ' ' && c != '\n') || byte == 0x7f) return "byte " + std::to_string(byte);
  }
  for (const char* part : {"\u009b", "\u202e", "\nkvsim: error: \\x7f"}) {
    if (text.find(part) != std::string::npos) return part;
  }
  return "";
}

Ended checked(const TemporaryFolder& folder, const std::vector<std::string>& arguments) {
  Ended ended = run(folder.path(), arguments);
  INFO(arguments.front() << "\n" << ended.out << "\n" << ended.err);
  CHECK(obeyed(ended.out).empty());
  CHECK(obeyed(ended.err).empty());
  return ended;
}

TEST_CASE("cli: a terminal sees no control characters of a trace, whatever the verb prints") {
  const TemporaryFolder folder;
  write_hostile_trace(folder.path());
  const std::string schedule = "schedule:file=" + kTrace;
  std::filesystem::copy(folder.path() / kTrace, folder.path() / "same.h5");
  const std::vector<std::string> choice{"--policies", "window;w=sink:sinks=1;optimal", "--budgets",
                                        "2,50%"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  CHECK_THAT(checked(folder, {"info", kTrace}).out,
             Contains("m\\x1b[31m\\x07\\x9b2J\\u202e\\r\\n") && Contains("l\\x1b[31m"));
  CHECK(checked(folder, {"verify", kTrace}).status == 3);  // its outputs are made up
  CHECK(checked(folder, {"replay", kTrace, "--policy", "window", "--budget", "2", "-v"}).status ==
        0);
  const std::string results = "r\x1b[2J.sqlite";
  CHECK(checked(folder, with({"sweep", kTrace, "-v", "-o", results}, choice)).status == 0);
  CHECK(checked(folder, {"curve", kTrace, "-v", "--policies", "window", "-o", results}).status ==
        0);
  CHECK(checked(folder, {"analyze", kTrace, "-v", "--what", "sparsity", "-o", results}).status ==
        0);
  CHECK(checked(folder, {"check", results}).status == 0);
  CHECK(checked(folder, {"check", kTrace}).status == 0);
  CHECK(checked(folder, {"merge", results, "-o", "all\x1b.sqlite"}).status == 0);
  CHECK(checked(folder, {"compare", results, "window", "w"}).status == 0);
  checked(folder, {"merge", results, "no\x1b.sqlite", "-o", "all.sqlite"});
  checked(folder, {"replay", kTrace, "--policy", schedule, "--budget", "2"});
  checked(folder,
          {"replay", kTrace, "--policy", "window", "--budget", "2", "--sequences", "x\x1b"});
  checked(folder, {"sweep", kTrace, "--policies", "a\x1b=window", "--budgets", "2", "-o", "r"});
  checked(folder, {"info", kTrace, "--config", "\x1b.yaml"});
  checked(folder, {"in\x1b"});
  checked(folder, {"info", kTrace, "--fo\x1brmat", "x"});

  const Ended csv = run(folder.path(), {"export", results, "--table", "replay"});
  CHECK_THAT(csv.out, Contains("a" + kHostile));  // the data are for programs
}

TEST_CASE("cli: an error line has a length limit, and keeps its beginning and its end") {
  const TemporaryFolder folder;
  const std::string name(100'000, 'x');
  const Ended ended = run(folder.path(), {"info", name});
  CHECK(ended.status == 3);
  CHECK(ended.err.size() < 1100);
  CHECK_THAT(ended.err, Catch::StartsWith("kvsim: error: xxx") && Contains("bytes ...] xxx") &&
                            Catch::EndsWith("(File name too long)\n"));
}

}  // namespace kvsim::cli_test::hostile_text_test
