#include "traces/trace.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "python/engine/arrays.h"
#include "python/engine/bindings.h"
#include "python/engine/model_shape.h"
#include "sim/base/errors.h"
#include "traces/guard/interrupted.h"
#include "traces/integrity/seal.h"
#include "traces/trace_writer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

using Samples = std::vector<std::vector<Matrix>>;

struct Layer {
  int index;
  std::vector<Matrix> query, key, value;
  std::optional<int> sliding_window;
  std::optional<int> attention_chunk;
  std::vector<float> sink_logit;
  std::map<Dataset, Samples> others;  // one matrix stands for one sample of one head
  std::optional<double> scale;
  std::optional<Rope> rope;
  std::optional<int> kv_from;
  std::shared_ptr<const SelectedTokens> selected;
};

/// What stands behind the heads of a layer, or in it as a whole, as a program may give it.
bool is_given(const DatasetInfo& info) {
  return info.optional && info.is_matrices() && info.id != Dataset::output;
}

const DatasetInfo& dataset_of(const std::string& name, bool (*is_meant)(const DatasetInfo&)) {
  std::string names;
  for (const DatasetInfo& info : datasets()) {
    if (!is_meant(info)) continue;
    if (info.name == name) return info;
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  }
  throw UsageError("expected one of " + names + ", found '" + name + "'");
}

std::map<Dataset, Samples> others_of(const nb::dict& given) {
  std::map<Dataset, Samples> others;
  for (const auto& [name, numbers] : given) {
    const DatasetInfo& info = dataset_of(nb::cast<std::string>(name), is_given);
    Samples& samples = others[info.id];
    if (info.is_whole()) {
      samples.push_back({matrix_of(numbers)});
    } else {
      for (const nb::handle sample : numbers) {
        samples.push_back(matrices_of(nb::cast<Heads>(sample)));
      }
    }
  }
  return others;
}

void write_other(TraceWriter& writer, int layer, Dataset dataset, const Samples& samples,
                 int label_seed) {
  const Matrix& matrix = samples.front().front();
  if (dataset == Dataset::output_projection) return writer.write_projection(layer, matrix);
  if (dataset == Dataset::output_score_grad) return writer.write_gradients(samples, label_seed);
  writer.write_rows(dataset, matrix);
}

std::vector<Span> spans_of(const std::vector<std::tuple<int, int, std::string>>& given) {
  std::vector<Span> spans;
  for (const auto& [start, end, label] : given) spans.push_back({start, end, label});
  return spans;
}

/// None: nothing.
std::vector<Matrix> heads_of(const nb::handle& given) {
  return given.is_none() ? std::vector<Matrix>() : matrices_of(nb::cast<Heads>(given));
}

