#include "sim/replay/arrival_score.h"

namespace kvsim {

double arrival_score(Policy& policy, const Unit& unit, std::int32_t token) {
  const std::span<const std::int32_t> newest(&token, 1);
  double score = 0;
  policy.update({.index = token,
                 .tokens = newest,
                 .keys = {unit.key.data(), static_cast<std::size_t>(unit.key.cols()), newest}},
                {&score, 1});
  return score;
}

}  // namespace kvsim
