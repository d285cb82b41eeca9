#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "traces/hdf5/hdf5_lock.h"
#include "traces/layer_cache.h"
#include "traces/logit_bound.h"
#include "traces/trace.h"
#include "traces/trace_layout.h"

namespace kvsim {

inline Place layer_place(const std::filesystem::path& file, const UnitName& name) {
  return {file.string(), "/sequences/" + name.sequence + "/layers/" + std::to_string(name.layer)};
}

/// What an open trace knows and keeps. For the files of Trace alone.
struct Trace::File {
  explicit File(const std::filesystem::path& file) : path(file) {}

  ~File() {
    const Hdf5Lock lock;
    root.reset();
  }

  /// Reads all but the recorded numbers. The caller holds the lock.
  void open(const GroupReader& group);

  /// Finds the id, after open(). Apart from it because it takes locks of OpenSSL, which a child
  /// process must not. The caller holds the lock.
  void identify();

  /// The sequence and its layer. Throws DataError if they are not recorded.
  std::pair<const SequenceInfo*, const LayerInfo*> find(const std::string& name, int index) const;
  /// The same of a unit, whose KV head has to be recorded, too.
  std::pair<const SequenceInfo*, const LayerInfo*> find(const UnitName& name) const;

  /// Runs `read` under the HDF5 lock and turns exceptions of the library into DataError.
  template <class Read>
  auto with_hdf5(const Read& read) const {
    const Hdf5Lock lock;
    try {
      return read();
    } catch (const H5::Exception& error) {
      fail_of_damage(error);
    }
  }

  /// The datasets of the unit's layer, to be read and closed without the lock.
  ClosedUnderLock<LayerData> layer_data(const SequenceInfo& sequence,
                                        const LayerInfo& layer) const {
    return with_hdf5([&] {
      return ClosedUnderLock<LayerData>(new LayerData(open_layer(*root, sequence, layer)));
    });
  }

  [[noreturn]] void fail_of_damage(const H5::Exception& error) const;

  /// The layers whose queries are those of a unit of `layer`: itself, and those that read its
  /// cache.
  std::vector<const LayerInfo*> reading(const SequenceInfo& sequence, const LayerInfo& layer) const;

  /// Of the layer's output projection, the rows of the unit's query heads; empty if not recorded.
  std::vector<Matrix> projection(const UnitName& name, const LayerShape& shape);

  /// What the steps of a layer select; null: they see all tokens.
  std::shared_ptr<const SelectedTokens> selection(const SequenceInfo& sequence,
                                                  const LayerInfo& layer);

  std::filesystem::path path;
  std::optional<GroupReader> root;  ///< keeps the file open
  TraceHeader header;
  std::vector<SequenceInfo> sequences;
  LayerCache cache;
  std::string manifest;  ///< empty in version 1
  std::string id;        ///< empty: the file has not been hashed yet
  std::mutex id_mutex;
};

/// The vectors of one unit, whose datasets stay open.
class Trace::Rows final : public UnitRows {
 public:
  Rows(std::shared_ptr<const File> file, const UnitName& name, bool values);

  int num_tokens() const override { return num_tokens_; }
  void read(int first, UnitPart& part) override;

 private:
  struct Group {  // the query heads of one layer
    ClosedUnderLock<LayerData> data;
    int first_head = 0;
    std::vector<HeadDigest> digests;
  };

  std::shared_ptr<const File> file_;
  int kv_head_;
  bool values_;
  LogitBound bound_;
  int num_tokens_ = 0;
  int at_once_ = 0;
  std::vector<Group> groups_;  // the first is of the layer that has the keys and values
  HeadDigest key_digest_;
  HeadDigest value_digest_;
};

}  // namespace kvsim
