#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "sim/results/local_disk/copy_folder.h"
#include "sim/results/local_disk/scratch.h"
#include "traces/output/descriptor.h"

namespace kvsim {

/// A result file that is written on a local disk and brought to its place whole: at the end, and
/// now and then before. A copy that cannot be brought there stays on the local disk. After a kill,
/// the next command with the same file and scratch folder goes on with the copy.
class LocalCopy {
 public:
  /// The copy of `target` below `scratch_folder`, with the rows that `target` has. Within a process
  /// all share one. Throws std::runtime_error if the place cannot be written or the copy not be
  /// made, and what reading `target` throws.
  static std::shared_ptr<LocalCopy> of(const std::filesystem::path& target,
                                       const std::filesystem::path& scratch_folder,
                                       const Scratch& scratch);

  /// Lets go of a copy; the last one brings the rows to their place and removes the copy, or tells
  /// where they stay.
  static void release(std::shared_ptr<LocalCopy> copy);

  ~LocalCopy();
  LocalCopy(const LocalCopy&) = delete;
  LocalCopy& operator=(const LocalCopy&) = delete;

  /// The local file.
  const std::filesystem::path& file() const { return folder_->file(); }

  /// The result file, absolute.
  const std::filesystem::path& target() const { return target_; }

  /// After a transaction: brings the rows to their place if it is time. Tells once if that fails.
  void committed();

  /// Brings the rows to their place, which is a name next to the target if another process has
  /// changed that meanwhile; tells then. Throws std::runtime_error, which names the local file, if
  /// they cannot be written there.
  void publish();

  /// publish(), but tells instead of throwing. Returns the file that has the rows.
  std::filesystem::path keep();

 private:
  LocalCopy(std::filesystem::path target, const std::filesystem::path& scratch_folder,
            const Scratch& scratch);

  void begin(const std::filesystem::path& scratch_folder);
  void take_over(const std::filesystem::path& scratch_folder);
  void copy_target();
  void bring_to_place();
  std::uint32_t change_counter() const;
  bool has_changed() const { return change_counter() != published_counter_ || !has_place_; }
  void tell(const std::string& line) const;

  std::mutex mutex_;
  std::filesystem::path target_;
  std::filesystem::path place_;  ///< the target, or a name next to it
  Scratch scratch_;
  std::unique_ptr<CopyFolder> folder_;
  std::string base_;   ///< fingerprint of the file at place_ that this copy has all rows of
  Descriptor header_;  ///< of the local file: to close one frees SQLite's locks
  std::uint32_t published_counter_ = 0;
  bool has_place_ = true;  ///< the file at place_ has the rows of published_counter_
  bool has_told_ = false;
  bool is_kept_ = false;  ///< the local file stays
  std::chrono::steady_clock::time_point next_;
};

}  // namespace kvsim
