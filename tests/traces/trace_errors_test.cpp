#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/small_trace.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/error_of_reading.h"

namespace kvsim::traces_test::trace_errors_test {

using H5::PredType;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::string kLayer = "/sequences/a/layers/0";

struct Fault {
  std::string name;
  std::function<void(const H5::H5File&)> make;
  std::string error;  ///< what follows "FILE: "
};

std::function<void(const H5::H5File&)> integer(const std::string& group, const std::string& name,
                                               std::int64_t value) {
  return [=](const H5::H5File& file) { set_integer(file.openGroup(group), name, value); };
}

std::function<void(const H5::H5File&)> real(const std::string& group, const std::string& name,
                                            double value) {
  return [=](const H5::H5File& file) { set_real(file.openGroup(group), name, value); };
}

std::function<void(const H5::H5File&)> text(const std::string& group, const std::string& name,
                                            const std::string& value) {
  return [=](const H5::H5File& file) { set_text(file.openGroup(group), name, value); };
}

std::function<void(const H5::H5File&)> no_attribute(const std::string& group,
                                                    const std::string& name) {
  return [=](const H5::H5File& file) { file.openGroup(group).removeAttr(name); };
}

std::function<void(const H5::H5File&)> nothing_at(const std::string& path) {
  return [=](const H5::H5File& file) { file.unlink(path); };
}

std::function<void(const H5::H5File&)> group_at(const std::string& path) {
  return [=](const H5::H5File& file) {
    if (file.nameExists(path)) file.unlink(path);
    file.createGroup(path);
  };
}

std::function<void(const H5::H5File&)> dataset(const std::string& path, const PredType& type,
                                               const std::vector<hsize_t>& shape) {
  return [=](const H5::H5File& file) { set_dataset(file, path, type, shape); };
}

std::function<void(const H5::H5File&)> number(const std::string& path,
                                              const std::vector<hsize_t>& index, double value) {
  return [=](const H5::H5File& file) { set_number(file, path, index, static_cast<float>(value)); };
}

void empty_attribute(const H5::H5File& file) {
  const H5::Group root = file.openGroup("/");
  root.removeAttr("scale");
  root.createAttribute("scale", PredType::NATIVE_DOUBLE, H5::DataSpace(H5S_NULL));
}

void infinite_frequency(const H5::H5File& file) {
  const double frequencies[] = {1, kInfinity};
  set_dataset(file, "/rope/inv_freq", PredType::IEEE_F64LE, {2})
      .write(frequencies, PredType::NATIVE_DOUBLE);
}

void bfloat16_key(const H5::H5File& file) {
  H5::FloatType type(PredType::IEEE_F32LE);
  type.setFields(15, 7, 8, 0, 7);
  type.setSize(2);
  set_dataset(file, kLayer + "/key", type, {2, kSmallTokens, 4});
}

// A function, since HDF5's types are not there before main() where it is an archive.
std::vector<Fault> header_faults() {
  return {
      {"no version", no_attribute("/", "kvtrace_version"),
       "/: attribute kvtrace_version: expected an integer of at least 1, found nothing"},
      {"a newer version", integer("/", "kvtrace_version", 3),
       "an integer in 1..2, found 3; use a newer kvsim, or copy the file again"},
      {"no model", no_attribute("/", "model"),
       "/: attribute model: expected a string, found nothing"},
      {"a model that is a number", integer("/", "model", 3), "expected a string, found int64"},
      {"layers that are text", text("/", "num_layers", "two"),
       "/: attribute num_layers: expected an integer of at least 1, found a string"},
      {"layers that are real", real("/", "num_layers", 2), "of at least 1, found float64"},
      {"no layers", integer("/", "num_layers", 0), "/: attribute num_layers: expected an integer"},
      {"negative query heads", integer("/", "num_query_heads", -4), "of at least 1, found -4"},
      {"no KV heads", integer("/", "num_kv_heads", 0), "attribute num_kv_heads"},
      {"heads that do not divide", integer("/", "num_kv_heads", 3),
       "/: attribute num_query_heads: expected a multiple of num_kv_heads = 3, found 4"},
      {"no head dimension", integer("/", "head_dim", 0), "/: attribute head_dim"},
      {"a huge value dimension", integer("/", "value_dim", std::int64_t{1} << 40),
       "/: attribute value_dim: expected an integer of at least 1, found 1099511627776"},
      {"zero scale", real("/", "scale", 0),
       "/: attribute scale: expected a positive number, found 0"},
      {"infinite scale", real("/", "scale", kInfinity), "a positive number, found inf"},
      {"scale that is no number", real("/", "scale", std::nan("")), "a positive number, found nan"},
      {"scale beyond single precision", real("/", "scale", 1e300),
       "a positive number, found 1e+300"},
      {"scale below single precision", real("/", "scale", 1e-300), "positive number, found 1e-300"},
      {"scale that makes logits overflow", real("/", "scale", 3e38), "whose logits fit float32"},
      {"scale that is text", text("/", "scale", "1"), "expected a positive number, found a string"},
      {"empty scale", empty_attribute, "expected a positive number, found nothing"},
      {"negative softcap", real("/", "logit_softcap", -1),
       "/: attribute logit_softcap: expected a positive number, found -1"},
      {"a recorder that is a number", integer("/", "recorder", 1), "/: attribute recorder"},
      {"a trace_id that is a number", integer("/", "trace_id", 1), "/: attribute trace_id"},
      {"an unknown rotation", text("/rope", "style", "both\n"),
       "/rope: attribute style: expected half or interleaved, found \"both\\n\""},
      {"no attention factor", no_attribute("/rope", "attention_factor"),
       "/rope: attribute attention_factor: expected a positive number, found nothing"},
      {"no frequencies", nothing_at("/rope/inv_freq"),
       "/rope/inv_freq: expected a dataset, found nothing"},
      {"too many frequencies", dataset("/rope/inv_freq", PredType::IEEE_F64LE, {3}),
       "/rope/inv_freq: expected shape [rotary_dim / 2], at most [2], found [3]"},
      {"frequencies of float32", dataset("/rope/inv_freq", PredType::IEEE_F32LE, {2}),
       "/rope/inv_freq: expected float64, found float32"},
      {"an infinite frequency", infinite_frequency,
       "/rope/inv_freq: expected finite numbers, found inf at [1]"},
  };
}

std::vector<Fault> sequence_faults() {
  return {
      {"nothing in the file", nothing_at("/sequences"),
       "/sequences: expected a group, found nothing"},
      {"no sequences", group_at("/sequences"),
       "/sequences: expected at least one sequence, found none"},
      {"a sequence that is a dataset", dataset("/sequences/b", PredType::NATIVE_INT, {1}),
       "/sequences/b: expected a group, found something else"},
      {"no length", no_attribute("/sequences/a", "num_tokens"),
       "/sequences/a: attribute num_tokens: expected an integer of at least 1, found nothing; "
       "record the sequence again"},
      {"no tokens", integer("/sequences/a", "num_tokens", 0), "of at least 1, found 0"},
      {"a prompt longer than the text", integer("/sequences/a", "prompt_length", 6),
       "/sequences/a: attribute prompt_length: expected an integer in 0..5, found 6"},
      {"a negative prompt", integer("/sequences/a", "prompt_length", -1), "in 0..5, found -1"},
      {"too few token ids", dataset("/sequences/a/token_ids", PredType::STD_I32LE, {4}),
       "/sequences/a/token_ids: expected shape [5], found [4]"},
      {"token ids of int64", dataset("/sequences/a/token_ids", PredType::STD_I64LE, {5}),
       "/sequences/a/token_ids: expected int32, found int64"},
      {"token text of numbers", dataset("/sequences/a/token_text", PredType::STD_U8LE, {5}),
       "/sequences/a/token_text: expected strings, found uint8"},
      {"no layers", nothing_at("/sequences/a/layers"),
       "/sequences/a/layers: expected a group, found nothing"},
      {"a layer too many", group_at("/sequences/a/layers/2"),
       "/sequences/a/layers/2: expected a layer number in 0..1, found \"2\""},
      {"a layer with a name", group_at("/sequences/a/layers/first"), "in 0..1, found \"first\""},
      {"a layer with a leading zero", group_at("/sequences/a/layers/01"), "in 0..1, found \"01\""},
  };
}

std::vector<Fault> layer_faults() {
  return {
      {"no window", integer(kLayer, "sliding_window", 0),
       kLayer + ": attribute sliding_window: expected an integer of at least 1, found 0"},
      {"no query", nothing_at(kLayer + "/query"),
       kLayer + "/query: expected a dataset, found nothing; record the layer again"},
      {"no key", nothing_at(kLayer + "/key"), kLayer + "/key: expected a dataset, found nothing"},
      {"no value", nothing_at(kLayer + "/value"), kLayer + "/value: expected a dataset"},
      {"a key that is a group", group_at(kLayer + "/key"),
       kLayer + "/key: expected a dataset, found something else"},
      {"a short key", dataset(kLayer + "/key", PredType::IEEE_F32LE, {2, 4, 4}),
       kLayer + "/key: expected shape [2, 5, 4], found [2, 4, 4]; record the layer again"},
      {"a flat key", dataset(kLayer + "/key", PredType::IEEE_F32LE, {2, 20}), "found [2, 20]"},
      {"an empty value", dataset(kLayer + "/value", PredType::IEEE_F32LE, {2, 5, 0}),
       kLayer + "/value: expected shape [2, 5, 3], found [2, 5, 0]"},
      {"output of KV heads", dataset(kLayer + "/output", PredType::IEEE_F32LE, {2, 5, 3}),
       kLayer + "/output: expected shape [4, 5, 3], found [2, 5, 3]"},
      {"query of float64", dataset(kLayer + "/query", PredType::IEEE_F64LE, {4, 5, 4}),
       kLayer + "/query: expected float16 or float32, found float64"},
      {"query of integers", dataset(kLayer + "/query", PredType::STD_I16LE, {4, 5, 4}),
       "expected float16 or float32, found int16"},
      {"key of bfloat16", bfloat16_key, "float32, found a 16-bit float that is not IEEE"},
      {"infinite query", number(kLayer + "/query", {3, 4, 2}, kInfinity),
       kLayer + "/query: expected finite numbers, found inf at [3, 4, 2]; record the layer again"},
      {"key that is no number", number(kLayer + "/key", {1, 0, 3}, std::nan("")),
       kLayer + "/key: expected finite numbers, found nan at [1, 0, 3]"},
      {"infinite value", number(kLayer + "/value", {0, 2, 0}, -kInfinity),
       "found -inf at [0, 2, 0]"},
      {"infinite output", number(kLayer + "/output", {2, 1, 1}, kInfinity),
       kLayer + "/output: expected finite numbers, found inf at [2, 1, 1]"},
  };
}

void check_faults(const std::vector<Fault>& faults) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.h5";
  for (const Fault& fault : faults) {
    INFO(fault.name);
    write_small_trace(file, small_header());
    CHECK(error_of_reading(file).empty());
    const std::filesystem::path newer = folder / "2.h5";
    std::filesystem::copy_file(file, newer, std::filesystem::copy_options::overwrite_existing);
    fault.make(edit(newer));
    CHECK_FALSE(error_of_reading(newer).empty());  // of the digests, where it has the right form

    make_version_1(file);
    fault.make(edit(file));
    const std::string error = error_of_reading(file);
    CHECK_THAT(error, Catch::StartsWith(file.string() + ": /"));
    CHECK_THAT(error, Catch::Contains(fault.error));
    CHECK(error.find('\n') == std::string::npos);
  }
}

TEST_CASE("a fault in the header is rejected by name") { check_faults(header_faults()); }

TEST_CASE("a fault in a sequence is rejected by name") { check_faults(sequence_faults()); }

TEST_CASE("a fault in a layer is rejected by name") { check_faults(layer_faults()); }

}  // namespace kvsim::traces_test::trace_errors_test
