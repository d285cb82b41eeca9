#include "traces/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "traces/hdf5/hdf5_lock.h"
#include "traces/hdf5/open_hdf5.h"
#include "traces/sha256.h"
#include "traces/tokens.h"
#include "traces/trace_layout.h"

namespace kvsim {
namespace {

const std::string kRecordFileAgain = "record the file again";

/// Throws DataError unless every logit fits a float. A logit is at most the product of the lengths
/// of its vectors.
void check_logits_fit(const Unit& unit, const Place& layer) {
  const auto longest = [](const Matrix& matrix) {
    return matrix.cast<double>().rowwise().norm().maxCoeff();
  };
  double query = 0;
  for (const Matrix& head : unit.query) query = std::max(query, longest(head));
  const double bound = query * longest(unit.key) * std::max(1.0F, unit.scale);
  if (bound > std::numeric_limits<float>::max()) {
    layer.fail("queries and keys whose logits fit float32", fmt::format("up to {:.1g}", bound),
               "check the recorder's scale");
  }
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

  /// The sequence and the layer of a unit. Throws DataError if the unit is not recorded.
  std::pair<const SequenceInfo*, const LayerInfo*> find(const UnitName& name) const;

  /// Runs `read` under the HDF5 lock and turns exceptions of the library into DataError.
  template <class Read>
  auto with_hdf5(const Read& read) const {
    const Hdf5Lock lock;
    try {
      return read();
    } catch (const H5::Exception& error) {
      Place{path.string(), ""}.fail("a sound HDF5 file", "damage: " + error.getDetailMsg(),
                                    "copy it again or " + kRecordFileAgain);
    }
  }

  std::filesystem::path path;
  std::optional<GroupReader> root;  ///< keeps the file open
  TraceHeader header;
  std::vector<SequenceInfo> sequences;
  std::string id;  ///< empty: the file has not been hashed yet
  std::mutex id_mutex;
};

std::pair<const SequenceInfo*, const LayerInfo*> Trace::File::find(const UnitName& name) const {
  Place place{path.string(), "/sequences"};
  const auto sequence = std::find_if(sequences.begin(), sequences.end(),
                                     [&](const auto& info) { return info.name == name.sequence; });
  if (sequence == sequences.end()) {
    std::vector<std::string> names;
    for (const SequenceInfo& info : sequences) names.push_back(in_quotes(info.name));
    place.fail(fmt::format("one of {}", fmt::join(names, ", ")), in_quotes(name.sequence));
  }
  place = place.child(sequence->name).child("layers");
  const auto layer = std::find_if(sequence->layers.begin(), sequence->layers.end(),
                                  [&](const auto& info) { return info.index == name.layer; });
  if (layer == sequence->layers.end()) {
    place.fail(fmt::format("layer {}", name.layer), "nothing recorded of it");
  }
  if (!std::binary_search(layer->kv_heads.begin(), layer->kv_heads.end(), name.kv_head)) {
    place.child(fmt::format("{}", name.layer))
        .fail(fmt::format("KV head {}", name.kv_head), "nothing recorded of it");
  }
  return {&*sequence, &*layer};
}

void Trace::File::open(const GroupReader& group) {
  root = group;
  header = read_header(*root);
  sequences = read_sequences(*root, header);
  id = root->optional_text("trace_id");
}

Trace::Trace(const std::filesystem::path& file) : file_(std::make_shared<File>(file)) {
  file_->with_hdf5([&] {
    file_->open(open_hdf5(file, {.kind = "a trace file",
                                 .make = "kvsim synth writes a trace to start from",
                                 .repair = kRecordFileAgain}));
  });
}

Trace::Trace(const std::function<GroupReader()>& open) : file_(std::make_shared<File>(kInMemory)) {
  file_->with_hdf5([&] { file_->open(open()); });
}

Trace Trace::from_image(const std::string& image) {
  return Trace([&] { return open_hdf5_image(image, kInMemory); });
}

bool Trace::in_memory() const { return file_->path == kInMemory; }

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
  unit.scale = static_cast<float>(header().scale);
  if (header().logit_softcap) unit.logit_softcap = static_cast<float>(*header().logit_softcap);
  unit.sliding_window = layer->sliding_window;
  unit.rope = header().rope;
  unit.key_bytes = layer->key_bytes;
  unit.value_bytes = layer->value_bytes;

  const int group_size = header().group_size();
  file_->with_hdf5([&, &info = *sequence] {
    const LayerData data = open_layer(*file_->root, header(), info, name.layer);
    for (int member = 0; member < group_size; ++member) {
      unit.query.push_back(data.query.read(name.kv_head * group_size + member));
    }
    unit.key = data.key.read(name.kv_head);
    if (parts.values) {
      unit.value = data.value.read(name.kv_head);
    } else {
      unit.value.resize(0, header().value_dim);
    }
    const std::string& fix = file_->root->fix();
    const GroupReader group = file_->root->group("sequences", fix).group(info.name, fix);
    unit.token_ids = read_token_ids(group);
    if (parts.text) unit.token_text = read_token_text(group);
  });
  check_logits_fit(unit, {file_->path.string(),
                          fmt::format("/sequences/{}/layers/{}", name.sequence, name.layer)});
  return unit;
}

std::vector<Matrix> Trace::read_output(const UnitName& name) const {
  const SequenceInfo& sequence = *file_->find(name).first;
  const int group_size = header().group_size();
  std::vector<Matrix> output;
  file_->with_hdf5([&] {
    const LayerData data = open_layer(*file_->root, header(), sequence, name.layer);
    for (int member = 0; member < group_size; ++member) {
      const int head = name.kv_head * group_size + member;
      if (!data.output || !data.output->contains(head)) {
        Place{file_->path.string(),
              fmt::format("/sequences/{}/layers/{}/output", sequence.name, name.layer)}
            .fail(fmt::format("query head {}", head), "nothing recorded of it");
      }
      output.push_back(data.output->read(head));
    }
  });
  return output;
}

}  // namespace kvsim
