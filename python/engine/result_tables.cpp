#include "sim/results/result_tables.h"

#include <nanobind/stl/string.h>

#include "python/engine/bindings.h"
#include "python/engine/columns.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

int sign_of(Preferred preferred) {
  if (preferred == Preferred::neither) return 0;
  return preferred == Preferred::higher ? 1 : -1;
}

/// {table or view: what about() has, and by column `signs`: 1 where more is better, -1 where less}.
nb::dict declared_tables() {
  nb::dict tables;
  for (const auto* schemas : {&result_tables(), &result_views()}) {
    for (const TableSchema& schema : *schemas) {
      nb::dict declared = about(schema);
      nb::dict signs;
      for (const ColumnSchema& column : schema.stored_columns()) {
        signs[column.name.c_str()] = sign_of(column.preferred);
      }
      declared["signs"] = signs;
      tables[schema.name.c_str()] = declared;
    }
  }
  return tables;
}

}  // namespace

void bind_result_tables(nb::module_& module) { module.def("result_tables", &declared_tables); }

}  // namespace kvsim::python
