#include "gpu/cuda/cublas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace kvsim::gpu {
namespace {

// cublas_v2.h gives some functions the names of their second versions.
#define KVSIM_TEXT(name) #name
#define KVSIM_SYMBOL(name) KVSIM_TEXT(name)

[[noreturn]] void fail(const std::string& library) {
  const char* reason = dlerror();
  throw std::runtime_error(
      fmt::format("{} cannot be loaded ({}); install cuBLAS {}, add its folder to LD_LIBRARY_PATH, "
                  "or use --device cpu",
                  library, reason == nullptr ? "unknown reason" : reason, CUBLAS_VER_MAJOR));
}

template <class Function>
void find(void* library, const std::string& file, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) fail(file);
}

}  // namespace

Cublas load_cublas(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(file);
  Cublas found{};
  find(library, file, KVSIM_SYMBOL(cublasCreate), found.create);
  find(library, file, KVSIM_SYMBOL(cublasDestroy), found.destroy);
  find(library, file, KVSIM_SYMBOL(cublasSetStream), found.set_stream);
  find(library, file, KVSIM_SYMBOL(cublasSetMathMode), found.set_math_mode);
  find(library, file, KVSIM_SYMBOL(cublasSgemmStridedBatched), found.sgemm_strided_batched);
  find(library, file, KVSIM_SYMBOL(cublasGemmStridedBatchedEx_64), found.gemm_strided_batched_ex);
  find(library, file, KVSIM_SYMBOL(cublasGetStatusString), found.status_string);
  return found;
}

const Cublas& cublas() {
  static const Cublas loaded = load_cublas(fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR));
  return loaded;
}

}  // namespace kvsim::gpu
