#include "sim/tiers/page_choices.h"

#include <algorithm>

namespace kvsim {

int PageChoices::most_chosen() const {
  std::int64_t most = 0;
  for (std::size_t i = 1; i < end.size(); ++i) most = std::max(most, end[i] - end[i - 1]);
  return static_cast<int>(most);
}

}  // namespace kvsim
