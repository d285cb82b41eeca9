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

}  // namespace kvsim::amount_test
