#include "traces/spans.h"

#include <catch2/catch.hpp>
#include <functional>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/error_of_reading.h"

namespace kvsim::traces_test::spans_test {

using Catch::Matchers::Contains;
using H5::PredType;

const std::string kSpans = "/sequences/a/spans";
const std::vector<Span> kTwo = {{1, 3, "needle"}, {0, kSmallTokens, "\xc3\xa9t\xc3\xa9"}};

/// A sequence "a" with layer 0 and these spans.
void write_with_spans(const std::filesystem::path& file, const std::vector<Span>& spans) {
  const TraceHeader header = small_header();
  TraceWriter writer(file, header, ElementType::float16);
  writer.begin_sequence("a", kSmallTokens, 2, "", {});
  writer.write_spans(spans);
  const LayerNumbers numbers = numbered_layer(header, kSmallTokens, 0);
  writer.write_layer(0, numbers.query, numbers.key, numbers.value, {});
  writer.close();
}

void write_numbers(const H5::H5File& file, const std::string& name,
                   const std::vector<std::int32_t>& numbers,
                   const PredType& type = PredType::STD_I32LE) {
  set_dataset(file, kSpans + "/" + name, type, {numbers.size()})
      .write(numbers.data(), PredType::NATIVE_INT32);
}

void write_fixed_labels(const H5::H5File& file, std::vector<std::string> labels) {
  constexpr std::size_t kWidth = 8;
  std::string texts;
  for (std::string& label : labels) {
    label.resize(kWidth);
    texts += label;
  }
  const H5::StrType type(PredType::C_S1, kWidth);
  set_dataset(file, kSpans + "/label", type, {labels.size()}).write(texts.data(), type);
}

TEST_CASE("spans come back in the order in which they were written", "[traces]") {
  const TemporaryFolder folder;
  write_with_spans(folder / "t.h5", kTwo);
  CHECK(Trace(folder / "t.h5").sequences().front().spans == kTwo);
  write_with_spans(folder / "none.h5", {});
  CHECK(Trace(folder / "none.h5").sequences().front().spans.empty());
  write_small_trace(folder / "without.h5", small_header());
  CHECK(Trace(folder / "without.h5").sequences().front().spans.empty());
}

TEST_CASE("in version 1 spans are read from labels of fixed length, in either byte order") {
  const TemporaryFolder folder;
  write_with_spans(folder / "t.h5", kTwo);
  make_version_1(folder / "t.h5");
  {
    const H5::H5File file = edit(folder / "t.h5");
    write_numbers(file, "start", {0, 4}, PredType::STD_I32BE);
    write_numbers(file, "end", {2, 5}, PredType::STD_I32BE);
    write_fixed_labels(file, {"answer", ""});
  }
  CHECK(Trace(folder / "t.h5").sequences().front().spans ==
        std::vector<Span>{{0, 2, "answer"}, {4, 5, ""}});
}

TEST_CASE("the trace_id covers the spans") {
  const auto id_of = [](const std::vector<Span>& spans) {
    const TemporaryFolder folder;
    write_with_spans(folder / "t.h5", spans);
    return Trace(folder / "t.h5").id();
  };
  const std::string id = id_of(kTwo);
  CHECK(id_of(kTwo) == id);
  CHECK(id_of({}) != id);
  std::vector<Span> other = kTwo;
  other.back().label += "s";
  CHECK(id_of(other) != id);
  other = kTwo;
  --other.front().end;
  CHECK(id_of(other) != id);
}

struct Fault {
  std::string name;
  std::function<void(const H5::H5File&)> make;
  std::string error;  ///< what follows the path of the group
};

// A function, since HDF5's types are not there before main() where it is an archive.
std::vector<Fault> faults() {
  return {
      {"no starts", [](const auto& file) { file.unlink(kSpans + "/start"); },
       "/start: expected a dataset, found nothing; record the sequence again"},
      {"starts of int64",
       [](const auto& file) {
         write_numbers(file, "start", {1, 0}, PredType::STD_I64LE);
       },
       "/start: expected int32, found int64"},
      {"starts that are a table",
       [](const auto& file) {
         set_dataset(file, kSpans + "/start", PredType::STD_I32LE, {2, 1});
       },
       "/start: expected a list, found [2, 1]"},
      {"more starts than a text can have",
       [](const auto& file) {
         set_dataset(file, kSpans + "/start", PredType::STD_I32LE, {(1 << 20) + 1});
       },
       "/start: expected at most 1048576 spans, found [1048577]"},
      {"labels of absurd width",
       [](const auto& file) {
         set_dataset(file, kSpans + "/label", H5::StrType(PredType::C_S1, 1 << 20), {2});
       },
       "/label: expected at most 1024 bytes each, found 1048576"},
      {"a missing end", [](const auto& file) { write_numbers(file, "end", {3}); },
       "/end: expected shape [2], as start has, found [1]"},
      {"a label too many",
       [](const auto& file) {
         write_fixed_labels(file, {"a", "b", "c"});
       },
       "/label: expected shape [2], as start has, found [3]"},
      {"labels that are numbers",
       [](const auto& file) {
         write_numbers(file, "label", {1, 2});
       },
       "/label: expected strings, found int32"},
      {"a label that is not UTF-8",
       [](const auto& file) {
         write_fixed_labels(file, {"a", "\xe9t\xe9"});
       },
       "/label: expected UTF-8 at [1], found other bytes"},
      {"a label with a surrogate",
       [](const auto& file) {
         write_fixed_labels(file, {"\xed\xa0\x80", "a"});
       },
       "/label: expected UTF-8 at [0], found other bytes"},
      {"a label that is cut",
       [](const auto& file) {
         write_fixed_labels(file, {"a", "ab\xc3"});
       },
       "/label: expected UTF-8 at [1], found other bytes"},
      {"a start below 0",
       [](const auto& file) {
         write_numbers(file, "start", {-1, 0});
       },
       "/start: expected a token in 0..4 at [0], found -1"},
      {"a start after the text",
       [](const auto& file) {
         write_numbers(file, "start", {1, 5});
       },
       "/start: expected a token in 0..4 at [1], found 5"},
      {"an end at its start",
       [](const auto& file) {
         write_numbers(file, "end", {1, 5});
       },
       "/end: expected one in 2..5, after the span's start at [0], found 1"},
      {"an end after the text",
       [](const auto& file) {
         write_numbers(file, "end", {3, 6});
       },
       "/end: expected one in 1..5, after the span's start at [1], found 6"},
      {"spans that are a dataset",
       [](const auto& file) {
         file.unlink(kSpans);
         set_dataset(file, kSpans, PredType::STD_I32LE, {2});
       },
       ": expected a group, found something else"},
  };
}

TEST_CASE("spans that are none are rejected by file, dataset and index", "[traces]") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.h5";
  for (const Fault& fault : faults()) {
    INFO(fault.name);
    write_with_spans(file, kTwo);
    CHECK(error_of_reading(file).empty());
    make_version_1(file);
    fault.make(edit(file));
    CHECK_THAT(error_of_reading(file),
               Catch::StartsWith(file.string() + ": " + kSpans + fault.error));
  }
}

