#include "traces/selected_dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/hdf5/hdf5_type.h"
#include "traces/hdf5/stored_size.h"
#include "traces/integrity/digest_attribute.h"

namespace kvsim {
namespace {

const std::string kSelected = "selected";
constexpr std::int32_t kNone = -1;  // behind the tokens of a row

using Fail = std::function<void(const std::string& expected, const std::string& found)>;

/// The tokens of a row: those before the first -1.
std::span<const std::int32_t> tokens_of(std::span<const std::int32_t> row, int step,
                                        const Fail& fail) {
  const auto fail_here = [&](const std::string& expected, const std::string& found) {
    fail(expected, fmt::format("{} at [{}]", found, step));
  };
  const auto end = std::ranges::find(row, kNone);
  const auto tokens = row.first(static_cast<std::size_t>(end - row.begin()));
  if (tokens.empty()) fail_here("a token that the step selects", "-1 alone");
  const auto behind = std::ranges::find_if(end, row.end(), [](auto x) { return x != kNone; });
  if (behind != row.end()) {
    fail_here("-1 behind the tokens", fmt::format("{} behind -1", *behind));
  }
  const auto strange = std::ranges::find_if(tokens, [&](auto x) { return x < 0 || x > step; });
  if (strange != tokens.end()) {
    fail_here(fmt::format("tokens in 0..{}, the step itself", step), fmt::format("{}", *strange));
  }
  const auto repeated = std::ranges::adjacent_find(tokens, std::greater_equal<>());
  if (repeated != tokens.end()) {
    fail_here("ascending tokens", fmt::format("{}, then {}", repeated[0], repeated[1]));
  }
  return tokens;
}

}  // namespace

std::optional<std::vector<int>> shape_of_selected(const GroupReader& layer, int tokens) {
  if (!layer.contains(kSelected)) return {};
  const H5::DataSet dataset = layer.dataset(kSelected);
  const Place place = layer.place().child(kSelected);
  if (!is_int32(dataset.getDataType())) {
    place.fail("int32", type_name(dataset.getDataType()), layer.fix());
  }
  const H5::DataSpace space = dataset.getSpace();
  hsize_t sizes[2] = {};
  if (space.getSimpleExtentNdims() == 2) space.getSimpleExtentDims(sizes);
  if (sizes[0] != static_cast<hsize_t>(tokens) || sizes[1] == 0) {
    place.fail(fmt::format("shape [{}, K], a row per token", tokens), shape_name(space),
               layer.fix());
  }
  require_written(dataset, place, layer.fix());
  return std::vector<int>{tokens, static_cast<int>(sizes[1])};
}

std::shared_ptr<const SelectedTokens> read_selected(const GroupReader& layer, const LayerInfo& info,
                                                    int tokens) {
  const auto shape = shape_of_selected(layer, tokens);
  if (!shape) return nullptr;
  const auto numbers = read_list<std::int32_t>(layer.dataset(kSelected),
                                               layer.place().child(kSelected), layer.fix());
  const Fail fail = [&](const std::string& expected, const std::string& found) {
    layer.place().child(kSelected).fail(expected, found, layer.fix());
  };
  const auto selected = std::make_shared<SelectedTokens>(
      selected_of_rows(numbers, static_cast<std::size_t>(shape->back()), fail));
  for (int step = 0; step < tokens; ++step) {
    const std::int32_t last = selected->at(step).back();
    if (info.sliding_window && step - last >= *info.sliding_window) {
      fail(fmt::format("a token in the sliding window of {}", *info.sliding_window),
           fmt::format("{} at most at [{}]", last, step));
    }
    if (info.attention_chunk && last / *info.attention_chunk != step / *info.attention_chunk) {
      fail(fmt::format("a token in the chunk of {}", *info.attention_chunk),
           fmt::format("{} at most at [{}]", last, step));
    }
  }
  return selected;
}

SelectedTokens selected_of_rows(std::span<const std::int32_t> rows, std::size_t width,
                                const Fail& fail, int first_step) {
  SelectedTokens selected;
  for (std::size_t begin = 0; begin < rows.size(); begin += width) {
    const int step = first_step + static_cast<int>(begin / width);
    selected.add(tokens_of(rows.subspan(begin, width), step, fail));
  }
  return selected;
}

std::vector<std::int32_t> padded_rows(const SelectedTokens& selection) {
  const auto width = static_cast<std::size_t>(selection.most());
  std::vector<std::int32_t> rows(width * static_cast<std::size_t>(selection.num_steps()), kNone);
  for (int step = 0; step < selection.num_steps(); ++step) {
    std::ranges::copy(selection.at(step), rows.begin() + static_cast<std::ptrdiff_t>(width) * step);
  }
  return rows;
}

}  // namespace kvsim
