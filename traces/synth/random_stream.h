#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>

namespace kvsim {

/// Random numbers that depend on the seed and the coordinates alone. The transforms are written
/// out because the distributions of the standard library differ from one library to the next.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::initializer_list<std::uint64_t> coordinates);

  double uniform();                      ///< in (0, 1]
  double normal();                       ///< mean 0, variance 1
  double exponential(double rate);       ///< mean 1 / rate
  std::uint64_t below(std::uint64_t n);  ///< in 0 .. n-1

 private:
  std::mt19937_64 engine_;
};

}  // namespace kvsim
