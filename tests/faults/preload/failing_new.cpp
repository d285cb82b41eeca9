#include <cstddef>
#include <new>

// The part of failing_calls.c that is C++. The arrays of the standard library come here, too.

extern "C" int kvsim_is_new_failed();
extern "C" void* __libc_memalign(std::size_t, std::size_t);

namespace {

// As the standard library's own: a handler, where there is one, may throw.
[[noreturn]] void throw_no_memory() {
  if (const std::new_handler handler = std::get_new_handler()) handler();
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* const block =
      kvsim_is_new_failed() != 0 ? nullptr : __libc_memalign(alignof(std::max_align_t), bytes);
  if (block == nullptr) throw_no_memory();
  return block;
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  void* const block =
      kvsim_is_new_failed() != 0 ? nullptr : __libc_memalign(std::size_t(alignment), bytes);
  if (block == nullptr) throw_no_memory();
  return block;
}
