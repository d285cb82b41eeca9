#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "traces/trace_writer.h"

namespace kvsim {

/// The structure that a synthetic head shows. Strengths are logits: an entry with strength s is
/// attended e^s times as much as one without (traces/README.md derives the construction).
struct SynthOptions {
  int tokens = 1024;
  int prompt_length = 0;
  int layers = 2;
  int query_heads = 4;
  int kv_heads = 2;
  int head_dim = 64;
  int value_dim = 0;  ///< 0: as head_dim
  std::uint64_t seed = 0;
  ElementType elements = ElementType::float16;
  bool output = true;        ///< also write the head outputs, computed in double precision
  int hidden = 0;            ///< width of output_projection and residual; 0: neither is written
  int gradient_samples = 0;  ///< of output_score_grad; 0: it is not written
  int mlp_width = 0;         ///< neurons of mlp_activation; 0: it is not written
  double rope_base = 0;      ///< of the rotation that `/rope` states; 0: it is not written

  int sinks = 4;                  ///< first tokens that every query attends to
  double sink_strength = 4;       ///< logit of a sink
  double local_strength = 3;      ///< logit of the newest token from the local band
  double local_decay = 0.9;       ///< correlation of neighbouring positions, in [0, 1)
  double heavy_strength = 1;      ///< scales heavy logits; 0: no heavy hitters
  double heavy_exponent = 2;      ///< P(e^logit > m) = m^-exponent, at strength 1
  double retrieval_share = 0.25;  ///< share of query heads that look back one period
  double retrieval_strength = 8;  ///< logit of the token after the previous occurrence
  int retrieval_period = 0;       ///< tokens until the text repeats; 0: tokens / 4
  double drift = 0;               ///< radians by which the heavy direction turns over the sequence
  double noise = 0.5;             ///< standard deviation of the unstructured part of a logit

  /// Mean of the learned sink logits, one per query head of every layer, which spread by 1 around
  /// it; nothing: no sinks.
  std::optional<double> sink_logit;
  int attention_chunk = 0;  ///< of all layers but every fourth, as Llama 4 has them; 0: none

  int threads = 1;  ///< KV heads that are made at once; the bytes do not depend on it
};

/// Called on the calling thread while a trace is made, with the share of it that is done. Whatever
/// it throws ends the work, and no file is left.
using SynthProgress = std::function<void(double share)>;

/// Writes one sequence, "synthetic", with that structure in every layer. The same options give the
/// same bytes. The file appears under its name when it is complete. Throws std::invalid_argument,
/// naming the option, for a value out of range.
void synthesize(const std::filesystem::path& file, const SynthOptions& options,
                const SynthProgress& progress = {});

/// An estimate of the memory that writing such a file takes, in bytes: the heads of one layer, the
/// work on one per thread, and what a layer has in addition to attention. Throws as synthesize().
std::size_t synth_memory(const SynthOptions& options);

/// The same in memory.
Trace synthesize(const SynthOptions& options, const SynthProgress& progress = {});

}  // namespace kvsim
