#include "sim/base/printable.h"

#include <catch2/catch.hpp>

namespace kvsim::printable_test {

using namespace std::string_literals;

TEST_CASE("printable: text of any script stays as it is", "[printable]") {
  for (const std::string text : {"", "a b", "it's \"C:\\dir\\x1b\"", "naïve – 日本語 😀", "~"}) {
    CHECK(printable(text) == text);
  }
}

TEST_CASE("printable: what a terminal would obey becomes an escape", "[printable]") {
  CHECK(printable("a\x1b[31mb") == "a\\x1b[31mb");
  CHECK(printable("\x07\x7f\0"s) == "\\x07\\x7f\\x00");
  CHECK(printable("a\r\n\tb") == "a\\r\\n\\tb");
  CHECK(printable("\u009b2J") == "\\x9b2J");
  CHECK(printable("\u202eabc\u2066\u200f\u2028") == "\\u202eabc\\u2066\\u200f\\u2028");
  CHECK(printable("\"\x1b\"\\\x1b\\") == "\"\\x1b\"\\\\x1b\\");
}

TEST_CASE("printable: bytes that are not UTF-8 become escapes", "[printable]") {
  CHECK(printable("\xff") == "\\xff");
  CHECK(printable("é\xc3") == "é\\xc3");
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");           // an overlong '/'
}

TEST_CASE("printable: an error of up to 1,000 bytes is a line of all of it", "[printable]") {
  CHECK(error_line("a\nb\r\nc\x1b") == "a b  c\\x1b");
  const std::string longest(1000, 'x');
  CHECK(error_line(longest) == longest);
}

TEST_CASE("printable: a longer error keeps its ends and says how much is left out", "[printable]") {
  const std::string name(500, 'a');
  const std::string fix(500, 'z');
  const std::string line = error_line(name + std::string(400, '-') + fix);
  CHECK(line == name.substr(20) + " [... 440 bytes ...] " + fix.substr(20));
  CHECK(error_line(line) == line);
  std::string many;
  for (int i = 0; i < 400; ++i) many += "日";
  CHECK(error_line(many).find("\\x") == std::string::npos);  // no character is cut in two
  CHECK(error_line("x" + many).find("\\x") == std::string::npos);
  CHECK(printable(error_line("xx" + many)) == error_line("xx" + many));
}

}  // namespace kvsim::printable_test
