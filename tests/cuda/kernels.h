#pragma once

namespace kvsim::cuda_test {

/// Lets warps of replay_steps run on concurrent threads of the host in place of one after the
/// other, while it exists; slow.
class EmulatedWarps {
 public:
  EmulatedWarps();
  EmulatedWarps(const EmulatedWarps&) = delete;
  EmulatedWarps& operator=(const EmulatedWarps&) = delete;
  ~EmulatedWarps();
};

}  // namespace kvsim::cuda_test
