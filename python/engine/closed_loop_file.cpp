#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "python/engine/scratch.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/results/closed_loop_table.h"
#include "sim/results/run.h"
#include "sim/results/store.h"
#include "sim/results/task_answer_table.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

using Type = ColumnSchema::Type;

[[noreturn]] void fail(const std::string& table, const ColumnSchema& column, const char* expected,
                       nb::handle found) {
  throw UsageError(fmt::format("{}: {}: expected {}, found {}", table, column.name, expected,
                               nb::cast<std::string>(nb::repr(found))));
}

/// Whole numbers of Python and of numpy.
std::int64_t integer_of(const std::string& table, const ColumnSchema& column, nb::handle given) {
  if (PyIndex_Check(given.ptr()) == 0) fail(table, column, "a whole number or None", given);
  const nb::object number = nb::steal(PyNumber_Index(given.ptr()));
  const std::int64_t value = number.is_valid() ? PyLong_AsLongLong(number.ptr()) : 0;
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    fail(table, column, "a whole number of 64 bits", given);
  }
  return value;
}

double real_of(const std::string& table, const ColumnSchema& column, nb::handle given) {
  const double value = PyFloat_AsDouble(given.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    fail(table, column, "a number or None", given);
  }
  // SQLite would store NULL, which means "does not apply".
  if (std::isnan(value)) {
    throw DataError(
        fmt::format("{}: {}: expected a number, found NaN; the model's predictions are "
                    "not finite, load it in float32",
                    table, column.name));
  }
  return value;
}

Value value_of(const std::string& table, const ColumnSchema& column, nb::handle given) {
  if (given.is_none()) return std::monostate();
  switch (column.type) {
    case Type::integer:
      return integer_of(table, column, given);
    case Type::real:
      return real_of(table, column, given);
    case Type::text:
      break;
  }
  std::string text;
  if (!nb::try_cast(given, text)) fail(table, column, "a text or None", given);
  return text;
}

/// A table whose rows Python computes.
class WrittenTable {
 public:
  explicit WrittenTable(TableSchema schema) : schema_(std::move(schema)) {
    for (std::size_t i = 0; i < schema_.columns.size(); ++i) places_[schema_.columns[i].name] = i;
  }

  const TableSchema& schema() const { return schema_; }

  /// A column that a row lacks is NULL.
  TableRows rows_of(const nb::list& given) const {
    TableRows table{&schema_, {}};
    for (const nb::handle row : given) table.rows.push_back(row_of(nb::cast<nb::dict>(row)));
    return table;
  }

 private:
  std::vector<Value> row_of(const nb::dict& given) const {
    std::vector<Value> row(schema_.columns.size(), std::monostate());
    for (const auto& [key, value] : given) {
      const std::size_t place = place_of(nb::cast<std::string>(key));
      row[place] = value_of(schema_.name, schema_.columns[place], value);
    }
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!schema_.columns[i].is_key || !std::holds_alternative<std::monostate>(row[i])) continue;
      throw UsageError(fmt::format("{}: a row lacks {}, a part of its key", schema_.name,
                                   schema_.columns[i].name));
    }
    return row;
  }

  std::size_t place_of(const std::string& name) const {
    const auto found = places_.find(name);
    if (found != places_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, place] : places_) names.push_back(known);
    throw UsageError(fmt::format("{}: there is no column {}; did you mean {}?", schema_.name, name,
                                 nearest(name, names)));
  }

  TableSchema schema_;
  std::map<std::string, std::size_t> places_;
};

/// The table `closed_loop` of a result file, or of one in memory, and those of the parts of its
/// rows; or its table `task_answer`. Rows belong to no run before begin_run().
class ClosedLoopFile {
 public:
  ClosedLoopFile(const std::optional<std::string>& path, const std::string& scratch, bool per_step,
                 bool answers) {
    const nb::gil_scoped_release release;
    if (path) {
      store_.emplace(*path, ResultStore::Access::write, scratch_in(scratch));
    } else {
      store_.emplace();
    }
    if (answers) {
      store_->create(answers_.schema());
      return;
    }
    store_->create(rows_.schema());
    store_->create(kinds_.schema());
    if (per_step) store_->create(steps_.schema());
  }

  std::string begin_run(const std::string& command, const std::string& device, int threads,
                        const std::string& shard, const std::string& study) {
    return stored([&] {
      store_->begin_run({command, device, threads, shard, study});
      return store_->run_id();
    });
  }

  void finish_run() {
    stored([&] { store_->finish_run(); });
  }

  ~ClosedLoopFile() { close(); }

  /// Brings rows on a local disk to their place. The object is not used any more.
  void close() {
    const nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    store_.reset();
  }

  nb::tuple rows(const std::string& name) {
    const TableSchema& schema = table_named(name).schema();
    return table_of(schema, stored([&] { return store_->table(name).rows; }));
  }

  /// All rows with their parts or, on failure, none. The earlier parts of a row go, whether it has
  /// new ones or not. `steps` need a file `per_step`.
  void add(const nb::list& rows, const nb::list& kinds, const nb::list& steps) {
    std::vector<TableRows> tables{rows_.rows_of(rows), kinds_.rows_of(kinds)};
    tables.front().parts = {&kinds_.schema(), &steps_.schema()};
    if (steps.size() > 0) tables.push_back(steps_.rows_of(steps));
    stored([&] { store_->replace(tables); });
  }

  /// All rows of `task_answer` or, on failure, none. Needs a file of `answers`.
  void add_answers(const nb::list& rows) {
    const std::vector<TableRows> tables{answers_.rows_of(rows)};
    stored([&] { store_->replace(tables); });
  }

 private:
  /// Another program may be writing to the file: waits for it without the GIL, one thread at once.
  template <class Action>
  std::invoke_result_t<Action> stored(const Action& action) {
    const nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    if (!store_) throw std::logic_error("a closed file of closed_loop rows");
    return action();
  }

  const WrittenTable& table_named(const std::string& name) const {
    for (const WrittenTable* table : {&rows_, &kinds_, &steps_, &answers_}) {
      if (table->schema().name == name) return *table;
    }
    throw std::logic_error("no table of the closed loop: " + name);
  }

  const WrittenTable rows_{closed_loop_schema()};
  const WrittenTable kinds_{closed_loop_kind_schema()};
  const WrittenTable steps_{closed_loop_step_schema()};
  const WrittenTable answers_{task_answer_schema()};
  std::optional<ResultStore> store_;  // none after close()
  std::mutex mutex_;
};

}  // namespace

void bind_closed_loop_file(nb::module_& module) {
  nb::class_<ClosedLoopFile>(module, "ClosedLoopFile")
      .def(nb::init<const std::optional<std::string>&, const std::string&, bool, bool>(),
           "path"_a.none(), "scratch"_a = "", "per_step"_a = false, "answers"_a = false)
      .def("begin_run", &ClosedLoopFile::begin_run, "command"_a, "device"_a, "threads"_a,
           "shard"_a = "", "study"_a = "")
      .def("finish_run", &ClosedLoopFile::finish_run)
      .def("close", &ClosedLoopFile::close)
      .def("rows", &ClosedLoopFile::rows, "table"_a = "closed_loop")
      .def("add", &ClosedLoopFile::add, "rows"_a, "kinds"_a = nb::list(), "steps"_a = nb::list())
      .def("add_answers", &ClosedLoopFile::add_answers, "rows"_a);
}

}  // namespace kvsim::python
