#pragma once

#include <string>
#include <string_view>

namespace kvsim {

/// A number of tokens, given directly ("256") or as a share of a whole: a fraction written with a
/// point ("0.2") or a percentage ("20%"). Shares lie in (0, 1].
class Amount {
 public:
  /// Throws UsageError, starting with `what`, for anything but the three forms above.
  static Amount parse(std::string_view text, std::string_view what);

  /// In tokens: max(1, floor(share * whole + 0.5)) for a share, the number itself otherwise.
  int of(int whole) const;

  /// The canonical spelling of this amount: "256" for tokens, "0.2" or "1.0" for a share.
  std::string text() const;

  /// The text that parse() was given: "20%".
  const std::string& written() const { return written_; }

  double value() const { return value_; }
  bool is_share() const { return is_share_; }

 private:
  Amount(double value, bool is_share, std::string_view written)
      : value_(value), is_share_(is_share), written_(written) {}

  double value_;
  bool is_share_;
  std::string written_;
};

}  // namespace kvsim
