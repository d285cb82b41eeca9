#include "traces/integrity/convert_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "traces/dataset_writer.h"
#include "traces/hdf5/attribute_writer.h"
#include "traces/hdf5/group_writer.h"
#include "traces/hdf5/hdf5_output.h"
#include "traces/hdf5/hdf5_type.h"
#include "traces/hdf5/utf8.h"
#include "traces/head_dataset.h"
#include "traces/integrity/digest_attribute.h"
#include "traces/integrity/format_tree.h"
#include "traces/integrity/known_groups.h"
#include "traces/integrity/manifest.h"
#include "traces/text_list.h"

namespace kvsim {
namespace {

using Report = std::function<void(std::size_t done, std::size_t total)>;

/// Whole lists and matrices without heads.
struct List {
  std::string path;
  H5::DataType type;
  std::vector<hsize_t> shape;
  std::vector<unsigned char> elements;
};

struct TextList {
  std::string path;
  std::vector<std::string> texts;
};

H5::DataType little_endian(const H5::DataSet& dataset, const Place& place, const std::string& fix) {
  H5::DataType type;
  type.copy(dataset);
  if (!is_float16(type) && !is_float32(type) && !is_float64(type) && !is_int32(type)) {
    place.fail("a list of float16, float32, float64 or int32", type_name(type), fix);
  }
  H5Tset_order(type.getId(), H5T_ORDER_LE);
  return type;
}

std::vector<hsize_t> shape_of(const H5::DataSet& dataset) {
  const H5::DataSpace space = dataset.getSpace();
  std::vector<hsize_t> shape(static_cast<std::size_t>(space.getSimpleExtentNdims()));
  space.getSimpleExtentDims(shape.data());
  return shape;
}

/// The number of strings, which version 1 has as one dataset.
std::size_t num_texts(const GroupReader& group, const std::string& name) {
  const bool has_offsets = group.contains(name + "_offsets");
  const H5::DataSpace space = group.dataset(has_offsets ? name + "_offsets" : name).getSpace();
  const auto length = static_cast<std::size_t>(space.getSimpleExtentNpoints());
  return has_offsets ? length - 1 : length;
}

TextList read_text(const GroupReader& group, const std::string& name) {
  const Place place = group.place().child(name);
  TextList list{place.path, read_text_list(group, name, num_texts(group, name))};
  for (std::size_t i = 0; i < list.texts.size(); ++i) {
    if (is_utf8(list.texts[i])) continue;
    place.fail(fmt::format("UTF-8 at [{}], which version 2 requires", i), in_quotes(list.texts[i]),
               group.fix());
  }
  return list;
}

class Conversion {
 public:
  Conversion(const Trace& trace, const std::filesystem::path& file)
      : trace_(trace), name_(file.string()), output_(file) {}

  LeftOut run(const Report& report) {
    write_groups();
    std::vector<DatasetPlace> places;
    trace_.with_root([&](const GroupReader& root) { places = list_datasets(root); });
    for (const DatasetPlace& place : places) {
      if (!place.info->is_matrices()) copy_list(place);
    }
    std::erase_if(places, [](const DatasetPlace& place) { return !place.info->is_matrices(); });
    trace_.with_root([&](const GroupReader& root) {
      for (const DatasetPlace& place : places) total_ += open(root, place).num_heads();
    });
    for (const DatasetPlace& place : places) copy_heads(place, report);
    output_.write(0, [&](H5::H5File& h5) {
      write_manifest(GroupReader({name_, "/"}, h5.openGroup("/"), "convert it again"));
    });
    LeftOut left_out;
    trace_.with_root([&](const GroupReader& root) { left_out = unknown_members(root); });
    output_.commit();
    return left_out;
  }

 private:
  static HeadDataset open(const GroupReader& root, const DatasetPlace& place) {
    return HeadDataset::of_any_size(root.at(place.group), *place.info);
  }

  void write_groups() {
    const TraceHeader& header = trace_.header();
    const std::string earlier = header.version == 1 ? trace_.id() : header.trace_id_v1;
    std::vector<KnownGroup> groups;
    trace_.with_root([&](const GroupReader& root) { groups = known_groups(root); });
    output_.write(0, [&](H5::H5File& h5) {
      for (const KnownGroup& known : groups) {
        const H5::Group group =
            known.path == "/" ? h5.openGroup("/") : create_group(h5, known.path);
        for (const auto& [name, value] : known.integers) write_attribute(group, name, value);
        for (const auto& [name, value] : known.numbers) write_attribute(group, name, value);
        for (const auto& [name, value] : known.texts) write_attribute(group, name, value);
      }
      const H5::Group root = h5.openGroup("/");
      write_attribute(root, "kvtrace_version", 2);
      if (!earlier.empty()) write_attribute(root, "trace_id_v1", earlier);
    });
  }

