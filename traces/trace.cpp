#include "traces/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "traces/first_reading.h"
#include "traces/guard/guard.h"
#include "traces/hdf5/hdf5_lock.h"
#include "traces/hdf5/open_hdf5.h"
#include "traces/integrity/manifest.h"
#include "traces/layer_cache.h"
#include "traces/logit_bound.h"
#include "traces/sha256.h"
#include "traces/tokens.h"
#include "traces/trace_layout.h"

namespace kvsim {
namespace {

const std::string kRecordFileAgain = "record the file again";
const std::string kCopyOrRecordAgain = "copy it again or " + kRecordFileAgain;

Place layer_place(const std::filesystem::path& file, const UnitName& name) {
  return {file.string(), fmt::format("/sequences/{}/layers/{}", name.sequence, name.layer)};
}

}  // namespace

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
      Place{path.string(), ""}.fail("a sound HDF5 file", "damage: " + error.getDetailMsg(),
                                    kCopyOrRecordAgain);
    }
  }

  /// The datasets of the unit's layer, to be read and closed without the lock.
  ClosedUnderLock<LayerData> layer_data(const SequenceInfo& sequence,
                                        const LayerInfo& layer) const {
    return with_hdf5([&] {
      return ClosedUnderLock<LayerData>(new LayerData(open_layer(*root, sequence, layer)));
    });
  }

  /// Of the layer's output projection, the rows of the unit's query heads; empty if not recorded.
  std::vector<Matrix> projection(const UnitName& name, const LayerShape& shape);

  std::filesystem::path path;
  std::optional<GroupReader> root;  ///< keeps the file open
  TraceHeader header;
  std::vector<SequenceInfo> sequences;
  LayerCache cache;
  std::string manifest;  ///< empty in version 1
  std::string id;        ///< empty: the file has not been hashed yet
  std::mutex id_mutex;
};

std::pair<const SequenceInfo*, const LayerInfo*> Trace::File::find(const std::string& name,
                                                                   int index) const {
  const Place place{path.string(), "/sequences"};
  const auto sequence = std::find_if(sequences.begin(), sequences.end(),
                                     [&](const auto& info) { return info.name == name; });
  if (sequence == sequences.end()) {
    std::vector<std::string> names;
    for (const SequenceInfo& info : sequences) names.push_back(in_quotes(info.name));
    place.fail(fmt::format("one of {}", fmt::join(names, ", ")), in_quotes(name));
  }
  const auto layer = std::find_if(sequence->layers.begin(), sequence->layers.end(),
                                  [&](const auto& info) { return info.index == index; });
  if (layer == sequence->layers.end()) {
    place.child(name).child("layers").fail(fmt::format("layer {}", index),
                                           "nothing recorded of it");
  }
  return {&*sequence, &*layer};
}

std::pair<const SequenceInfo*, const LayerInfo*> Trace::File::find(const UnitName& name) const {
  const auto [sequence, layer] = find(name.sequence, name.layer);
  if (!std::binary_search(layer->kv_heads.begin(), layer->kv_heads.end(), name.kv_head)) {
    Place{path.string(), fmt::format("/sequences/{}/layers/{}", name.sequence, name.layer)}.fail(
        fmt::format("KV head {}", name.kv_head), "nothing recorded of it");
  }
  return {sequence, layer};
}

void Trace::File::open(const GroupReader& group) {
  root = group;
  const int version = read_version(*root);
  if (version >= 2) root->refuse_variable_strings();
  header = read_header(*root);
  header.version = version;
  sequences = read_sequences(*root, header);
  if (version >= 2) manifest = check_manifest(*root);
}

void Trace::File::identify() {
  id = header.version >= 2 ? check_trace_id(*root, manifest)
                           : root->attributes().optional_text("trace_id");
}

