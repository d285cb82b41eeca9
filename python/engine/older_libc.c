// What the archives ask of C libraries from 2.35 and 2.36 on, made of what 2.34 has: Red Hat 9 has
// that, and Ubuntu 22.04 has 2.35. Programs and modules that run elsewhere bind these names to the
// functions here, which they show to nobody.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#define OWN __attribute__((visibility("hidden")))

// The same numbers: only what is left in errno differs between the two.
__asm__(".symver hypot_of_every_libc, hypot@GLIBC_2.2.5");
double hypot_of_every_libc(double a, double b);
OWN double hypot(double a, double b) { return hypot_of_every_libc(a, b); }

// For std::random_device, where the kernel's source of random numbers is meant.
OWN uint32_t arc4random(void) {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) abort();
  return number;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
struct search {
  uintptr_t address;
  struct dl_find_object* found;
};

static int look_into(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  const struct search* search = data;
  int holds_address = 0;
  void* frames = NULL;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD) {
      holds_address |= search->address - start < part->p_memsz;
    } else if (part->p_type == PT_GNU_EH_FRAME) {
      frames = (void*)start;
    }
  }
  if (holds_address) search->found->dlfo_eh_frame = frames;
  return holds_address;
}

// For the unwinder of libgcc: the table of frames of the object that holds an address. It reads
// nothing but the table; the walk is what it did before 2.35, once for each frame of an exception.
OWN int _dl_find_object(void* address, struct dl_find_object* found) {
  *found = (struct dl_find_object){0};
  const struct search search = {(uintptr_t)address, found};
  dl_iterate_phdr(look_into, (void*)&search);
  return found->dlfo_eh_frame != NULL ? 0 : -1;
}
#endif
#endif
