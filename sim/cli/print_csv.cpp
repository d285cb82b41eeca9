#include "sim/cli/print_csv.h"

#include <fmt/format.h>

#include <iostream>

namespace kvsim::cli {

void print_csv(const Table& table) {
  const std::vector<std::string> marked = write_csv(std::cout, table);
  if (marked.empty()) return;
  std::cerr << fmt::format(
      "kvsim: a spreadsheet would run some texts of {} as formulas: they have a ' before them; "
      "--format json has them as they are\n",
      fmt::join(marked, ", "));
}

}  // namespace kvsim::cli
