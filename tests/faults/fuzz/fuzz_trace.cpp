#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/faults/fuzz/checksum.h"
#include "tests/faults/inputs/inputs.h"
#include "tests/faults/inputs/trace_numbers.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace kvsim::faults {
namespace {

// Structures of HDF5 files begin with these: superblock, object headers and their continuations,
// fractal heaps, B-trees of both versions, extensible and fixed arrays, global and local heaps.
constexpr const char* kSignatures[] = {"\x89HDF", "OHDR", "OCHK", "FRHP", "FHDB", "FHIB", "BTHD",
                                       "BTLF",    "BTIN", "EAHD", "EAIB", "EASB", "EADB", "FAHD",
                                       "FADB",    "GCOL", "TREE", "SNOD", "HEAP"};
constexpr std::size_t kSignatureBytes = 4;
constexpr std::size_t kMostOfAStructure = 1024;

std::vector<std::size_t> structures_in(const std::uint8_t* data, std::size_t size) {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at + kSignatureBytes <= size; ++at) {
    for (const char* signature : kSignatures) {
      if (std::memcmp(data + at, signature, kSignatureBytes) == 0) found.push_back(at);
    }
  }
  return found;
}

std::uint32_t word_at(const std::uint8_t* data) {
  std::uint32_t word = 0;
  std::memcpy(&word, data, sizeof word);
  return word;
}

/// How many bytes from `data` on are covered by the checksum after them; 0: there is none.
std::size_t checked_bytes(const std::uint8_t* data, std::size_t size) {
  for (std::size_t bytes = kSignatureBytes; bytes + 4 <= std::min(size, kMostOfAStructure);
       ++bytes) {
    if (hdf5_checksum(data, bytes) == word_at(data + bytes)) return bytes;
  }
  return 0;
}

/// A length, an address or a few bits, at any byte.
void overwrite(std::uint8_t* data, std::size_t size, std::minstd_rand& random) {
  const std::size_t at = random() % size;
  const std::size_t left = size - at;
  std::uint64_t number = 0;
  switch (random() % 6) {
    case 0:
      data[at] ^= static_cast<std::uint8_t>(1U << (random() % 8));
      return;
    case 1:
      data[at] = static_cast<std::uint8_t>(random());
      return;
    case 2:
      number = random() % 4096;
      break;
    case 3:
      number = ~std::uint64_t{0} >> (random() % 64);
      break;
    case 4:
      number = std::uint64_t{1} << (random() % 64);
      break;
    default:
      number = 0;
  }
  std::memcpy(data + at, &number, std::min<std::size_t>(left, std::size_t{1} << (random() % 4)));
}

}  // namespace
}  // namespace kvsim::faults

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvsim::faults::check_trace({reinterpret_cast<const char*>(data), size});
  return 0;
}

/// Mostly changes a structure of the file and mends its checksum, so that the library reads on;
/// else any bytes.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  using namespace kvsim::faults;
  std::minstd_rand random(seed);
  const std::vector<std::size_t> structures = structures_in(data, size);
  if (structures.empty() || random() % 8 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::size_t begin = structures[random() % structures.size()];
  std::uint8_t* const structure = data + begin;
  const std::size_t checked = checked_bytes(structure, size - begin);
  const std::size_t bytes = checked > 0 ? checked : std::min<std::size_t>(size - begin, 128);
  const unsigned changes = 1 + random() % 3;
  for (unsigned i = 0; i < changes; ++i) overwrite(structure, bytes, random);
  if (checked > 0 && random() % 8 != 0) {
    const std::uint32_t checksum = hdf5_checksum(structure, checked);
    std::memcpy(structure + checked, &checksum, sizeof checksum);
  }
  return size;
}

/// Writes the seed into the corpus, the first folder of the command.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    if ((*argv)[i][0] == '-') continue;
    std::ofstream(std::string((*argv)[i]) + "/seed", std::ios::binary)
        << kvsim::faults::seed_trace(false);
    break;
  }
  // After hundreds of damaged files libhdf5 does not survive its own end.
  std::atexit([] { _exit(0); });
  return 0;
}
