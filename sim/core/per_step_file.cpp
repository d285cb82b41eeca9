#include "sim/core/per_step_file.h"

#include <H5Cpp.h>
#include <fmt/format.h>

#include "traces/hdf5_lock.h"

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

void write_matrix(H5::Group& group, const char* name, const Matrix& matrix) {
  const hsize_t shape[] = {static_cast<hsize_t>(matrix.rows()),
                           static_cast<hsize_t>(matrix.cols())};
  group.createDataSet(name, H5::PredType::IEEE_F32LE, H5::DataSpace(2, shape))
      .write(matrix.data(), H5::PredType::NATIVE_FLOAT);
}

}  // namespace

struct PerStepFile::File {
  std::filesystem::path name;
  std::filesystem::path partial;
  std::unique_ptr<H5::H5File> file;

  /// Runs `action`, turning errors of HDF5 into ours.
  template <class Action>
  void run(Action action) {
    const Hdf5Lock lock;
    try {
      action();
    } catch (const H5::Exception& error) {
      throw std::runtime_error(
          fmt::format("{}: cannot write the file: {}", name.string(), error.getDetailMsg()));
    }
  }
};

PerStepFile::PerStepFile(const std::filesystem::path& file) : file_(std::make_unique<File>()) {
  file_->name = file;
  file_->partial = file.string() + ".partial";
  file_->run(
      [&] { file_->file = std::make_unique<H5::H5File>(file_->partial.string(), H5F_ACC_TRUNC); });
}

PerStepFile::~PerStepFile() {
  if (!file_) return;
  std::error_code ignored;
  {
    const Hdf5Lock lock;
    file_->file.reset();
  }
  std::filesystem::remove(file_->partial, ignored);
}

void PerStepFile::add(const Outcome& outcome) {
  const Result& result = outcome.result;
  const Trajectory& trajectory = outcome.trajectory;
  file_->run([&] {
    H5::LinkCreatPropList with_parents;
    with_parents.setCreateIntermediateGroup(true);
    H5::Group group(H5Gcreate2(file_->file->getId(),
                               fmt::format("/sequences/{}/layers/{}/kv_heads/{}", result.sequence,
                                           result.layer, result.kv_head)
                                   .c_str(),
                               with_parents.getId(), H5P_DEFAULT, H5P_DEFAULT));
    write_attribute(group, "policy", result.policy);
    write_attribute(group, "budget", result.budget);
    write_attribute(group, "mode", result.mode);
    const hsize_t num_tokens = trajectory.evicted_after.size();
    group.createDataSet("evicted_after", H5::PredType::STD_I32LE, H5::DataSpace(1, &num_tokens))
        .write(trajectory.evicted_after.data(), H5::PredType::NATIVE_INT32);
    write_matrix(group, "attention_recall", trajectory.attention_recall);
    write_matrix(group, "output_error", trajectory.output_error);
  });
}

void PerStepFile::close() {
  file_->run([&] { file_->file->close(); });
  std::filesystem::rename(file_->partial, file_->name);
  file_.reset();
}

}  // namespace kvsim