  void copy_list(const DatasetPlace& dataset) {
    if (dataset.info->elements == Elements::offsets) return;  // with their strings
    std::unique_ptr<TextList> text;
    std::unique_ptr<List, DeleteUnderLock> list;
    trace_.with_root([&](const GroupReader& root) {
      const GroupReader group = root.at(dataset.group);
      const Place place = group.place().child(dataset.name());
      if (dataset.info->elements == Elements::text) {
        text = std::make_unique<TextList>(read_text(group, dataset.name()));
        return;
      }
      const H5::DataSet from = group.dataset(dataset.name());
      list.reset(new List{place.path, little_endian(from, place, group.fix()), shape_of(from),
                          read_elements(from, place, group.fix())});
    });
    const std::size_t bytes = list ? list->elements.size() : 0;
    output_.write(bytes, [&](H5::H5File& h5) {
      if (text) {
        write_texts(h5, text->path, text->texts);
      } else {
        write_list(h5, list->path, list->type, list->elements.data(), list->shape);
      }
    });
  }

  void copy_heads(const DatasetPlace& dataset, const Report& report) {
    ClosedUnderLock<HeadDataset> from;
    trace_.with_root(
        [&](const GroupReader& root) { from.reset(new HeadDataset(open(root, dataset))); });
    const std::vector<hsize_t>& shape = from->shape();
    const hsize_t rows = shape[shape.size() - 2];
    std::unique_ptr<HeadWriter, DeleteUnderLock> to;
    output_.write(0, [&](H5::H5File& h5) {
      to.reset(new HeadWriter(h5, from->place().path, {shape.begin(), shape.end() - 2}, rows,
                              shape.back(), element_type(*from), rows_per_chunk(dataset)));
      copy_attributes(*from, to->dataset());
    });
    for (int head = 0; head < from->num_heads(); ++head) {
      if (is_written(*from, head)) copy_head(*from, head, static_cast<int>(rows), *to);
      if (report) report(++done_, total_);
    }
    output_.write(0, [&](H5::H5File&) { to->finish(); });
  }

  void copy_head(const HeadDataset& from, int head, int rows, HeadWriter& to) {
    HeadDigest digest;
    const int at_once = std::max(1, from.rows_at_once());
    for (int first = 0; first < rows; first += at_once) {
      const Matrix part = from.read_rows(head, first, std::min(at_once, rows - first), digest);
      const auto bytes = static_cast<std::uintmax_t>(part.size()) *
                         static_cast<std::uintmax_t>(from.element_bytes());
      output_.write(bytes, [&](H5::H5File&) { to.write(static_cast<std::size_t>(head), part); });
    }
  }

  bool is_written(const HeadDataset& from, int head) const {
    const Hdf5Lock lock;
    return from.contains(head);
  }

  static void copy_attributes(const HeadDataset& from, const H5::DataSet& to) {
    const AttributeReader attributes = from.attributes();
    if (attributes.has("scale")) write_attribute(to, "scale", attributes.positive("scale"));
    if (attributes.has("label_seed")) {
      write_attribute(to, "label_seed", attributes.integer("label_seed", 0));
    }
  }

  static ElementType element_type(const HeadDataset& from) {
    return from.element_bytes() == 2 ? ElementType::float16 : ElementType::float32;
  }

  // One head of an output projection can be read alone.
  hsize_t rows_per_chunk(const DatasetPlace& dataset) const {
    if (dataset.info->id != Dataset::output_projection) return HeadWriter::kMostRowsPerChunk;
    for (const SequenceInfo& sequence : trace_.sequences()) {
      for (const LayerInfo& layer : sequence.layers) {
        if (dataset.group == fmt::format("/model/layers/{}", layer.index)) {
          return static_cast<hsize_t>(layer.shape.value_dim);
        }
      }
    }
    return static_cast<hsize_t>(trace_.header().shape.value_dim);
  }

  const Trace& trace_;
  std::string name_;
  Hdf5Output output_;
  std::size_t done_ = 0;
  std::size_t total_ = 0;
};

}  // namespace

LeftOut convert_trace(const Trace& trace, const std::filesystem::path& file, const Report& report) {
  return Conversion(trace, file).run(report);
}

}  // namespace kvsim
