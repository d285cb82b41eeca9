#include <cstddef>
#include <new>

// The part of failing_calls.c that is C++. The arrays of the standard library come here, too.

extern "C" int kvsim_is_new_failed();
extern "C" void* __libc_memalign(std::size_t, std::size_t);

void* operator new(std::size_t bytes) {
  void* const block =
      kvsim_is_new_failed() != 0 ? nullptr : __libc_memalign(alignof(std::max_align_t), bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  void* const block =
      kvsim_is_new_failed() != 0 ? nullptr : __libc_memalign(std::size_t(alignment), bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
