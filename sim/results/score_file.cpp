#include "sim/results/score_file.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/results/unit_numbers.h"
#include "traces/hdf5/hdf5_lock.h"

namespace kvsim {
namespace {

UnitNumbers scores() {
  return {.kind = {.kind = "a file of scores",
                   .make = "python -m kvsim.second_reading writes one",
                   .repair = "write it again"},
          .name = "scores",
          .how_to_write =
              "write it with python -m kvsim.second_reading for this trace; --reads says how much "
              "of a text has scores",
          .write_again = "write it again"};
}

}  // namespace

ScoreFile::ScoreFile(const std::filesystem::path& file)
    : root_(open_unit_numbers<float>(file, scores())) {}

ScoreFile::~ScoreFile() {
  const Hdf5Lock lock;
  root_.reset();
}

std::vector<float> ScoreFile::read(const UnitName& unit, int num_tokens) const {
  const Hdf5Lock lock;
  const UnitNumbers numbers = scores();
  std::vector<float> found = read_unit_numbers<float>(*root_, numbers, unit, num_tokens);
  for (std::size_t token = 0; token < found.size(); ++token) {
    if (std::isfinite(found[token])) continue;
    place_of(*root_, numbers, unit)
        .fail("a finite number", fmt::format("{} at [{}]", found[token], token),
              numbers.write_again);
  }
  return found;
}

}  // namespace kvsim