std::vector<Matrix> Trace::File::projection(const UnitName& name, const LayerShape& shape) {
  const auto dataset = with_hdf5([&] {
    auto opened = open_projection(*root, shape, name.layer);
    return ClosedUnderLock<HeadDataset>(opened ? new HeadDataset(*opened) : nullptr);
  });
  if (!dataset) return {};
  cache.check_projection(name.layer, *dataset);
  return read_projection(*dataset, shape, name);
}

/// The vectors of one unit, whose datasets stay open.
class Trace::Rows final : public UnitRows {
 public:
  Rows(std::shared_ptr<const File> file, const UnitName& name, bool values)
      : file_(std::move(file)),
        kv_head_(name.kv_head),
        values_(values),
        layer_(*file_->find(name).second),
        bound_(layer_place(file_->path, name), layer_.shape.scale) {
    const SequenceInfo& sequence = *file_->find(name).first;
    num_tokens_ = sequence.num_tokens;
    data_ = file_->layer_data(sequence, layer_);
    at_once_ = std::max({data_->query().rows_at_once(), data_->key().rows_at_once(),
                         data_->value().rows_at_once()});
  }

  int num_tokens() const override { return num_tokens_; }

  void read(int first, UnitPart& part) override {
    const int count = std::min(at_once_, num_tokens_ - first);
    const int group_size = layer_.shape.group_size();
    part.first = first;
    part.query.resize(static_cast<std::size_t>(group_size));
    query_digests_.resize(part.query.size());
    for (int member = 0; member < group_size; ++member) {
      part.query[member] = data_->query().read_rows(kv_head_ * group_size + member, first, count,
                                                    query_digests_[member]);
    }
    part.key = data_->key().read_rows(kv_head_, first, count, key_digest_);
    if (values_) part.value = data_->value().read_rows(kv_head_, first, count, value_digest_);
    bound_.add(part.query, part.key);
  }

 private:
  std::shared_ptr<const File> file_;
  int kv_head_;
  bool values_;
  const LayerInfo& layer_;
  LogitBound bound_;
  int num_tokens_ = 0;
  int at_once_ = 0;
  ClosedUnderLock<LayerData> data_;
  std::vector<HeadDigest> query_digests_;
  HeadDigest key_digest_;
  HeadDigest value_digest_;
};

Trace::Trace(const std::filesystem::path& file) : Trace(file, GuardLimits::of(file)) {}

Trace::Trace(const std::filesystem::path& file, const GuardLimits& limits)
    : file_(std::make_shared<File>(file)) {
  const auto open = [&file](File& opened) {
    opened.with_hdf5([&] {
      opened.open(open_hdf5(file, {.kind = "a trace file",
                                   .make = "kvsim synth writes a trace to start from",
                                   .repair = kRecordFileAgain}));
    });
  };
  try_in_child(file.string(), kCopyOrRecordAgain, limits, [&] {
    File tried(file);
    open(tried);
    read_by_library(*tried.root, tried.sequences);
  });
  open(*file_);
  file_->with_hdf5([&] { file_->identify(); });
}

Trace::Trace(const std::function<GroupReader()>& open) : file_(std::make_shared<File>(kInMemory)) {
  file_->with_hdf5([&] {
    file_->open(open());
    file_->identify();
  });
}

Trace Trace::from_image(const std::string& image) {
  return Trace([&] { return open_hdf5_image(image, kInMemory); });
}

bool Trace::in_memory() const { return file_->path == kInMemory; }

void Trace::with_root(const std::function<void(const GroupReader& root)>& see) const {
  file_->with_hdf5([&] { see(*file_->root); });
}

std::string Trace::image() const {
  return file_->with_hdf5([&] { return file_->root->file_image(); });
}

const std::filesystem::path& Trace::file() const { return file_->path; }

const TraceHeader& Trace::header() const { return file_->header; }

const std::vector<SequenceInfo>& Trace::sequences() const { return file_->sequences; }

const std::string& Trace::id() const {
  const std::lock_guard lock(file_->id_mutex);
  if (file_->id.empty()) file_->id = sha256_of_file(file_->path);
  return file_->id;
}

