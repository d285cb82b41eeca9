#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "oracle/oracles.h"

int main(int argc, char** argv) {
  kvsim::add_oracles();
  return Catch::Session().run(argc, argv);
}
