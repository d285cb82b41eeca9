#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvsim {

/// A set of pages, for one step at a time.
class PageMarks {
 public:
  explicit PageMarks(int num_pages) : marks_(static_cast<std::size_t>(num_pages)) {}

  bool operator[](std::int32_t page) const { return marks_[page] != 0; }

  void set(std::span<const std::int32_t> pages) {
    for (const std::int32_t page : pages) marks_[page] = 1;
  }
  void clear(std::span<const std::int32_t> pages) {
    for (const std::int32_t page : pages) marks_[page] = 0;
  }

 private:
  std::vector<std::uint8_t> marks_;
};

}  // namespace kvsim
