#include "sim/results/score_file.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/results/unit_numbers.h"
#include "traces/hdf5/hdf5_lock.h"
#include "traces/sha256.h"

namespace kvsim {
namespace {

UnitNumbers scores() {
  return {.kind = {.kind = "a file of scores",
                   .make = "python -m kvsim.second_reading writes one",
                   .repair = "write it again"},
          .name = "scores",
          .how_to_write =
              "write it with python -m kvsim.second_reading for this trace: all sequences, and "
              "with --reads text scores of whole texts"};
}

/// Whose scores these are, if the file says it.
void check_text(const GroupReader& sequence, std::span<const std::int32_t> token_ids) {
  const std::string expected = sequence.attributes().optional_text("text_id");
  if (expected.empty() || token_ids.empty()) return;
  Sha256 digest;
  digest.update(token_ids.data(), token_ids.size_bytes());
  const std::string found = digest.finish();
  if (found == expected) return;
  sequence.place().fail(fmt::format("the text with text_id {}", expected),
                        fmt::format("{} in the trace", found),
                        "these are scores of another text: write them for this trace");
}

}  // namespace

ScoreFile::ScoreFile(const std::filesystem::path& file)
    : root_(open_unit_numbers<float>(file, scores())) {}

ScoreFile::~ScoreFile() {
  const Hdf5Lock lock;
  root_.reset();
}

std::vector<float> ScoreFile::read(const UnitName& unit, int num_tokens,
                                   std::span<const std::int32_t> token_ids) const {
  const Hdf5Lock lock;
  const UnitNumbers numbers = scores();
  check_text(sequence_of(*root_, numbers, unit.sequence), token_ids);
  std::vector<float> found = read_unit_numbers<float>(*root_, numbers, unit, num_tokens);
  for (std::size_t token = 0; token < found.size(); ++token) {
    if (std::isfinite(found[token])) continue;
    place_of(*root_, numbers, unit)
        .fail("a finite number", fmt::format("{} at [{}]", found[token], token),
              numbers.kind.repair);
  }
  return found;
}

}  // namespace kvsim