/// The package has checked all shapes. `layers`: (index, query, key, value, sliding window,
/// attention chunk, sink logits, dict of other datasets by name, scale, rope, layer whose keys and
/// values it reads, selected tokens), where window, chunk and all from sinks on but the dict may be
/// None; `spans`: (start, end, label). The first layer has the shape that the header says.
Trace trace_of(const nb::dict& header, const std::string& name, int prompt_length,
               const std::vector<std::int32_t>& token_ids, const nb::list& layers,
               const std::vector<std::tuple<int, int, std::string>>& spans, int label_seed,
               bool half_precision) {
  TraceHeader written;
  written.model = nb::cast<std::string>(header["model"]);
  written.shape.scale = nb::cast<double>(header["scale"]);
  written.num_layers = nb::cast<int>(header["num_layers"]);
  written.logit_softcap = nb::cast<std::optional<double>>(header["logit_softcap"]);
  written.shape.rope = rope_of(header["rope"]);
  std::vector<Layer> given;
  for (const nb::handle layer : layers) {
    given.push_back(
        {nb::cast<int>(layer[0]), heads_of(layer[1]), heads_of(layer[2]), heads_of(layer[3]),
         nb::cast<std::optional<int>>(layer[4]), nb::cast<std::optional<int>>(layer[5]),
         nb::cast<std::optional<std::vector<float>>>(layer[6]).value_or(std::vector<float>()),
         others_of(nb::cast<nb::dict>(layer[7])), nb::cast<std::optional<double>>(layer[8]),
         rope_of(layer[9]), nb::cast<std::optional<int>>(layer[10]),
         selected_of(layer[11], fmt::format("selected: layer {}", nb::cast<int>(layer[0])))});
  }
  const Layer& first = given.front();
  written.shape.num_query_heads = static_cast<int>(first.query.size());
  written.shape.num_kv_heads = static_cast<int>(first.key.size());
  written.shape.head_dim = static_cast<int>(first.key.front().cols());
  written.shape.value_dim = static_cast<int>(first.value.front().cols());
  const int num_tokens = static_cast<int>(first.key.front().rows());

  const nb::gil_scoped_release release;
  try {
    TraceWriter writer(written, half_precision ? ElementType::float16 : ElementType::float32);
    writer.begin_sequence(name, num_tokens, prompt_length, "", token_ids);
    if (!spans.empty()) writer.write_spans(spans_of(spans));
    for (const Layer& layer : given) {
      writer.write_layer(layer.index, layer.query, layer.key, layer.value, {},
                         {.sliding_window = layer.sliding_window,
                          .attention_chunk = layer.attention_chunk,
                          .kv_from = layer.kv_from,
                          .scale = layer.scale,
                          .rope = layer.rope});
      if (!layer.sink_logit.empty()) writer.write_sink_logit(layer.sink_logit);
      if (layer.selected) writer.write_selected(*layer.selected);
      for (const auto& [dataset, samples] : layer.others) {
        write_other(writer, layer.index, dataset, samples, label_seed);
      }
    }
    return writer.open();
  } catch (const DataError&) {
    throw;
  } catch (const std::exception& error) {  // the writer takes its caller to know the numbers
    throw DataError(error.what());
  }
}

void add_shape(nb::dict& found, const LayerShape& shape) {
  for (const auto& [name, number] : shape_attributes()) found[name.c_str()] = shape.*number;
  found["scale"] = shape.scale;
  found["rope"] = dict_of(shape.rope);
}

nb::dict header_of(const Trace& trace) {
  const TraceHeader& header = trace.header();
  nb::dict found;
  found["model"] = header.model;
  found["num_layers"] = header.num_layers;
  add_shape(found, header.shape);
  found["logit_softcap"] = nb::cast(header.logit_softcap);
  found["recorder"] = header.recorder;
  found["dtype"] = header.dtype;
  return found;
}

/// Per sequence (name, tokens, prompt length, source, layers, spans), per layer (index, KV heads,
/// sliding window, attention chunk, dict from optional dataset that is recorded to its shape, dict
/// of its LayerShape, layer whose keys and values it reads), per span (start, end, label).
nb::list sequences_of(const Trace& trace) {
  nb::list sequences;
  for (const SequenceInfo& sequence : trace.sequences()) {
    nb::list layers;
    for (const LayerInfo& layer : sequence.layers) {
      nb::dict recorded;
      for (const auto& [dataset, shape] : layer.recorded) {
        recorded[std::string(info_of(dataset).name).c_str()] = nb::tuple(nb::cast(shape));
      }
      nb::dict shape;
      add_shape(shape, layer.shape);
      layers.append(nb::make_tuple(layer.index, nb::tuple(nb::cast(layer.kv_heads)),
                                   nb::cast(layer.sliding_window), nb::cast(layer.attention_chunk),
                                   recorded, shape, nb::cast(layer.kv_from)));
    }
    nb::list spans;
    for (const Span& span : sequence.spans) {
      spans.append(nb::make_tuple(span.start, span.end, span.label));
    }
    sequences.append(nb::make_tuple(sequence.name, sequence.num_tokens, sequence.prompt_length,
                                    sequence.source, nb::tuple(layers), nb::tuple(spans)));
  }
  return sequences;
}

