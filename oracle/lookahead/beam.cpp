#include "oracle/lookahead/beam.h"

#include <algorithm>

namespace kvsim {
namespace {

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): digests of sets are sums of these.
std::uint64_t scrambled(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31U);
}

}  // namespace

Beam::Beam(std::unique_ptr<LookaheadCache> cache, std::vector<int> evictions, std::size_t width)
    : evictions_(std::move(evictions)), width_(width) {
  caches_.push_back({.cache = std::move(cache)});
}

void Beam::receive(const AttentionBlock& block) {
  for (Entry& entry : caches_) entry.cache->receive(block);
}

void Beam::evict(int step) {
  if (step < first_eviction()) return;
  for (Entry& entry : caches_) {
    entry.cache->arrive(step);
    if (width_ > 1) entry.loss_so_far += entry.cache->loss_at(step);
  }
  for (int count = evictions_[step]; count > 0; --count) evict_one(step);
}

const Schedule& Beam::schedule() const {
  const auto is_better = [](const Entry& a, const Entry& b) {
    return a.loss_so_far < b.loss_so_far;
  };
  return std::min_element(caches_.begin(), caches_.end(), is_better)->cache->schedule();
}

void Beam::evict_one(int step) {
  struct Chosen {
    Candidate candidate;
    std::uint64_t left;
  };
  std::vector<Chosen> chosen;
  std::vector<std::size_t> uses(caches_.size(), 0);
  for (const Candidate& candidate : candidates(step)) {
    const std::uint64_t left =
        caches_[candidate.entry].left + scrambled(static_cast<std::uint64_t>(candidate.token));
    const auto is_same = [&](const Chosen& other) { return other.left == left; };
    if (std::any_of(chosen.begin(), chosen.end(), is_same)) continue;
    chosen.push_back({candidate, left});
    ++uses[candidate.entry];
    if (chosen.size() == width_) break;
  }
  std::vector<Entry> next;
  for (const auto& [candidate, left] : chosen) {
    Entry& from = caches_[candidate.entry];
    const bool is_last_use = --uses[candidate.entry] == 0;
    next.push_back({.cache = is_last_use ? std::move(from.cache)
                                         : std::make_unique<LookaheadCache>(*from.cache),
                    .loss_so_far = from.loss_so_far,
                    .left = left});
    next.back().cache->evict(candidate.slot, step);
  }
  caches_ = std::move(next);
}

// As many of the best as can be needed: of those with equal tokens left, one per cache.
std::vector<Beam::Candidate> Beam::candidates(int step) {
  std::vector<Candidate> all;
  for (std::size_t entry = 0; entry < caches_.size(); ++entry) {
    LookaheadCache& cache = *caches_[entry].cache;
    double known = 0;
    if (width_ > 1) known = caches_[entry].loss_so_far + cache.loss(step);
    const std::vector<double>& changes = cache.changes(step);
    for (std::size_t slot = 0; slot < cache.held().count(); ++slot) {
      const int token = cache.held().token(slot);
      if (token > step) continue;
      all.push_back({.loss = known + changes[slot], .token = token, .entry = entry, .slot = slot});
    }
  }
  const auto needed = static_cast<std::ptrdiff_t>(std::min(all.size(), width_ * caches_.size()));
  std::partial_sort(all.begin(), all.begin() + needed, all.end());
  all.resize(static_cast<std::size_t>(needed));
  return all;
}

}  // namespace kvsim
