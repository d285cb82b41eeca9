#pragma once

// Whether sanitizers watch is known when a test runs, and not when it is compiled: the tree of the
// address sanitizer links the tests that another tree has compiled.

extern "C" {
__attribute__((weak)) void __asan_init();
__attribute__((weak)) void __tsan_init();
}

namespace kvsim::test_support {

inline bool has_address_sanitizer() { return __asan_init != nullptr; }

inline bool is_sanitized() { return has_address_sanitizer() || __tsan_init != nullptr; }

}  // namespace kvsim::test_support
