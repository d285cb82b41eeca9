#pragma once

#include "sim/protocol/page_steps.h"
#include "sim/replay/planner.h"

namespace kvsim {

/// The schedule of a text of `num_tokens` tokens whose pages follow `of_pages`: per page, the page
/// whose arrival evicts it.
Schedule page_schedule(const Schedule& of_pages, const PageSteps& pages, int num_tokens);

}  // namespace kvsim
