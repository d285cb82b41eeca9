#pragma once

#include "sim/protocol/protocol.h"

namespace kvsim {

/// The steps of a text at which a replay measures: all from the first on, an even sample of them,
/// or none.
class MeasuredSteps {
 public:
  /// A sample has at most as many steps as there are.
  MeasuredSteps(const Protocol& protocol, int prompt_length, int num_tokens)
      : protocol_(protocol),
        first_(protocol.first_measured(prompt_length)),
        num_tokens_(num_tokens) {}

  /// Whether anything is measured at `step`. Of M steps in all, a sample of N takes numbers
  /// ceil(k M / N) for k = 1 .. N, counted from 1: evenly spaced to within a step, and the last.
  bool measures(int step) const {
    if (protocol_.reference == Reference::full) return step >= first_;
    return protocol_.measures() && step >= first_ && samples(step);
  }

  /// Whether the output error of `step` is measured.
  bool takes_error(int step) const {
    if (!measures(step)) return false;
    return protocol_.error_stride == 1 || (num_tokens_ - 1 - step) % protocol_.error_stride == 0;
  }

  /// The number of steps at which measures() holds.
  int count() const;

  /// Of these, those that take errors.
  int num_errors() const;

  /// The number of steps to replay together from `step` on, at most `most`: a sampled step is
  /// alone.
  int together(int step, int most) const;

  int first() const { return first_; }
  const Protocol& protocol() const { return protocol_; }

 private:
  bool samples(int step) const;

  Protocol protocol_;
  int first_;
  int num_tokens_;
};

}  // namespace kvsim
