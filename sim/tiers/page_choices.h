#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvsim {

/// What one selector chooses on a text: all that the replacement of pages depends on.
struct PageChoices {
  int page = 1;            ///< tokens
  int num_tokens = 0;      ///< of the text
  int first_measured = 0;  ///< the steps before attend in full: nothing is chosen

  std::vector<std::int64_t> end{0};  ///< per step and one before: where its pages end in `pages`
  std::vector<std::int32_t> pages;   ///< of all steps, ascending in each

  /// The attention of the steps to what they attend to, group mean, for Replacement::mass; empty
  /// unless it is asked for.
  std::vector<float> mass;          ///< parallel to `pages`
  std::vector<float> own_mass;      ///< per measured step: to its own page
  std::vector<double> prompt_mass;  ///< per page: all attention of the steps before first_measured

  /// The chosen pages of a step, ascending.
  std::span<const std::int32_t> at(int step) const {
    return {pages.data() + end[step], static_cast<std::size_t>(end[step + 1] - end[step])};
  }

  int steps() const { return num_tokens - first_measured; }      ///< measured
  int num_pages() const { return (num_tokens - 1) / page + 1; }  ///< the last may be cut
  bool begins_page(int step) const { return step % page == 0; }

  /// The most pages that a step chooses: as many places a cache needs, and one for its own page.
  int most_chosen() const;
};

}  // namespace kvsim
