// For LD_PRELOAD: counts calls of some kinds from main() on, and fails the Nth of them.
//
//   KVSIM_FAIL_CALLS   kinds, separated by commas: write, sync, rename, open, memory
//                      (malloc and the like), new (C++)
//   KVSIM_FAIL_AT      N, from 1; 0 fails none
//   KVSIM_FAIL_ON      "forever": all later calls fail, too, as on a disk that stays full
//   KVSIM_FAIL_UNDER   only files below this folder count; the end of the path is a '/'
//   KVSIM_FAIL_TALLY   a file of two int64 that is mapped: calls counted, calls failed. Processes
//                      that are forked share it
//
// A program in this process may set the first two again with kvsim_fail_calls().

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum Kind { kWrite = 1, kSync = 2, kRename = 4, kOpen = 8, kMemory = 16, kNew = 32 };

static unsigned kinds;   // that are counted now; 0 until main() begins
static int64_t fail_at;  // 0: never
static int forever;
static const char* under;
static struct { int64_t calls, failed; } * tally;

static unsigned kinds_of(const char* names) {
  unsigned found = 0;
  if (strstr(names, "write")) found |= kWrite;
  if (strstr(names, "sync")) found |= kSync;
  if (strstr(names, "rename")) found |= kRename;
  if (strstr(names, "open")) found |= kOpen;
  if (strstr(names, "memory")) found |= kMemory;
  if (strstr(names, "new")) found |= kNew;
  return found;
}

/// Counts from 0 again. Returns how many calls were counted before.
EXPORTED int64_t kvsim_fail_calls(const char* names, int64_t at) {
  if (!tally) return -1;
  const int64_t before = tally->calls;
  kinds = 0;
  tally->calls = tally->failed = 0;
  fail_at = at;
  kinds = kinds_of(names);
  return before;
}

static int is_failed(enum Kind kind) {
  if (!(kinds & kind)) return 0;
  const int64_t call = __atomic_add_fetch(&tally->calls, 1, __ATOMIC_RELAXED);
  if (fail_at == 0 || call < fail_at || (call > fail_at && !forever)) return 0;
  __atomic_add_fetch(&tally->failed, 1, __ATOMIC_RELAXED);
  return 1;
}

static int is_path_failed(enum Kind kind, const char* path) {
  if (!(kinds & kind)) return 0;
  char absolute[2 * PATH_MAX] = "";
  if (path[0] != '/') {
    if (syscall(SYS_getcwd, absolute, PATH_MAX) <= 0) return 0;
    strcat(absolute, "/");
  }
  if (strlen(path) >= PATH_MAX) return 0;
  strcat(absolute, path);
  return (!under || !strncmp(absolute, under, strlen(under))) && is_failed(kind);
}

static int is_descriptor_failed(enum Kind kind, int descriptor) {
  if (!(kinds & kind) || descriptor == STDERR_FILENO) return 0;  // errors are printed there
  char link[32] = "/proc/self/fd/";
  char path[PATH_MAX + 1] = "";
  int length = (int)strlen(link);
  char digits[12];
  int count = 0;
  do digits[count++] = (char)('0' + descriptor % 10);
  while ((descriptor /= 10) > 0);
  while (count > 0) link[length++] = digits[--count];
  link[length] = 0;
  if (readlink(link, path, PATH_MAX) <= 0) return 0;
  return is_path_failed(kind, path);
}

