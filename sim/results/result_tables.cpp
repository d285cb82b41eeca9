#include "sim/results/result_tables.h"

#include "sim/results/closed_loop_table.h"
#include "sim/results/curve_schema.h"
#include "sim/results/fetch_schema.h"
#include "sim/results/integrity/kept_digests.h"
#include "sim/results/layer_error_table.h"
#include "sim/results/regret.h"
#include "sim/results/replay_table.h"
#include "sim/results/run.h"
#include "sim/results/sampled_interval_table.h"
#include "sim/results/table_schema.h"
#include "sim/results/task_answer_table.h"

namespace kvsim {

const std::vector<TableSchema>& result_tables() {
  static const std::vector<TableSchema> tables{replay_schema(),
                                               certificate_schema(),
                                               layer_error_schema(),
                                               sampled_interval_schema(),
                                               curve_schema(),
                                               fetch_schema(),
                                               closed_loop_schema(),
                                               closed_loop_kind_schema(),
                                               closed_loop_step_schema(),
                                               task_answer_schema(),
                                               run_schema(),
                                               about_schema(),
                                               digest_schema()};
  return tables;
}

const std::vector<TableSchema>& result_views() {
  static const std::vector<TableSchema> views{regret_schema(), predicted_kl_schema()};
  return views;
}

const TableSchema* find_table(std::string_view name) {
  for (const auto* schemas : {&result_tables(), &result_views()}) {
    for (const TableSchema& schema : *schemas) {
      if (schema.name == name) return &schema;
    }
  }
  return nullptr;
}

}  // namespace kvsim
