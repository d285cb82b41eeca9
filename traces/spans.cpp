#include "traces/spans.h"

#include <fmt/format.h>

#include "traces/hdf5/hdf5_type.h"
#include "traces/hdf5/stored_size.h"
#include "traces/hdf5/utf8.h"
#include "traces/integrity/digest_attribute.h"
#include "traces/text_list.h"

namespace kvsim {
namespace {

// A damaged file may declare any size; memory is taken for what these allow.
constexpr hssize_t kMostSpans = 1 << 20;
constexpr std::size_t kMostLabelBytes = 1 << 10;  // of labels of fixed width

/// The dataset `name`, a list of at most kMostSpans if `length` is negative.
H5::DataSet list(const GroupReader& spans, const std::string& name, hssize_t length) {
  const H5::DataSet dataset = spans.dataset(name);
  const H5::DataSpace space = dataset.getSpace();
  const bool is_list = space.getSimpleExtentNdims() == 1;
  if (!is_list || (length >= 0 && space.getSimpleExtentNpoints() != length)) {
    spans.place().child(name).fail(
        length < 0 ? "a list" : fmt::format("shape [{}], as start has", length), shape_name(space),
        spans.fix());
  }
  if (space.getSimpleExtentNpoints() > kMostSpans) {
    spans.place().child(name).fail(fmt::format("at most {} spans", kMostSpans), shape_name(space),
                                   spans.fix());
  }
  return dataset;
}

std::vector<std::int32_t> tokens_of(const GroupReader& spans, const std::string& name,
                                    hssize_t length) {
  const H5::DataSet dataset = list(spans, name, length);
  if (!is_int32(dataset.getDataType())) {
    spans.place().child(name).fail("int32", type_name(dataset.getDataType()), spans.fix());
  }
  return read_list<std::int32_t>(dataset, spans.place().child(name), spans.fix());
}

std::vector<std::string> labels_of(const GroupReader& spans, hssize_t length) {
  if (!spans.variable_strings()) {
    check_text_list(spans, "label", static_cast<std::size_t>(length));
    return read_text_list(spans, "label", static_cast<std::size_t>(length));
  }
  const H5::DataSet dataset = list(spans, "label", length);
  if (dataset.getTypeClass() != H5T_STRING) {
    spans.place().child("label").fail("strings", type_name(dataset.getDataType()), spans.fix());
  }
  if (const std::size_t width = dataset.getDataType().getSize(); width > kMostLabelBytes) {
    spans.place().child("label").fail(fmt::format("at most {} bytes each", kMostLabelBytes),
                                      fmt::format("{}", width), spans.fix());
  }
  require_written(dataset, spans.place().child("label"), spans.fix());
  return length == 0 ? std::vector<std::string>() : read_texts(dataset);
}

void check(const Span& span, std::size_t index, int tokens, const GroupReader& spans) {
  const auto fail = [&](const char* name, const std::string& expected, const std::string& found) {
    spans.place().child(name).fail(fmt::format("{} at [{}]", expected, index), found, spans.fix());
  };
  if (span.start < 0 || span.start >= tokens) {
    fail("start", fmt::format("a token in 0..{}", tokens - 1), fmt::format("{}", span.start));
  }
  if (span.end <= span.start || span.end > tokens) {
    fail("end", fmt::format("one in {}..{}, after the span's start", span.start + 1, tokens),
         fmt::format("{}", span.end));
  }
  if (!is_utf8(span.label)) fail("label", "UTF-8", "other bytes");
}

}  // namespace

std::vector<Span> read_spans(const GroupReader& sequence, int tokens) {
  if (!sequence.contains("spans")) return {};
  const GroupReader group = sequence.group("spans", sequence.fix());
  const std::vector<std::int32_t> starts = tokens_of(group, "start", -1);
  const auto length = static_cast<hssize_t>(starts.size());
  const std::vector<std::int32_t> ends = tokens_of(group, "end", length);
  std::vector<std::string> labels = labels_of(group, length);
  std::vector<Span> spans;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    spans.push_back({starts[i], ends[i], std::move(labels[i])});
    check(spans.back(), i, tokens, group);
  }
  return spans;
}

}  // namespace kvsim
