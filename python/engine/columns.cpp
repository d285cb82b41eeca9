#include "python/engine/columns.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <limits>
#include <map>

#include "python/engine/bindings.h"
#include "sim/results/result_tables.h"
#include "sim/results/table.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

using Type = ColumnSchema::Type;
using ValueRows = std::vector<std::vector<Value>>;

bool is_null(const Value& value) { return std::holds_alternative<std::monostate>(value); }

/// An array [rows] of `number(value)` of each row's value in the column.
template <class T, class Number>
nb::object numbers_of(const ValueRows& rows, std::size_t column, const Number& number) {
  auto* numbers = new T[rows.size()];
  const nb::capsule owner(numbers,
                          [](void* pointer) noexcept { delete[] static_cast<T*>(pointer); });
  for (std::size_t i = 0; i < rows.size(); ++i) numbers[i] = number(rows[i][column]);
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(numbers, {rows.size()}, owner));
}

nb::object texts_of(const ValueRows& rows, std::size_t column) {
  std::map<std::string_view, nb::object> known;  // most columns repeat a few texts
  nb::list texts;
  for (const std::vector<Value>& row : rows) {
    if (is_null(row[column])) {
      texts.append(nb::none());
      continue;
    }
    const std::string& text = std::get<std::string>(row[column]);
    nb::object& object = known[text];
    if (!object.is_valid()) object = nb::str(text.data(), text.size());
    texts.append(object);
  }
  return texts;
}

nb::object reals_of(const ValueRows& rows, std::size_t column) {
  return numbers_of<double>(rows, column, [](const Value& value) {
    return is_null(value) ? std::numeric_limits<double>::quiet_NaN() : std::get<double>(value);
  });
}

nb::object integers_of(const ValueRows& rows, std::size_t column, bool can_be_null) {
  const nb::object numbers = numbers_of<std::int64_t>(rows, column, [](const Value& value) {
    return is_null(value) ? std::int64_t{0} : std::get<std::int64_t>(value);
  });
  if (!can_be_null) return nb::make_tuple(numbers, nb::none());
  return nb::make_tuple(numbers, numbers_of<bool>(rows, column, is_null));
}

nb::object column_of(const ValueRows& rows, std::size_t column, Type type, bool can_be_null) {
  switch (type) {
    case Type::text:
      return texts_of(rows, column);
    case Type::real:
      return reals_of(rows, column);
    case Type::integer:
      break;
  }
  return integers_of(rows, column, can_be_null);
}

int sign_of(Preferred preferred) {
  if (preferred == Preferred::neither) return 0;
  return preferred == Preferred::higher ? 1 : -1;
}

/// {table or view: what about() has, and by column `signs`: 1 where more is better, -1 where less;
/// `types`: INTEGER, REAL or TEXT; `units`, empty where a column has none}.
nb::dict declared_tables() {
  nb::dict tables;
  for (const auto* schemas : {&result_tables(), &result_views()}) {
    for (const TableSchema& schema : *schemas) {
      nb::dict declared = about(schema);
      nb::dict signs;
      nb::dict types;
      nb::dict units;
      for (const ColumnSchema& column : schema.stored_columns()) {
        signs[column.name.c_str()] = sign_of(column.preferred);
        types[column.name.c_str()] = sql_type(column.type);
        units[column.name.c_str()] = column.unit;
      }
      declared["signs"] = signs;
      declared["types"] = types;
      declared["units"] = units;
      tables[schema.name.c_str()] = declared;
    }
  }
  return tables;
}

}  // namespace

nb::dict tables_of(TableOutput& tables) {
  nb::dict found;
  for (std::size_t i = 0; i < tables.schemas().size(); ++i) {
    ValueRows& rows = tables.rows()[i];
    for (std::vector<Value>& row : rows) row.emplace_back(tables.run_id());
    const TableSchema& schema = tables.schemas()[i];
    found[schema.name.c_str()] = table_of(schema, std::move(rows));
  }
  return found;
}

nb::dict about(const TableSchema& schema) {
  nb::dict meanings;
  for (const ColumnSchema& column : schema.stored_columns()) {
    meanings[column.name.c_str()] = column.meaning;
  }
  nb::dict about;
  about["shows"] = schema.shows;
  about["source"] = schema.source;
  about["about"] = meanings;
  return about;
}

nb::tuple table_of(const TableSchema& schema, ValueRows rows) {
  std::sort(rows.begin(), rows.end());  // key columns come first
  const std::vector<ColumnSchema> declared = schema.stored_columns();
  nb::dict columns;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const ColumnSchema& column = declared[i];
    const bool has_null = std::any_of(
        rows.begin(), rows.end(), [&](const std::vector<Value>& row) { return is_null(row[i]); });
    columns[column.name.c_str()] = column_of(rows, i, column.type, has_null);
  }
  return nb::make_tuple(columns, about(schema));
}

nb::dict columns_of(std::span<const Result> results) {
  const ValueRows rows = to_table(results).rows;
  nb::dict columns;
  for (std::size_t i = 0; i < result_columns().size(); ++i) {
    const Column& column = result_columns()[i];
    columns[column.name.c_str()] = column_of(rows, i, column.type, column.can_be_null());
  }
  return columns;
}

void bind_columns(nb::module_& module) { module.def("result_tables", &declared_tables); }

}  // namespace kvsim::python
