#include "traces/output/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace kvsim {

Descriptor::Descriptor(const std::filesystem::path& file, int flags, unsigned mode)
    : number_(open(file.c_str(), flags | O_CLOEXEC, mode)) {}

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

}  // namespace kvsim
