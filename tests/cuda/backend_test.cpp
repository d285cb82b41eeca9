#include <catch2/catch.hpp>

#include "gpu/cuda/cublas.h"
#include "gpu/cuda/cuda_backend.h"
#include "gpu/cuda/cuda_device.h"
#include "gpu/device_pool.h"
#include "tests/cuda/stub/stub.h"
#include "tests/support/units.h"

namespace kvsim::cuda_test::backend_test {

using cuda_stub::Live;
using cuda_stub::live;
using cuda_stub::set_up;

TEST_CASE("cuda back-end: there is one where a device is that the program has code for") {
  set_up();
  CHECK(cuda_available());
  CHECK(make_cuda_backend()->device() == "cuda");
  set_up({.devices = 0});
  CHECK_FALSE(cuda_available());
  CHECK_THROWS_WITH(make_cuda_backend(),
                    "no CUDA device is available (no CUDA-capable device is detected); use "
                    "--device cpu");
  set_up({.has_code = false});
  CHECK_FALSE(cuda_available());
  CHECK_THROWS_WITH(make_cuda_backend(),
                    "no CUDA device is available (invalid device function); use --device cpu");
  CHECK(cudaGetLastError() == cudaSuccess);
  set_up();
  CHECK(cuda_available());
}

TEST_CASE("cuda back-end: a call that fails while it is made leaves no error for later ones") {
  set_up();
  make_cuda_backend();
  const int calls = cuda_stub::num_calls();
  REQUIRE(calls > 0);
  for (int nth = 0; nth < calls; ++nth) {
    cuda_stub::fail_call(nth, cudaErrorLaunchFailure);
    CHECK_THROWS_WITH(make_cuda_backend(), Catch::Contains("unspecified launch failure"));
    CHECK(cudaGetLastError() == cudaSuccess);
  }
}

TEST_CASE(
    "cuda back-end: without cuBLAS, or with half of it, a line names the file and the way out") {
  CHECK_THROWS_WITH(gpu::load_cublas("libcublas.so.98"),
                    Catch::Matches("libcublas.so.98 cannot be loaded \\([^\n]*libcublas.so.98[^\n]*"
                                   "\\); install cuBLAS 99, add its folder to LD_LIBRARY_PATH, or "
                                   "use --device cpu"));
  CHECK_THROWS_WITH(gpu::load_cublas("libm.so.6"), Catch::Contains("cublasCreate_v2"));
  CHECK_NOTHROW(gpu::load_cublas("libcublas.so.99"));
}

TEST_CASE("cuda back-end: the pool keeps one device and its memory, and gives all back") {
  set_up({.device_bytes = 1000});
  {
    const auto pool = gpu::DevicePool::make(gpu::make_cuda_device);
    for (int i = 0; i < 3; ++i) {
      const auto device = pool->take();
      const auto memory = device->allocate(700);
      const auto on_host = device->allocate_host(100);
    }
    CHECK(live() == Live{1, 1, 1, 1});
    const auto device = pool->take();
    const auto other = pool->take();
    CHECK(other->free_bytes() == 1000);
    CHECK_NOTHROW(other->allocate(800));  // for which the first gives its memory back
    CHECK(live() == Live{1, 1, 2, 2});
  }
  CHECK(live() == Live{});
  CHECK(cuda_stub::misuses().empty());
}

}  // namespace kvsim::cuda_test::backend_test