#define ORIGINAL(function)               \
  static __typeof__(&function) original; \
  if (!original) *(void**)&original = dlsym(RTLD_NEXT, #function)

// Files.

#define DESCRIPTOR_CALL(Result, function, kind, error, parameters, arguments) \
  EXPORTED Result function parameters {                                       \
    ORIGINAL(function);                                                       \
    if (is_descriptor_failed(kind, descriptor)) {                             \
      errno = error;                                                          \
      return -1;                                                              \
    }                                                                         \
    return original arguments;                                                \
  }

DESCRIPTOR_CALL(ssize_t, write, kWrite, ENOSPC, (int descriptor, const void* from, size_t bytes),
                (descriptor, from, bytes))
DESCRIPTOR_CALL(ssize_t, writev, kWrite, ENOSPC,
                (int descriptor, const struct iovec* from, int count), (descriptor, from, count))
DESCRIPTOR_CALL(ssize_t, pwrite, kWrite, ENOSPC,
                (int descriptor, const void* from, size_t bytes, off_t at),
                (descriptor, from, bytes, at))
DESCRIPTOR_CALL(ssize_t, pwrite64, kWrite, ENOSPC,
                (int descriptor, const void* from, size_t bytes, off64_t at),
                (descriptor, from, bytes, at))
DESCRIPTOR_CALL(int, ftruncate, kWrite, EIO, (int descriptor, off_t bytes), (descriptor, bytes))
DESCRIPTOR_CALL(int, ftruncate64, kWrite, EIO, (int descriptor, off64_t bytes), (descriptor, bytes))
DESCRIPTOR_CALL(int, fsync, kSync, EIO, (int descriptor), (descriptor))
DESCRIPTOR_CALL(int, fdatasync, kSync, EIO, (int descriptor), (descriptor))

#define RENAME_CALL(function, parameters, arguments)            \
  EXPORTED int function parameters {                            \
    ORIGINAL(function);                                         \
    if (is_path_failed(kRename, to)) return errno = EACCES, -1; \
    return original arguments;                                  \
  }

RENAME_CALL(rename, (const char* from, const char* to), (from, to))
RENAME_CALL(link, (const char* from, const char* to), (from, to))
RENAME_CALL(renameat, (int from_folder, const char* from, int to_folder, const char* to),
            (from_folder, from, to_folder, to))

#define OPEN_CALL(function, parameters, ...)                    \
  EXPORTED int function parameters {                            \
    ORIGINAL(function);                                         \
    if (is_path_failed(kOpen, path)) return errno = EMFILE, -1; \
    va_list rest;                                               \
    va_start(rest, flags);                                      \
    const mode_t mode = va_arg(rest, mode_t);                   \
    va_end(rest);                                               \
    return original(__VA_ARGS__, flags, mode);                  \
  }

OPEN_CALL(open, (const char* path, int flags, ...), path)
OPEN_CALL(open64, (const char* path, int flags, ...), path)
OPEN_CALL(openat, (int folder, const char* path, int flags, ...), folder, path)
OPEN_CALL(openat64, (int folder, const char* path, int flags, ...), folder, path)

#define STREAM_CALL(function)                                     \
  EXPORTED FILE* function(const char* path, const char* mode) {   \
    ORIGINAL(function);                                           \
    if (is_path_failed(kOpen, path)) return errno = EMFILE, NULL; \
    return original(path, mode);                                  \
  }

STREAM_CALL(fopen)
STREAM_CALL(fopen64)

EXPORTED int mkdir(const char* path, mode_t mode) {
  ORIGINAL(mkdir);
  if (is_path_failed(kOpen, path)) return errno = ENOSPC, -1;
  return original(path, mode);
}

/// For operator new, which is C++.
int kvsim_is_new_failed(void) { return is_failed(kNew); }

// Memory. dlsym() allocates, so these call glibc's own names.

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static int is_memory_failed(void) {
  if (!is_failed(kMemory)) return 0;
  errno = ENOMEM;
  return 1;
}

EXPORTED void* malloc(size_t bytes) { return is_memory_failed() ? NULL : __libc_malloc(bytes); }
EXPORTED void* calloc(size_t count, size_t bytes) {
  return is_memory_failed() ? NULL : __libc_calloc(count, bytes);
}
EXPORTED void* realloc(void* block, size_t bytes) {
  return is_memory_failed() ? NULL : __libc_realloc(block, bytes);
}
EXPORTED void* memalign(size_t alignment, size_t bytes) {
  return is_memory_failed() ? NULL : __libc_memalign(alignment, bytes);
}
EXPORTED void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
EXPORTED int posix_memalign(void** block, size_t alignment, size_t bytes) {
  void* const found = memalign(alignment, bytes);
  if (found) *block = found;
  return found ? 0 : ENOMEM;
}

// The start.

static int (*program)(int, char**, char**);

static int counted_main(int argc, char** argv, char** environment) {
  const char* const at = getenv("KVSIM_FAIL_AT");
  const char* const names = getenv("KVSIM_FAIL_CALLS");
  const char* const on = getenv("KVSIM_FAIL_ON");
  const char* const file = getenv("KVSIM_FAIL_TALLY");
  under = getenv("KVSIM_FAIL_UNDER");
  forever = on && !strcmp(on, "forever");
  const int descriptor = file ? open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (descriptor >= 0 && ftruncate(descriptor, sizeof *tally) == 0) {
    void* const mapped =
        mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped != MAP_FAILED) tally = mapped;
  }
  if (descriptor >= 0) close(descriptor);
  if (names && at) kvsim_fail_calls(names, strtoll(at, NULL, 10));
  return program(argc, argv, environment);
}

EXPORTED int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv,
                               void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
                               void* stack_end) {
  ORIGINAL(__libc_start_main);
  program = main;
  return original(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
