#include "analysis/cost/model_shapes.h"

#include <vector>

namespace kvsim {

std::span<const ModelShape> model_shapes() {
  static const std::vector<ModelShape> table{
      // OPT (arXiv 2205.01068, Table 1): 50,272 words, 2,050 learned positions, tied embeddings.
      {"opt-1.3b", 24, 32, 32, 64, 1'315'758'080},
      {"opt-6.7b", 32, 32, 32, 128, 6'658'473'984},
      {"opt-13b", 40, 40, 40, 128, 12'853'473'280},
      {"opt-30b", 48, 56, 56, 128, 29'974'540'288},
      {"opt-66b", 64, 72, 72, 128, 65'719'701'504},
      {"opt-175b", 96, 96, 96, 128, 174'604'468'224},
      // LLaMA (arXiv 2302.13971, Table 2), Llama 2 and Llama 3: embeddings not tied, no biases.
      {"llama-7b", 32, 32, 32, 128, 6'738'415'616},
      {"llama-13b", 40, 40, 40, 128, 13'015'864'320},
      {"llama-65b", 80, 64, 64, 128, 65'285'660'672},
      {"llama-2-7b", 32, 32, 32, 128, 6'738'415'616},
      {"llama-2-13b", 40, 40, 40, 128, 13'015'864'320},
      {"llama-2-70b", 80, 64, 8, 128, 68'976'648'192},
      {"llama-3-8b", 32, 32, 8, 128, 8'030'261'248},
      {"llama-3-70b", 80, 64, 8, 128, 70'553'706'496},
      {"mistral-7b", 32, 32, 8, 128, 7'241'732'096},
      // GPT-NeoX-20B (arXiv 2204.06745): 50,432 rows of embeddings, not tied.
      {"gpt-neox-20b", 44, 64, 64, 96, 20'554'567'680},
      // BLOOM (arXiv 2211.05100, Table 3): 250,880 words, tied embeddings, no positions.
      {"bloom-176b", 70, 112, 112, 128, 176'247'271'424},
  };
  return table;
}

}  // namespace kvsim
