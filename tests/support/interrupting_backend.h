#pragma once

#include <atomic>
#include <memory>

#include "sim/attention/attention.h"

namespace kvsim::test_support {

/// The CPU, which sets a flag while it computes a block, as Ctrl-C does while a run is at work.
class InterruptingBackend final : public Backend {
 public:
  /// In the block with this number, from 1 on.
  explicit InterruptingBackend(int block) : block_(block) {}

  const std::atomic<bool>& interrupted() const { return interrupted_; }
  int num_blocks() const { return num_blocks_; }  ///< computed so far

  std::string device() const override { return "cpu"; }
  std::unique_ptr<AttentionPass> attend(const Unit& unit) const override {
    return std::make_unique<Pass>(*this, cpu_->attend(unit));
  }

 private:
  class Pass final : public AttentionPass {
   public:
    Pass(const InterruptingBackend& backend, std::unique_ptr<AttentionPass> pass)
        : backend_(backend), pass_(std::move(pass)) {}

    void compute(int first_step, int num_steps, Outputs outputs, AttentionBlock& block) override {
      pass_->compute(first_step, num_steps, outputs, block);
      if (++backend_.num_blocks_ == backend_.block_) backend_.interrupted_ = true;
    }

   private:
    const InterruptingBackend& backend_;
    std::unique_ptr<AttentionPass> pass_;
  };

  int block_;
  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
  mutable std::atomic<bool> interrupted_ = false;
  mutable int num_blocks_ = 0;
};

}  // namespace kvsim::test_support
