#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kvsim {

/// Erases from a list that is parallel to the slots of a cache those of `slots`, which ascend and
/// are not empty. A list may be shorter than the cache: of the slots it has those before its end.
template <class T>
void erase_slots(const std::vector<std::size_t>& slots, std::vector<T>& list) {
  const auto place = [&](std::size_t slot) {
    return list.begin() + static_cast<std::ptrdiff_t>(std::min(slot, list.size()));
  };
  auto end = place(slots.front());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto next = i + 1 < slots.size() ? place(slots[i + 1]) : list.end();
    if (slots[i] < list.size()) end = std::move(place(slots[i] + 1), next, end);
  }
  list.erase(end, list.end());
}

}  // namespace kvsim
