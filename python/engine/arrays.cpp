#include "python/engine/arrays.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "traces/selected_dataset.h"

namespace kvsim::python {

std::shared_ptr<const SelectedTokens> selected_of(const nanobind::handle& given,
                                                  const std::string& what, int first_step) {
  if (given.is_none()) return nullptr;
  const auto rows = nanobind::cast<Selections>(given);
  return std::make_shared<SelectedTokens>(selected_of_rows(
      {rows.data(), rows.size()}, rows.shape(1),
      [&](const std::string& expected, const std::string& found) {
        throw UsageError(fmt::format("{}: expected {}, found {}", what, expected, found));
      },
      first_step));
}

nanobind::object array_or_none(const std::shared_ptr<const SelectedTokens>& selected) {
  if (!selected) return nanobind::none();
  std::vector<std::int32_t> rows = padded_rows(*selected);
  const std::int32_t* data = rows.data();
  const auto steps = static_cast<std::size_t>(selected->num_steps());
  const std::vector<std::size_t> shape{steps, rows.size() / steps};
  return array_over(data, shape, std::move(rows));
}

}  // namespace kvsim::python
