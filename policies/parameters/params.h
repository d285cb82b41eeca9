#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/amount.h"

namespace kvsim {

/// Declares one parameter of a policy. Parsing, help, documents and tests are derived from it.
struct Param {
  enum class Type {
    integer,  ///< a whole number in [least, most]
    real,     ///< a number in [least, most]
    amount,   ///< tokens, or a share of the budget (see Amount)
    choice,   ///< one of `choices`
    text      ///< anything without the separators of specs
  };

  std::string name;
  Type type;
  std::string initial;  ///< the default, as a user would write it
  double least = 0;
  double most = 0;
  std::vector<std::string> choices;
  std::string help;

  static Param integer(std::string name, int initial, int least, int most, std::string help);
  static Param real(std::string name, double initial, double least, double most, std::string help);
  static Param amount(std::string name, std::string initial, std::string help);
  /// The first choice is the default.
  static Param choice(std::string name, std::vector<std::string> choices, std::string help);
  static Param text(std::string name, std::string help, std::string initial = "");

  /// What may be written, for help and error messages: "0..1000", "sum|mean|full".
  std::string allowed() const;
};

/// The values of a policy's parameters: the declared defaults, until set() changes them.
class Params {
 public:
  explicit Params(const std::vector<Param>& declared);

  /// Throws UsageError for a name that is not declared (naming the nearest one) or for a value that
  /// the declaration does not allow. `owner` says whose parameter it is: "policy h2o".
  void set(std::string_view name, std::string_view value, std::string_view owner);

  /// Typed access. Throws std::logic_error for a name that is not declared with that type, which is
  /// a mistake in the policy's code.
  int integer(std::string_view name) const;
  double real(std::string_view name) const;
  /// In tokens; a share is taken of `budget`.
  int amount(std::string_view name, int budget) const;
  /// Whether the amount is given as a share of the budget.
  bool is_share(std::string_view name) const;
  const std::string& choice(std::string_view name) const;
  const std::string& text(std::string_view name) const;

  /// Every parameter with its value, in declared order: "recent=0.5,score=sum". Equal values give
  /// equal text, however they were written.
  std::string text() const;

 private:
  using Value = std::variant<int, double, Amount, std::string>;

  static Value parse(const Param& param, std::string_view text, std::string_view owner);
  template <class T>
  const T& get(std::string_view name) const;

  std::vector<std::pair<Param, Value>> values_;
};

}  // namespace kvsim
