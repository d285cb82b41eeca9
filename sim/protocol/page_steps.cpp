#include "sim/protocol/page_steps.h"

namespace kvsim {
namespace {

// A budget is a number of pages. A cache that holds it and grows by an interval of K tokens before
// it evicts has then begun 1 + (K - 1) / P pages more.
Protocol protocol_of_pages(Protocol protocol) {
  const int interval = protocol.eviction_interval;
  if (!protocol.evicts_once()) {
    protocol.eviction_interval = 1 + (interval - 1) / protocol.paging.size;
  }
  protocol.paging = {};
  return protocol;
}

int offset_of(const Protocol& protocol) {
  return protocol.evicts_once() ? 0 : (protocol.eviction_interval - 1) % protocol.paging.size;
}

}  // namespace

PageSteps::PageSteps(const EvictionSteps& of_tokens)
    : page_size_(of_tokens.protocol().paging.size),
      offset_(offset_of(of_tokens.protocol())),
      prompt_step_(of_tokens.first_measured() - 1),
      prompt_end_(prompt_step_ < 0 ? -1 : of_tokens.protocol().paging.page_of(prompt_step_)),
      steps_(0) {
  int pages = of_tokens.protocol().paging.pages_for(of_tokens.num_tokens());
  if (pages > 0 && eviction_step(pages - 1) >= of_tokens.num_tokens()) --pages;
  steps_ = EvictionSteps(pages, prompt_end_ + 1, protocol_of_pages(of_tokens.protocol()));
}

}  // namespace kvsim
