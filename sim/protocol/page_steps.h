#pragma once

#include "sim/protocol/eviction_steps.h"

namespace kvsim {

/// The evictions of pages as evictions of tokens, of a text whose tokens are the pages: the same
/// number of pages leave at steps(), under a budget of pages, as under the protocol of pages. The
/// page that arrives is not complete and may not leave. A text may end before its last page evicts;
/// then that page is not one of them.
class PageSteps {
 public:
  explicit PageSteps(const EvictionSteps& of_tokens);

  const EvictionSteps& steps() const { return steps_; }
  int page_size() const { return page_size_; }

  /// The step of the text after which caches evict that have begun page `page`: the one that needs
  /// the room, or the last of the prompt.
  int eviction_step(int page) const {
    return page == prompt_end_ ? prompt_step_ : usual_step(page);
  }

 private:
  int usual_step(int page) const { return page * page_size_ + offset_; }

  int page_size_;
  int offset_;       // in a page, of the steps that evict
  int prompt_step_;  // the last of the prompt; -1 in stream mode
  int prompt_end_;   // its page, or -1
  EvictionSteps steps_;
};

}  // namespace kvsim
