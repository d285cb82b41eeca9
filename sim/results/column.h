#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace kvsim {

/// What the numbers of a column can be.
struct ValueRange {
  double least;
  double most;
  const char* words;  ///< as messages have it: "0 .. 1"
  /// A value may be outside by this much: means and shares are sums in single precision.
  double rounding = 0;
};

namespace ranges {
inline constexpr double kEndless = std::numeric_limits<double>::max();
inline constexpr ValueRange kNumber{-kEndless, kEndless, "a finite number"};
inline constexpr ValueRange kCount{0, kEndless, "0 or more"};
inline constexpr ValueRange kFromOne{1, kEndless, "1 or more"};
inline constexpr ValueRange kNotNegative{0, kEndless, "0 or more", 1e-4};
inline constexpr ValueRange kShare{0, 1, "0 .. 1", 1e-4};
inline constexpr ValueRange kDifference{-1, 1, "-1 .. 1", 1e-4};
inline constexpr ValueRange kFlag{0, 1, "0 or 1"};
}  // namespace ranges

/// Which of two values of a column a policy should have.
enum class Preferred { higher, lower, neither };

/// One column of a table of a result file: what SQL, value checks, `about`, `compare`, frames and
/// reports know of it.
struct ColumnSchema {
  enum class Type { integer, real, text };

  std::string name;
  Type type = Type::real;
  std::string meaning;     ///< definition, with unit and range
  bool is_key = false;     ///< part of the primary key; key columns come first
  bool is_filled = false;  ///< never NULL, as a key
  ValueRange range = ranges::kNumber;
  std::string unit = {};  ///< "nats per token"; empty: a share, a text, or said in the meaning
  Preferred preferred = Preferred::neither;
  bool is_open_loop = false;  ///< compares what one cache does with the full attention
  bool is_summed = false;     ///< over the units or layers of a sequence; else averaged

  bool can_be_null() const { return !is_key && !is_filled; }

  /// The same column, declared further.
  ColumnSchema key() && { return std::move(*this).with(&ColumnSchema::is_key); }
  ColumnSchema filled() && { return std::move(*this).with(&ColumnSchema::is_filled); }
  ColumnSchema in(ValueRange values, Preferred which = Preferred::neither,
                  const char* word = "") && {
    range = values;
    preferred = which;
    unit = word;
    return std::move(*this);
  }
  ColumnSchema open_loop() && { return std::move(*this).with(&ColumnSchema::is_open_loop); }
  ColumnSchema summed() && { return std::move(*this).with(&ColumnSchema::is_summed); }

 private:
  ColumnSchema with(bool ColumnSchema::*fact) && {
    this->*fact = true;
    return std::move(*this);
  }
};

ColumnSchema integer_column(std::string name, std::string meaning);
ColumnSchema real_column(std::string name, std::string meaning);
ColumnSchema text_column(std::string name, std::string meaning);

/// A table or view of a result file.
struct TableSchema {
  std::string name;
  std::string shows;   ///< the meaning of a row
  std::string source;  ///< of the definitions: paper and section
  std::vector<ColumnSchema> columns;
  /// Whether the table ends in one more column: `run_id`, the run that wrote the row.
  bool ends_in_run = true;

  /// All columns, `run_id` too.
  std::vector<ColumnSchema> stored_columns() const;
};

/// "INTEGER", "REAL" or "TEXT".
std::string sql_type(ColumnSchema::Type type);

/// The SQL that creates the table where it is missing.
std::string create_statement(const TableSchema& schema);

}  // namespace kvsim
