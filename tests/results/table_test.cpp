#include "sim/results/table.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

namespace kvsim::table_test {

using Lines = std::vector<std::vector<std::string>>;

// Reads RFC 4180.
Lines parse_csv(const std::string& text) {
  Lines lines(1, {""});
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      lines.back().back() += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      lines.back().emplace_back();
    } else if (!quoted && c == '\n') {
      lines.push_back({""});
    } else if (quoted || c != '\r') {
      lines.back().back() += c;
    }
  }
  lines.pop_back();  // after the end of the last line
  return lines;
}

std::string csv(const Table& table) {
  std::ostringstream out;
  write_csv(out, table);
  return out.str();
}

nlohmann::json json(const Table& table) {
  std::ostringstream out;
  write_json(out, table);
  return nlohmann::json::parse(out.str());
}

const double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("text of any kind survives CSV", "[table]") {
  const std::vector<std::string> texts = {"plain", "",       "a,b",     "say \"x\"",   "\"",
                                          "a\nb",  "a\r\nb", " space ", "h2o:a=1,b=2", "\xc3\xa9"};
  Table table{{"t,1", "n"}, {}};
  for (const std::string& text : texts) table.rows.push_back({text, std::int64_t{-1}});
  const Lines lines = parse_csv(csv(table));
  REQUIRE(lines.size() == texts.size() + 1);
  CHECK(lines[0] == std::vector<std::string>{"t,1", "n"});
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CHECK(lines[i + 1] == std::vector<std::string>{texts[i], "-1"});
  }
}

TEST_CASE("CSV marks texts that a spreadsheet would run, so that the mark can be taken off",
          "[table]") {
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"=1+1", "'=1+1"}, {"+1", "'+1"},     {"-1", "'-1"},   {"@SUM(A1)", "'@SUM(A1)"},
      {"\t=1", "'\t=1"}, {"\r=1", "'\r=1"}, {"'=1", "''=1"}, {"=\"a\",b", "'=\"a\",b"},
      {"'tis", "'tis"},  {"a=1", "a=1"},    {"'", "'"},      {"h2o:recent=0.5", "h2o:recent=0.5"}};
  for (const auto& [text, written] : texts) {
    std::ostringstream out;
    const auto marked = write_csv(out, {{"n", "t"}, {{-1.5, text}, {0.5, text}}});
    const Lines lines = parse_csv(out.str());
    CHECK(lines[1] == std::vector<std::string>{"-1.5", written});
    CHECK(marked == (text == written ? std::vector<std::string>() : std::vector<std::string>{"t"}));
  }
}

TEST_CASE("plain text is not quoted in CSV", "[table]") {
  CHECK(csv({{"a", "b"}, {{std::string("x"), std::int64_t{1}}}}) == "a,b\nx,1\n");
  CHECK(csv({{"a", "b"}, {}}) == "a,b\n");
}

TEST_CASE("numbers survive CSV and JSON to the last bit", "[table]") {
  for (const double number : {0.1, 1.0 / 3, 1e-300, 5e-324, 1e22, 1.7976931348623157e308, -0.0, 3.0,
                              123456789.123456789, 0.30000000000000004}) {
    const Table table{{"x"}, {{number}}};
    CHECK(std::strtod(parse_csv(csv(table))[1][0].c_str(), nullptr) == number);
    CHECK(json(table)[0]["x"].get<double>() == number);
  }
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const Table table{{"x"}, {{largest}}};
  CHECK(parse_csv(csv(table))[1][0] == "9223372036854775807");
  CHECK(json(table)[0]["x"].get<std::int64_t>() == largest);
}

TEST_CASE("numbers are written as short as they can be", "[table]") {
  CHECK(csv({{"x"}, {{0.1}, {0.5}, {1e-7}}}) == "x\n0.1\n0.5\n1e-07\n");
}

TEST_CASE("JSON is an array of objects", "[table]") {
  const Table table{{"name", "count", "share"},
                    {{std::string("a\"\\\n\x01\xc3\xa9"), std::int64_t{3}, 0.5},
                     {std::string("\xff bad"), std::int64_t{0}, -1.0}}};
  const nlohmann::json parsed = json(table);
  REQUIRE(parsed.size() == 2);
  CHECK(parsed[0]["name"] == "a\"\\\n\x01\xc3\xa9");
  CHECK(parsed[0]["count"] == 3);
  CHECK(parsed[0]["share"] == 0.5);
  CHECK(parsed[1]["count"] == 0);
  CHECK(json({{"x"}, {}}).empty());
}

TEST_CASE("JSON has no infinity and no NaN", "[table]") {
  const nlohmann::json parsed =
      json({{"x", "y"}, {{kInfinity, std::numeric_limits<double>::quiet_NaN()}}});
  CHECK(parsed[0]["x"].is_null());
  CHECK(parsed[0]["y"].is_null());
}

TEST_CASE("a table of results has every column in order", "[table]") {
  Result result;
  result.policy = "h2o:recent=0.5,score=sum,overlap=no,precision=double,positions=text,keep=heavy";
  result.budget = 51;
  const Table table = to_table(std::vector<Result>{result, result});
  REQUIRE(table.columns.size() == result_columns().size());
  CHECK(table.columns.front() == "trace_id");
  CHECK(table.columns.back() == "run_id");
  REQUIRE(table.rows.size() == 2);
  CHECK(json(table)[1]["budget"] == 51);
  CHECK(parse_csv(csv(table))[2][4] == result.policy);
}

TEST_CASE("columns line up for reading", "[table]") {
  std::ostringstream out;
  write_aligned(out, {{"policy", "n", "loss"},
                      {{std::string("h2o"), std::int64_t{5}, 0.25},
                       {std::string("window"), std::int64_t{1234}, 0.123456}}});
  CHECK(out.str() ==
        "policy     n    loss\n"
        "h2o        5  0.2500\n"
        "window  1234  0.1235\n");
}

}  // namespace kvsim::table_test
