#include "sim/results/per_step_file.h"

#include <H5Cpp.h>

#include "traces/hdf5/group_writer.h"
#include "traces/hdf5/hdf5_output.h"

namespace kvsim {
namespace {

void write_attribute(H5::Group& group, const char* name, const std::string& text) {
  const H5::StrType type(H5::PredType::C_S1, std::max<std::size_t>(1, text.size()));
  group.createAttribute(name, type, H5::DataSpace()).write(type, text);
}

void write_attribute(H5::Group& group, const char* name, std::int64_t value) {
  const auto& type = H5::PredType::NATIVE_INT64;
  group.createAttribute(name, type, H5::DataSpace()).write(type, &value);
}

// The same replays give the same bytes, so datasets do not say when they were made.
H5::DSetCreatPropList without_times() {
  H5::DSetCreatPropList properties;
  H5Pset_obj_track_times(properties.getId(), false);
  return properties;
}

// Writes no dataset for an empty matrix: nothing was measured.
void write_matrix(H5::Group& group, const char* name, const Matrix& matrix) {
  if (matrix.size() == 0) return;
  const hsize_t shape[] = {static_cast<hsize_t>(matrix.rows()),
                           static_cast<hsize_t>(matrix.cols())};
  group.createDataSet(name, H5::PredType::IEEE_F32LE, H5::DataSpace(2, shape), without_times())
      .write(matrix.data(), H5::PredType::NATIVE_FLOAT);
}

}  // namespace

PerStepFile::PerStepFile(const std::filesystem::path& file)
    : output_(std::make_unique<Hdf5Output>(file)) {}

PerStepFile::~PerStepFile() = default;

void PerStepFile::add(const Result& result, const Trajectory& trajectory) {
  const auto numbers =
      trajectory.evicted_after.size() +
      static_cast<std::size_t>(trajectory.attention_recall.size() + trajectory.output_error.size() +
                               trajectory.predicted_kl.size());
  const std::size_t prices = trajectory.slot_price.size() * sizeof(double);
  output_->write(numbers * sizeof(float) + prices, [&](H5::H5File& file) {
    std::string path;
    for (const std::string& name :
         {std::string("sequences"), result.sequence, std::string("layers"),
          std::to_string(result.layer), std::string("kv_heads"), std::to_string(result.kv_head)}) {
      path += "/" + name;
      if (!file.nameExists(path)) create_group(file, path);
    }
    H5::Group group = file.openGroup(path);
    write_attribute(group, "policy", result.policy);
    write_attribute(group, "budget", result.budget);
    write_attribute(group, "mode", result.mode);
    const hsize_t num_tokens = trajectory.evicted_after.size();
    group
        .createDataSet("evicted_after", H5::PredType::STD_I32LE, H5::DataSpace(1, &num_tokens),
                       without_times())
        .write(trajectory.evicted_after.data(), H5::PredType::NATIVE_INT32);
    write_matrix(group, "attention_recall", trajectory.attention_recall);
    write_matrix(group, "output_error", trajectory.output_error);
    write_matrix(group, "predicted_kl", trajectory.predicted_kl);
    if (!trajectory.slot_price.empty()) {
      const hsize_t count = trajectory.slot_price.size();
      group
          .createDataSet("slot_price", H5::PredType::IEEE_F64LE, H5::DataSpace(1, &count),
                         without_times())
          .write(trajectory.slot_price.data(), H5::PredType::NATIVE_DOUBLE);
    }
  });
}

void PerStepFile::close() { output_->commit(); }

}  // namespace kvsim