nb::dict unit_of(const Trace& trace, const std::string& sequence, int layer, int kv_head) {
  Unit unit = [&] {
    const nb::gil_scoped_release release;
    return trace.read_unit({sequence, layer, kv_head});
  }();
  nb::dict found;
  found["prompt_length"] = unit.prompt_length;
  found["scale"] = unit.scale;
  found["logit_softcap"] = nb::cast(unit.logit_softcap);
  found["sliding_window"] = nb::cast(unit.sliding_window);
  found["attention_chunk"] = nb::cast(unit.attention_chunk);
  found["selected"] = array_or_none(unit.selected);
  found["sink_logit"] = array_or_none(std::move(unit.sink_logit));
  found["token_ids"] = array_of(std::move(unit.token_ids));
  found["token_text"] = nb::tuple(nb::cast(unit.token_text));
  found["query"] = array_of(std::move(unit.query));
  found["key"] = array_of(std::move(unit.key));
  found["value"] = array_of(std::move(unit.value));
  found["output_projection"] = array_or_none(std::move(unit.output_projection));
  found["residual_square"] = array_or_none(std::move(unit.residual_square));
  found["output_score_grad"] = array_or_none(std::move(unit.output_score_grad));
  return found;
}

/// A dataset [n, any] of a layer as a whole.
nb::object layer_rows_of(const Trace& trace, const std::string& dataset,
                         const std::string& sequence, int layer) {
  const DatasetInfo& info = dataset_of(dataset, [](const DatasetInfo& each) {
    return each.level == Level::layer && each.is_whole();
  });
  std::vector<Matrix> parts;
  {
    const nb::gil_scoped_release release;
    trace.read_rows(info.id, sequence, layer, [&](const Matrix& rows) { parts.push_back(rows); });
  }
  Eigen::Index num_rows = 0;
  for (const Matrix& part : parts) num_rows += part.rows();
  Matrix all(num_rows, parts.front().cols());
  for (Eigen::Index first = 0; const Matrix& part : parts) {
    all.middleRows(first, part.rows()) = part;
    first += part.rows();
  }
  return array_of(std::move(all));
}

/// Name, names of the axes and what it is, of each dataset that a program may give besides queries,
/// keys, values and sinks.
nb::list given_datasets() {
  nb::list found;
  for (const DatasetInfo& info : datasets()) {
    if (!is_given(info)) continue;
    nb::list axes;
    for (int axis = 0; axis < info.num_axes(); ++axis) {
      axes.append(std::string(info.axes[axis].name));
    }
    found.append(nb::make_tuple(std::string(info.name), nb::tuple(axes), std::string(info.title)));
  }
  return found;
}

/// KeyboardInterrupt, or what else Python makes of a signal. Called without the GIL.
void check_signals() {
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) nb::raise_python_error();
}

/// Seals a trace, and reads its structure: HDF5 loses errors of writing where objects are closed.
void seal_written(const std::filesystem::path& file) {
  seal_trace(file);
  try {
    const Trace written(file);
  } catch (const DataError& error) {
    throw std::runtime_error(std::string("cannot be written, for it cannot be read: ") +
                             error.what());
  }
}

}  // namespace

void bind_trace(nb::module_& module) {
  nb::class_<Trace>(module, "Trace")
      .def(
          "__init__",
          [](Trace* trace, const std::filesystem::path& file) {
            const InterruptCheck check([] { check_signals(); });
            const nb::gil_scoped_release release;
            new (trace) Trace(file);
          },
          "file"_a)
      .def("file", [](const Trace& trace) { return trace.file().string(); })
      .def("in_memory", &Trace::in_memory)
      .def("header", &header_of)
      .def("sequences", &sequences_of)
      .def(
          "id", [](const Trace& trace) { return trace.id(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("unit", &unit_of, "sequence"_a, "layer"_a, "kv_head"_a)
      .def("rows", &layer_rows_of, "dataset"_a, "sequence"_a, "layer"_a)
      .def("image", [](const Trace& trace) {
        const std::string image = trace.image();
        return nb::bytes(image.data(), image.size());
      });
  module.def("trace_of", &trace_of, "header"_a, "name"_a, "prompt_length"_a, "token_ids"_a,
             "layers"_a, "spans"_a, "label_seed"_a, "half_precision"_a);
  module.def("given_datasets", &given_datasets);
  module.def("seal_trace", &seal_written, "file"_a, nb::call_guard<nb::gil_scoped_release>());
  module.def("trace_of_image", [](const nb::bytes& image) {
    return Trace::from_image(std::string(image.c_str(), image.size()));
  });
}

}  // namespace kvsim::python
