#include "traces/synth/random_stream.h"

#include <cmath>
#include <numbers>

namespace kvsim {
namespace {

/// SplitMix64: neighbouring inputs give unrelated outputs.
std::uint64_t mix(std::uint64_t state) {
  state += 0x9e3779b97f4a7c15;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
  state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
  return state ^ (state >> 31);
}

std::uint64_t mix(std::uint64_t seed, std::initializer_list<std::uint64_t> coordinates) {
  std::uint64_t state = mix(seed);
  for (const std::uint64_t coordinate : coordinates) state = mix(state ^ mix(coordinate));
  return state;
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::initializer_list<std::uint64_t> coordinates)
    : engine_(mix(seed, coordinates)) {}

double RandomStream::uniform() { return static_cast<double>((engine_() >> 11) + 1) * 0x1p-53; }

double RandomStream::normal() {
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

double RandomStream::exponential(double rate) { return -std::log(uniform()) / rate; }

std::uint64_t RandomStream::below(std::uint64_t n) {
  return static_cast<std::uint64_t>(std::ceil(uniform() * static_cast<double>(n))) - 1;
}

}  // namespace kvsim
