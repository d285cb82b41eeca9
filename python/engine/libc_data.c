// Archives are compiled for programs, which may address the variables of the C library directly. A
// module may not: here are variables of these names that only it sees.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#undef stdout
#undef stderr
#define OWN __attribute__((visibility("hidden")))

OWN FILE* stdout;
OWN FILE* stderr;
OWN char __libc_single_threaded = 0;  // never sure of it, which is always right

__attribute__((constructor)) static void take_streams(void) {
  stdout = *(FILE**)dlsym(RTLD_DEFAULT, "stdout");
  stderr = *(FILE**)dlsym(RTLD_DEFAULT, "stderr");
}