TEST_CASE("all of Unicode may be in a label", "[traces]") {
  const TemporaryFolder folder;
  for (const std::string label : {"\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                  "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    write_with_spans(folder / "t.h5", {{0, 1, label}});
    CHECK(Trace(folder / "t.h5").sequences().front().spans.front().label == label);
  }
  for (const std::string label : {"\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                                  "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    CHECK_THROWS_WITH(write_with_spans(folder / "t.h5", {{0, 1, label}}),
                      Contains("/label: expected UTF-8 at [0]"));
  }
}

TEST_CASE("the writer takes spans of the sequence alone") {
  const TemporaryFolder folder;
  TraceWriter writer(folder / "t.h5", small_header(), ElementType::float16);
  CHECK_THROWS_WITH(writer.write_spans(kTwo), Contains("no sequence has begun"));
  writer.begin_sequence("a", kSmallTokens, 0, "", {});
  CHECK_THROWS_WITH(writer.write_spans({{0, 6, "a"}}), Contains("5 tokens, found [0, 6)"));
  CHECK_THROWS_WITH(writer.write_spans({{2, 2, "a"}}), Contains("found [2, 2)"));
  CHECK_THROWS_WITH(writer.write_spans({{-1, 2, "a"}}), Contains("found [-1, 2)"));
  CHECK_THROWS_WITH(writer.write_spans({{0, 2, std::string("a\0b", 3)}}), Contains("zero byte"));
}

}  // namespace kvsim::traces_test::spans_test