Unit Trace::read_unit(const UnitName& name, UnitParts parts) const {
  const auto [sequence, layer] = file_->find(name);
  Unit unit;
  unit.name = name;
  unit.prompt_length = sequence->prompt_length;
  const LayerShape& shape = layer->shape;
  unit.scale = static_cast<float>(shape.scale);
  if (header().logit_softcap) unit.logit_softcap = static_cast<float>(*header().logit_softcap);
  unit.sliding_window = layer->sliding_window;
  unit.attention_chunk = layer->attention_chunk;
  unit.rope = shape.rope;
  unit.key_bytes = layer->key_bytes;
  unit.value_bytes = layer->value_bytes;
  unit.spans = sequence->spans;

  const int group_size = shape.group_size();
  unit.query.assign(static_cast<std::size_t>(group_size), Matrix(0, shape.head_dim));
  unit.key.resize(0, shape.head_dim);
  unit.value.resize(0, shape.value_dim);
  if (!parts.vectors) unit.rows = std::make_shared<Rows>(file_, name, parts.values);
  {
    const auto data = file_->layer_data(*sequence, *layer);
    for (int member = 0; member < group_size; ++member) {
      const int head = name.kv_head * group_size + member;
      if (parts.vectors) unit.query[member] = data->query().read(head);
      if (!data->sink_logit.empty()) unit.sink_logit.push_back(data->sink_logit[head]);
    }
    if (parts.vectors) {
      unit.key = data->key().read(name.kv_head);
      if (parts.values) unit.value = data->value().read(name.kv_head);
    }
    if (parts.gradients && file_->with_hdf5([&] {
          return contains_unit(*data, Dataset::output_score_grad, name.kv_head, shape);
        })) {
      unit.output_score_grad = read_gradients(*data, name.kv_head, shape);
    }
    if (parts.projection) {
      unit.output_projection = file_->projection(name, shape);
      if (const HeadDataset* const residual = data->find(Dataset::residual)) {
        unit.residual_square = file_->cache.residual_square(name.sequence, name.layer, *residual);
      }
    }
  }
  file_->with_hdf5([&, &info = *sequence] {
    const std::string& fix = file_->root->fix();
    const GroupReader group = file_->root->group("sequences", fix).group(info.name, fix);
    unit.token_ids = read_token_ids(group);
    if (parts.text) unit.token_text = read_token_text(group, info.num_tokens);
  });
  if (parts.vectors) {
    LogitBound(layer_place(file_->path, name), unit.scale).add(unit.query, unit.key);
  }
  return unit;
}

std::vector<Matrix> Trace::read_output(const UnitName& name) const {
  const auto [sequence, layer] = file_->find(name);
  const int group_size = layer->shape.group_size();
  std::vector<Matrix> output;
  const auto data = file_->layer_data(*sequence, *layer);
  const HeadDataset* const stored = data->find(Dataset::output);
  for (int member = 0; member < group_size; ++member) {
    const int head = name.kv_head * group_size + member;
    if (stored == nullptr || !file_->with_hdf5([&] { return stored->contains(head); })) {
      Place{file_->path.string(),
            fmt::format("/sequences/{}/layers/{}/output", sequence->name, name.layer)}
          .fail(fmt::format("query head {}", head), "nothing recorded of it");
    }
    output.push_back(stored->read(head));
  }
  return output;
}

void Trace::read_rows(Dataset dataset, const std::string& sequence, int layer,
                      const SeeRows& see) const {
  const DatasetInfo& declared = info_of(dataset);
  const auto [found, info] = file_->find(sequence, layer);
  const auto data = file_->layer_data(*found, *info);
  const HeadDataset* const rows = declared.is_whole() ? data->find(dataset) : nullptr;
  if (rows == nullptr) {
    Place{file_->path.string(), path_of(declared, sequence, layer)}.fail(
        std::string(declared.title), "nothing recorded of it", std::string(declared.cure));
  }
  for_each_rows(*rows, see);
}

}  // namespace kvsim
