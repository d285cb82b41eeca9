#include "oracle/page_schedule.h"

namespace kvsim {

Schedule page_schedule(const Schedule& of_pages, const PageSteps& pages, int num_tokens) {
  Schedule schedule(num_tokens, num_tokens);
  const int num_pages = pages.steps().num_tokens();
  for (int page = 0; page < num_pages; ++page) {
    if (of_pages[page] == num_pages) continue;
    const int step = pages.eviction_step(of_pages[page]);
    const int first = page * pages.page_size();
    for (int token = first; token < first + pages.page_size(); ++token) schedule[token] = step;
  }
  return schedule;
}

}  // namespace kvsim
