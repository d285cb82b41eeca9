#include "sim/base/amount.h"

#include <catch2/catch.hpp>

#include "sim/base/errors.h"

namespace kvsim::amount_test {

int tokens(const char* text, int whole) { return Amount::parse(text, "amount").of(whole); }

TEST_CASE("a whole number is an amount of tokens whatever it is of") {
  CHECK(tokens("256", 10) == 256);
  CHECK(tokens("1", 512) == 1);
  CHECK(tokens("0", 512) == 0);
  CHECK(tokens("007", 512) == 7);
}

TEST_CASE("a share is rounded to the nearest token, halves up") {
  CHECK(tokens("5%", 512) == 26);  // 25.6
  CHECK(tokens("0.05", 512) == 26);
  CHECK(tokens("0.5", 5) == 3);   // 2.5
  CHECK(tokens("50%", 7) == 4);   // 3.5
  CHECK(tokens("0.25", 9) == 2);  // 2.25
  CHECK(tokens("12.5%", 8) == 1);
  CHECK(tokens("20%", 384) == 77);  // 76.8
}

TEST_CASE("a share is at least one token and at most the whole") {
  CHECK(tokens("0.001", 10) == 1);
  CHECK(tokens("0.1%", 1) == 1);
  CHECK(tokens("1.0", 512) == 512);
  CHECK(tokens("100%", 512) == 512);
}

TEST_CASE("an amount has one spelling") {
  const auto text = [](const char* written) { return Amount::parse(written, "amount").text(); };
  CHECK(text("256") == "256");
  CHECK(text("0256") == "256");
  CHECK(text("0.5") == "0.5");
  CHECK(text("0.50") == "0.5");
  CHECK(text("50%") == "0.5");
  CHECK(text("5%") == "0.05");
  CHECK(text("7%") == text("0.07"));
  CHECK(text("1") == "1");
  CHECK(text("1.0") == "1.0");
  CHECK(text("100%") == "1.0");
}

TEST_CASE("every whole percentage is the fraction of that value") {
  for (int percent = 1; percent <= 100; ++percent) {
    const std::string written = std::to_string(percent) + "%";
    const std::string fraction =
        percent == 100 ? "1.0"
                       : "0." + std::string(percent < 10 ? "0" : "") + std::to_string(percent);
    CAPTURE(written, fraction);
    CHECK(Amount::parse(written, "amount").text() == Amount::parse(fraction, "amount").text());
  }
}

TEST_CASE("anything but the three forms of an amount is refused by name") {
  const std::string text =
      GENERATE(as<std::string>(), "", "-1", "-0.5", "1.5", "2.0", "101%", "0%", "0.0", "-5%", "abc",
               "5 %", " 5", "5 ", "%", ".", "nan", "NaN", "nan%", "inf", "1e400", "1e-400", "0x10",
               "+5", "5%%", "1/2", "0.5.5", "0,5", "99999999999999999999", "2147483648");
  CAPTURE(text);
  CHECK_THROWS_AS(Amount::parse(text, "--budget"), UsageError);
  CHECK_THROWS_WITH(Amount::parse(text, "--budget"), Catch::StartsWith("--budget") &&
                                                         Catch::Contains("'" + text + "'") &&
                                                         Catch::Contains("20%"));
}

TEST_CASE("a number that is no amount is refused with what is wrong with it") {
  const auto [text, problem] = GENERATE(table<std::string, std::string>({
      {"1000000000000", "is more than 2147483647 tokens"},
      {"200%", "is more than the whole"},
      {"1.5", "is more than the whole"},
      {"0%", "is not above 0"},
      {"-1", "is not above 0"},
      {"five", "is no amount"},
  }));
  CHECK_THROWS_WITH(Amount::parse(text, "budget"),
                    Catch::StartsWith("budget '" + text + "' " + problem + "; expected"));
}

TEST_CASE("a budget may be a size in bytes, in powers of 1000 or of 1024") {
  const auto bytes = [](const char* text) { return Amount::parse_budget(text, "budget").bytes(); };
  CHECK(bytes("64B") == 64);
  CHECK(bytes("64kB") == 64'000);
  CHECK(bytes("64KiB") == 65'536);
  CHECK(bytes("2MB") == 2'000'000);
  CHECK(bytes("2MiB") == 2'097'152);
  CHECK(bytes("3GB") == 3'000'000'000);
  CHECK(bytes("3GiB") == 3'221'225'472);
  CHECK(bytes("1.5KiB") == 1'536);
  CHECK(bytes("0.5kB") == 500);
}

TEST_CASE("a size has one spelling and is no number of tokens") {
  const Amount size = Amount::parse_budget("64KiB", "budget");
  CHECK(size.is_bytes());
  CHECK_FALSE(size.is_share());
  CHECK(size.written() == "64KiB");
  CHECK(size.text() == "65536B");
  CHECK(size == Amount::parse_budget("65.536kB", "budget"));
  CHECK_FALSE(size == Amount::parse_budget("65536", "budget"));
  CHECK_THROWS_WITH(size.of(100), Catch::StartsWith("'64KiB' is a size"));
}

TEST_CASE("a budget in tokens or a share is what it is elsewhere") {
  for (const char* text : {"256", "20%", "0.2", "1.0"}) {
    CHECK(Amount::parse_budget(text, "budget") == Amount::parse(text, "budget"));
  }
}

TEST_CASE("what is no size is refused with what is wrong with it") {
  const auto [text, problem] = GENERATE(table<std::string, std::string>({
      {"0KiB", "is not above 0"},
      {"0.3B", "is no whole number of bytes"},
      {"1.0001KiB", "is no whole number of bytes"},
      {"9999999GB", "is more than 10^15 bytes"},
      {"64KB", "is no amount"},
      {"64kib", "is no amount"},
      {"64 KiB", "is no amount"},
      {"-1KiB", "is no amount"},
      {"1e3B", "is no amount"},
      {"nanB", "is no amount"},
      {".B", "is no amount"},
      {"KiB", "is no amount"},
      {"200%", "is more than the whole"},
  }));
  CHECK_THROWS_WITH(Amount::parse_budget(text, "budget"),
                    Catch::StartsWith("budget '" + text + "' " + problem + "; expected") &&
                        Catch::EndsWith("or bytes per KV head (64KiB, 64kB)"));
}

TEST_CASE("where no budget is asked for, a size is refused as such") {
  CHECK_THROWS_WITH(Amount::parse("64KiB", "recent"),
                    Catch::StartsWith("recent '64KiB' is a size, which only a budget may be"));
}

}  // namespace kvsim::amount_test
