#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/error_of_reading.h"
#include "tests/traces/full_trace.h"

namespace kvsim::traces_test::beside_attention_errors_test {

using H5::PredType;

struct Fault {
  std::string name;
  std::function<void(const H5::H5File&)> make;
  std::string error;
};

std::function<void(const H5::H5File&)> shape(const std::string& path,
                                             const std::vector<hsize_t>& sizes,
                                             const PredType& type = PredType::IEEE_F32LE) {
  return [=](const H5::H5File& file) { set_dataset(file, path, type, sizes); };
}

std::function<void(const H5::H5File&)> infinity(const std::string& path,
                                                const std::vector<hsize_t>& index) {
  return [=](const H5::H5File& file) {
    set_number(file, path, index, std::numeric_limits<float>::infinity());
  };
}

std::function<void(const H5::H5File&)> scale(double value) {
  return [=](const H5::H5File& file) {
    const H5::DataSet dataset = file.openDataSet(kGradient);
    dataset.openAttribute("scale").write(PredType::NATIVE_DOUBLE, &value);
  };
}

// A function, since HDF5's types are not there before main() where it is an archive.
std::vector<Fault> faults() {
  return {
      {"gradients without samples", shape(kGradient, {4, 5, 3}),
       kGradient + ": expected shape [any, 4, 5, 3], found [4, 5, 3]; record the layer again"},
      {"gradients of no sample", shape(kGradient, {0, 4, 5, 3}), "found [0, 4, 5, 3]"},
      {"gradients of KV heads", shape(kGradient, {1, 2, 5, 3}), "found [1, 2, 5, 3]"},
      {"gradients of integers", shape(kGradient, {1, 4, 5, 3}, PredType::STD_I16LE),
       kGradient + ": expected float16 or float32, found int16"},
      {"gradients without a scale", shape(kGradient, {1, 4, 5, 3}),
       kGradient + ": attribute scale: expected a positive number, found nothing"},
      {"gradients with a scale of 0", scale(0), "expected a positive number, found 0"},
      {"gradients without a seed",
       [](const auto& file) { file.openDataSet(kGradient).removeAttr("label_seed"); },
       kGradient + ": attribute label_seed: expected an integer of at least 0, found nothing"},
      {"a scale that makes gradients overflow", scale(1e38),
       kGradient + ": attribute scale: expected gradients that fit float32, found 1e+38"},
      {"an infinite gradient", infinity(kGradient, {1, 3, 4, 2}),
       kGradient + ": expected finite numbers, found inf at [1, 3, 4, 2]"},
      {"a projection of KV heads", shape(kProjection, {6, kHidden}),
       kProjection + ": expected shape [12, any], found [6, 6]; record the file again, or without"},
      {"an infinite projection", infinity(kProjection, {11, 5}),
       kProjection + ": expected finite numbers, found inf at [11, 5]"},
      {"sinks of other heads", shape(kLayer + "/sink_logit", {3}),
       kLayer + "/sink_logit: expected shape [4], a logit per query head, found [3]"},
      {"sinks per token", shape(kLayer + "/sink_logit", {2, 2}),
       kLayer + "/sink_logit: expected shape [4], a logit per query head, found [2, 2]"},
      {"whole sinks", shape(kLayer + "/sink_logit", {4}, PredType::STD_I32LE),
       kLayer + "/sink_logit: expected float16 or float32, found int32"},
      {"an infinite sink", infinity(kLayer + "/sink_logit", {2}),
       kLayer + "/sink_logit: expected finite numbers, found inf at [2]"},
      {"no chunk",
       [](const auto& file) {
         const int none = 0;
         file.openGroup(kLayer).openAttribute("attention_chunk").write(PredType::NATIVE_INT, &none);
       },
       kLayer + ": attribute attention_chunk: expected an integer of at least 1, found 0"},
      {"a layer of the model that it has not",
       [](const auto& file) { file.createGroup("/model/layers/2"); },
       "/model/layers/2: expected a layer number in 0..1, found \"2\""},
      {"a model that is a dataset",
       [](const auto& file) {
         file.unlink("/model");
         set_dataset(file, "/model", PredType::STD_I32LE, {1});
       },
       "/model: expected a group, found something else"},
      {"a residual stream of other tokens", shape(kLayer + "/residual", {4, kHidden}),
       kLayer + "/residual: expected shape [5, any], found [4, 6]"},
      {"a residual stream of another width",
       [](const auto& file) {
         const float number = 0;
         set_dataset(file, kLayer + "/residual", PredType::IEEE_F32LE, {kSmallTokens, 7});
         set_number(file, kLayer + "/residual", {0, 0}, number);
       },
       kLayer + "/residual: expected shape [5, 6], as wide as output_projection, found [5, 7]"},
      {"an infinite residual stream", infinity(kLayer + "/residual", {4, 5}),
       kLayer + "/residual: expected finite numbers, found inf at [4, 5]"},
      {"MLP activations of other tokens", shape(kActivation, {4, 9}),
       kActivation + ": expected shape [5, any], found [4, 9]; record the layer again"},
      {"MLP activations per head", shape(kActivation, {2, 5, 9}),
       kActivation + ": expected shape [5, any], found [2, 5, 9]"},
      {"MLP activations of no neuron", shape(kActivation, {5, 0}), "found [5, 0]"},
      {"MLP activations of integers", shape(kActivation, {5, 9}, PredType::STD_I16LE),
       kActivation + ": expected float16 or float32, found int16"},
      {"an infinite MLP activation", infinity(kActivation, {4, 8}),
       kActivation + ": expected finite numbers, found inf at [4, 8]"},
  };
}

TEST_CASE("a fault in what is recorded in addition to attention is rejected by name") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.h5";
  for (const Fault& fault : faults()) {
    INFO(fault.name);
    write_full_trace(file);
    CHECK(error_of_reading(file).empty());
    make_version_1(file);
    fault.make(edit(file));
    const std::string error = error_of_reading(file);
    CHECK_THAT(error, Catch::StartsWith(file.string() + ": /"));
    CHECK_THAT(error, Catch::Contains(fault.error));
  }
}

}  // namespace kvsim::traces_test::beside_attention_errors_test
