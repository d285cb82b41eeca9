#include "tests/faults/bits/flipped.h"

#include <H5Cpp.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <fstream>
#include <span>

#include "sim/base/errors.h"
#include "tests/faults/inputs/trace_numbers.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::faults {
namespace {

/// The processor time after which a look at a changed trace counts as a hang: many times that of
/// the trace itself. A second look goes through the child of Trace(file), which has limits itself.
itimerval limit_of(double seconds) {
  constexpr double kTimes = 30;
  constexpr time_t kLeast = 1;
  return {{}, {kLeast + static_cast<time_t>(kTimes * seconds), 0}};
}
constexpr itimerval kSecondLook{{}, {60, 0}};

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Memory that children share with this process.
class SharedFlips {
 public:
  explicit SharedFlips(std::size_t count)
      : bytes_(count + 1),
        memory_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    std::fill_n(static_cast<Flip*>(memory_), count, Flip::died);
  }
  ~SharedFlips() { munmap(memory_, bytes_); }
  SharedFlips(const SharedFlips&) = delete;
  SharedFlips& operator=(const SharedFlips&) = delete;

  Flip& operator[](std::size_t i) { return static_cast<Flip*>(memory_)[i]; }

 private:
  std::size_t bytes_;
  void* memory_;
};

using Read = std::function<std::string(const std::string& image)>;

Flip read_flipped(std::string& image, std::size_t bit, const std::string& expected,
                  const Read& read) {
  const auto flip = [&] { image[bit / 8] = static_cast<char>(image[bit / 8] ^ (1 << (bit % 8))); };
  flip();
  Flip result = Flip::refused;
  try {
    result = read(image) == expected ? Flip::equal : Flip::other;
  } catch (const DataError&) {
  }
  flip();
  return result;
}

/// One child after the other reads on after the bit at which the last one died.
void read_in_children(std::string image, const std::vector<std::size_t>& bits,
                      const std::string& expected, const itimerval& limit, const Read& read,
                      SharedFlips& flips) {
  for (std::size_t next = 0; next < bits.size();) {
    const int child = fork();
    if (child == 0) {
      dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
      signal(SIGPROF, SIG_DFL);
      for (std::size_t i = next; i < bits.size(); ++i) {
        setitimer(ITIMER_PROF, &limit, nullptr);
        try {
          flips[i] = read_flipped(image, bits[i], expected, read);
        } catch (...) {
          _exit(1);
        }
      }
      _exit(0);
    }
    int state = 0;
    waitpid(child, &state, 0);
    while (next < bits.size() && flips[next] != Flip::died) ++next;
    ++next;
  }
}

void add_chunks(const H5::Group& group, std::vector<std::pair<haddr_t, hsize_t>>& chunks) {
  for (hsize_t i = 0; i < group.getNumObjs(); ++i) {
    const std::string name = group.getObjnameByIdx(i);
    if (group.childObjType(name) == H5O_TYPE_GROUP) {
      add_chunks(group.openGroup(name), chunks);
      continue;
    }
    const H5::DataSet dataset = group.openDataSet(name);
    hsize_t count = 0;
    const H5::DataSpace all = dataset.getSpace();  // HDF5 1.10.8 refuses H5S_ALL
    H5Dget_num_chunks(dataset.getId(), all.getId(), &count);
    for (hsize_t chunk = 0; chunk < count; ++chunk) {
      hsize_t offset[H5S_MAX_RANK];
      unsigned filters = 0;
      haddr_t address = 0;
      hsize_t bytes = 0;
      H5Dget_chunk_info(dataset.getId(), all.getId(), chunk, offset, &filters, &address, &bytes);
      chunks.emplace_back(address, bytes);
    }
  }
}

}  // namespace

std::vector<std::size_t> metadata_bytes(const std::string& image) {
  const traces_test::TemporaryFolder folder;
  std::ofstream(folder / "t.h5", std::ios::binary) << image;
  std::vector<std::pair<haddr_t, hsize_t>> chunks;
  add_chunks(H5::H5File((folder / "t.h5").string(), H5F_ACC_RDONLY).openGroup("/"), chunks);
  std::vector<bool> is_data(image.size());
  for (const auto& [address, bytes] : chunks) {
    std::fill_n(is_data.begin() + static_cast<std::ptrdiff_t>(address), bytes, true);
  }
  std::vector<std::size_t> metadata;
  for (std::size_t byte = 0; byte < image.size(); ++byte) {
    if (!is_data[byte]) metadata.push_back(byte);
  }
  return metadata;
}

FlipCounts flip_bits(const std::string& image, const std::vector<std::size_t>& bits) {
  const double before = processor_seconds();
  const std::string expected = numbers_of(Trace::from_image(image));
  const itimerval first_look = limit_of(processor_seconds() - before);
  SharedFlips flips(bits.size());
  read_in_children(
      image, bits, expected, first_look,
      [](const std::string& bytes) { return numbers_of(Trace::from_image(bytes)); }, flips);

  std::vector<std::size_t> deadly;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (flips[i] != Flip::died) continue;
    deadly.push_back(bits[i]);
    places.push_back(i);
  }
  const traces_test::TemporaryFolder folder;
  SharedFlips again(deadly.size());
  read_in_children(
      image, deadly, expected, kSecondLook,
      [&](const std::string& bytes) {
        std::ofstream(folder / "t.h5", std::ios::binary) << bytes;
        return numbers_of(Trace(folder / "t.h5"));
      },
      again);
  for (std::size_t i = 0; i < deadly.size(); ++i) flips[places[i]] = again[i];

  FlipCounts counts;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    switch (flips[i]) {
      case Flip::equal:
        ++counts.equal;
        break;
      case Flip::refused:
        ++counts.refused;
        break;
      case Flip::other:
        counts.other.push_back(bits[i]);
        break;
      case Flip::died:
        counts.died.push_back(bits[i]);
    }
  }
  return counts;
}

}  // namespace kvsim::faults
