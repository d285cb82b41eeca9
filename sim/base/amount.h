#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvsim {

/// A number of tokens, given directly ("256") or as a share of a whole: a fraction written with a
/// point ("0.2") or a percentage ("20%"). Shares lie in (0, 1]. A budget may also be a size of a KV
/// head's cache ("64KiB"), whose tokens depend on how they are stored: bytes_budget.h.
class Amount {
 public:
  /// Throws UsageError, starting with `what`, for anything but tokens and shares.
  static Amount parse(std::string_view text, std::string_view what);

  /// The same for a budget, which may be a size: a number of B, kB, MB or GB (powers of 1000), KiB,
  /// MiB or GiB (powers of 1024) that comes to whole bytes.
  static Amount parse_budget(std::string_view text, std::string_view what);

  /// In tokens: max(1, floor(share * whole + 0.5)) for a share, the number itself otherwise. Throws
  /// UsageError for a size.
  int of(int whole) const;

  /// The canonical spelling of this amount: "256" for tokens, "0.2" or "1.0" for a share, "65536B"
  /// for a size.
  std::string text() const;

  /// The text that was parsed: "20%".
  const std::string& written() const { return written_; }

  /// Tokens, the share, or bytes.
  double value() const { return value_; }
  bool is_share() const { return form_ == Form::share; }
  bool is_bytes() const { return form_ == Form::bytes; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(value_); }

  /// Whether they are equal, however they were written.
  bool operator==(const Amount& other) const {
    return form_ == other.form_ && value_ == other.value_;
  }

 private:
  enum class Form { tokens, share, bytes };

  Amount(double value, Form form, std::string_view written)
      : value_(value), form_(form), written_(written) {}

  double value_;
  Form form_;
  std::string written_;
};

/// The unit at the end of a size, as "KiB"; empty: the text has none. `bytes` is what it stands
/// for.
struct SizeUnit {
  std::string_view name;
  std::int64_t bytes = 1;

  static SizeUnit of(std::string_view text);
};

}  // namespace kvsim
