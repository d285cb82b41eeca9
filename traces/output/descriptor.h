#pragma once

#include <filesystem>

namespace kvsim {

/// A descriptor of a file, closed at the end; none if the file cannot be opened, as errno says.
class Descriptor {
 public:
  Descriptor() = default;
  /// `flags` as for open(); a new file has the permissions `mode`.
  Descriptor(const std::filesystem::path& file, int flags, unsigned mode = 0644);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_ = -1;
};

}  // namespace kvsim
