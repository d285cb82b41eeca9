#include <catch2/catch.hpp>

#include "gpu/cuda/cuda_backend.h"

namespace kvsim::missing_device_test {

TEST_CASE("cuda: without a device one clear line says so") {
  if (cuda_available()) {
    WARN("skipped: there is a CUDA device");
    return;
  }
  CHECK_THROWS_WITH(make_cuda_backend(),
                    Catch::Matches(R"(no CUDA device is available \([^\n]+\); use --device cpu)"));
}

}  // namespace kvsim::missing_device_test
