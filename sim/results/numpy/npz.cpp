#include "sim/results/numpy/npz.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "sim/base/printable.h"
#include "sim/results/numpy/file_bytes.h"

namespace kvsim {
namespace {

// Sizes of the fixed parts of a zip file, and the signatures that they begin with.
constexpr std::size_t kZipEndSize = 22;
constexpr std::size_t kZipMostComment = 65535;
constexpr std::size_t kZipMemberSize = 46;
constexpr std::size_t kZipLocalSize = 30;
constexpr std::uint32_t kZipEnd = 0x06054b50;
constexpr std::uint32_t kZipMember = 0x02014b50;
constexpr std::uint32_t kZipLocal = 0x04034b50;

constexpr std::uint32_t kZipStored = 0;
constexpr std::uint32_t kZipDeflated = 8;
constexpr std::uint32_t kZipEncrypted = 1;  // a flag

const std::string kHowToSaveAll = "write it with numpy.savez(PATH, ...)";

/// The bytes of a zip file. Every read is checked.
class ZipBytes {
 public:
  ZipBytes(const std::string& file, std::string_view bytes) : file_(file), bytes_(bytes) {}

  std::size_t size() const { return bytes_.size(); }

  std::string_view part(std::size_t at, std::size_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) refuse("a part of one");
    return bytes_.substr(at, count);
  }

  /// A little-endian number of `count` bytes.
  std::uint32_t number(std::size_t at, std::size_t count) const {
    const std::string_view digits = part(at, count);
    std::uint32_t number = 0;
    for (std::size_t i = count; i-- > 0;) {
      number = (number << 8U) | static_cast<unsigned char>(digits[i]);
    }
    return number;
  }

  [[noreturn]] void refuse(const std::string& found) const {
    refuse_file(file_, "a whole .npz file", found, kHowToSaveAll);
  }

 private:
  const std::string& file_;
  std::string_view bytes_;
};

struct ZipMember {
  std::string name;
  std::uint32_t method = 0;
  std::uint32_t checksum = 0;
  std::size_t stored_size = 0;
  std::size_t size = 0;
  std::size_t local = 0;  // where its local header is
};

/// Where the record is that ends a zip file: at its end, before a comment.
std::size_t end_of(const ZipBytes& bytes) {
  if (bytes.size() < kZipEndSize) bytes.refuse("something else");
  const std::size_t last = bytes.size() - kZipEndSize;
  const std::size_t first = last - std::min(last, kZipMostComment);
  for (std::size_t at = last + 1; at-- > first;) {
    if (bytes.number(at, 4) == kZipEnd &&
        at + kZipEndSize + bytes.number(at + 20, 2) == bytes.size()) {
      return at;
    }
  }
  bytes.refuse("something else");
}

ZipMember member_at(const ZipBytes& bytes, std::size_t& at) {
  if (bytes.number(at, 4) != kZipMember) bytes.refuse("a list of members that is damaged");
  const std::size_t name = bytes.number(at + 28, 2);
  const std::size_t extra = bytes.number(at + 30, 2);
  const std::size_t comment = bytes.number(at + 32, 2);
  ZipMember member{.name = std::string(bytes.part(at + kZipMemberSize, name)),
                   .method = bytes.number(at + 10, 2),
                   .checksum = bytes.number(at + 16, 4),
                   .stored_size = bytes.number(at + 20, 4),
                   .size = bytes.number(at + 24, 4),
                   .local = bytes.number(at + 42, 4)};
  if ((bytes.number(at + 8, 2) & kZipEncrypted) != 0) bytes.refuse("members that are encrypted");
  at += kZipMemberSize + name + extra + comment;
  return member;
}

std::string inflated(const ZipBytes& bytes, const ZipMember& member, std::string_view stored) {
  std::string all(member.size, '\0');
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> inflater(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (!inflater) throw std::bad_alloc();
  // Without a place for the size it fails unless all bytes are there.
  const auto outcome = libdeflate_deflate_decompress(inflater.get(), stored.data(), stored.size(),
                                                     all.data(), all.size(), nullptr);
  if (outcome != LIBDEFLATE_SUCCESS) {
    bytes.refuse(fmt::format("a member '{}' that is damaged", printable(member.name)));
  }
  return all;
}

std::string contents_of(const ZipBytes& bytes, const ZipMember& member) {
  const std::string name = printable(member.name);
  if (bytes.number(member.local, 4) != kZipLocal) {
    bytes.refuse(fmt::format("no member '{}' where its list says", name));
  }
  const std::size_t begin = member.local + kZipLocalSize + bytes.number(member.local + 26, 2) +
                            bytes.number(member.local + 28, 2);
  const std::string_view stored = bytes.part(begin, member.stored_size);
  if (member.method != kZipStored && member.method != kZipDeflated) {
    bytes.refuse(fmt::format("a member '{}' compressed by method {}", name, member.method));
  }
  if (member.method == kZipStored && member.size != member.stored_size) {
    bytes.refuse(fmt::format("a member '{}' of two sizes", name));
  }
  std::string all =
      member.method == kZipStored ? std::string(stored) : inflated(bytes, member, stored);
  if (libdeflate_crc32(0, all.data(), all.size()) != member.checksum) {
    bytes.refuse(fmt::format("a member '{}' whose checksum is another", name));
  }
  return all;
}

}  // namespace

std::map<std::string, std::string> read_npz(const std::string& file, std::string_view bytes) {
  constexpr std::string_view kSuffix = ".npy";
  const ZipBytes zip(file, bytes);
  const std::size_t end = end_of(zip);
  const std::uint32_t count = zip.number(end + 10, 2);
  std::size_t at = zip.number(end + 16, 4);
  std::size_t total = 0;
  std::map<std::string, std::string> members;
  for (std::uint32_t i = 0; i < count; ++i) {
    const ZipMember member = member_at(zip, at);
    total += member.size;
    if (total > kMostFileBytes) {
      refuse_file(file, "at most 64 MiB in all members", fmt::format("{} bytes or more", total),
                  kHowToSaveAll);
    }
    if (!member.name.ends_with(kSuffix)) {
      refuse_file(file, "members that are .npy files", fmt::format("'{}'", printable(member.name)),
                  kHowToSaveAll);
    }
    const std::string name = member.name.substr(0, member.name.size() - kSuffix.size());
    if (!members.emplace(name, contents_of(zip, member)).second) {
      zip.refuse(fmt::format("two members '{}'", printable(member.name)));
    }
  }
  return members;
}

}  // namespace kvsim
