#include "sim/results/unit_numbers.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "traces/guard/guard.h"
#include "traces/hdf5/hdf5_lock.h"
#include "traces/hdf5/hdf5_type.h"
#include "traces/hdf5/stored_size.h"

namespace kvsim {
namespace {

template <class T>
struct Stored;

template <>
struct Stored<std::int32_t> {
  static constexpr const char* kName = "int32";
  static bool is(const H5::DataType& type) { return is_int32(type); }
  static H5::PredType native() { return H5::PredType::NATIVE_INT32; }
};

template <>
struct Stored<float> {
  static constexpr const char* kName = "float32";
  static bool is(const H5::DataType& type) { return is_float32(type); }
  static H5::PredType native() { return H5::PredType::NATIVE_FLOAT; }
};

template <class T>
void try_numbers(const GroupReader& unit, const UnitNumbers& numbers) {
  if (!unit.contains(numbers.name)) return;
  const H5::DataSet dataset = unit.dataset(numbers.name);
  if (!Stored<T>::is(dataset.getDataType())) return;
  require_written(dataset, unit.place().child(numbers.name), numbers.kind.repair);
  std::vector<T> read(static_cast<std::size_t>(dataset.getSpace().getSimpleExtentNpoints()));
  dataset.read(read.data(), Stored<T>::native());
}

template <class T>
void try_tree(const GroupReader& group, const UnitNumbers& numbers, std::size_t level) {
  constexpr std::array kLevels = {"sequences", "layers", "kv_heads"};
  if (level == kLevels.size()) return try_numbers<T>(group, numbers);
  if (!group.contains(kLevels[level])) return;
  const GroupReader members = group.group(kLevels[level], numbers.how_to_write);
  for (const std::string& name : members.names()) {
    try_tree<T>(members.group(name, numbers.how_to_write), numbers, level + 1);
  }
}

template <class T>
void try_file(const std::filesystem::path& file, const UnitNumbers& numbers) {
  const Hdf5Lock lock;
  try {
    const GroupReader root = open_hdf5(file, numbers.kind);
    try_tree<T>(root, numbers, 0);
    if (!root.contains("budgets")) return;
    const GroupReader budgets = root.group("budgets", numbers.how_to_write);
    for (const std::string& budget : budgets.names()) {
      try_tree<T>(budgets.group(budget, numbers.how_to_write), numbers, 0);
    }
  } catch (const H5::Exception& error) {
    Place{file.string(), ""}.fail("a sound HDF5 file", "damage: " + error.getDetailMsg(),
                                  "copy it again or " + numbers.kind.repair);
  }
}

GroupReader group_of(const GroupReader& root, const UnitNumbers& numbers, const UnitName& unit) {
  const std::string& how = numbers.how_to_write;
  return sequence_of(root, numbers, unit.sequence)
      .group("layers", how)
      .group(std::to_string(unit.layer), how)
      .group("kv_heads", how)
      .group(std::to_string(unit.kv_head), how);
}

}  // namespace

template <class T>
std::unique_ptr<GroupReader> open_unit_numbers(const std::filesystem::path& file,
                                               const UnitNumbers& numbers) {
  try_in_child(file.string(), "copy it again or " + numbers.kind.repair, GuardLimits::of(file),
               [&] { try_file<T>(file, numbers); });
  const Hdf5Lock lock;
  return std::make_unique<GroupReader>(open_hdf5(file, numbers.kind));
}

template <class T>
std::vector<T> read_unit_numbers(const GroupReader& root, const UnitNumbers& numbers,
                                 const UnitName& unit, int count) {
  const GroupReader group = group_of(root, numbers, unit);
  const H5::DataSet dataset = group.dataset(numbers.name);
  const Place place = group.place().child(numbers.name);
  if (!Stored<T>::is(dataset.getDataType())) {
    place.fail(Stored<T>::kName, type_name(dataset.getDataType()), numbers.how_to_write);
  }
  const std::string expected = fmt::format("[{}]", count);
  const std::string found = shape_name(dataset.getSpace());
  if (found != expected) place.fail("shape " + expected, found, numbers.how_to_write);
  require_written(dataset, place, numbers.kind.repair);
  std::vector<T> read(static_cast<std::size_t>(count));
  try {
    dataset.read(read.data(), Stored<T>::native());
  } catch (const H5::Exception& error) {
    place.fail("numbers that can be read", error.getDetailMsg(), numbers.kind.repair);
  }
  return read;
}

GroupReader sequence_of(const GroupReader& root, const UnitNumbers& numbers,
                        const std::string& sequence) {
  return root.group("sequences", numbers.how_to_write).group(sequence, numbers.how_to_write);
}

Place place_of(const GroupReader& root, const UnitNumbers& numbers, const UnitName& unit) {
  return group_of(root, numbers, unit).place().child(numbers.name);
}

template std::unique_ptr<GroupReader> open_unit_numbers<std::int32_t>(const std::filesystem::path&,
                                                                      const UnitNumbers&);
template std::unique_ptr<GroupReader> open_unit_numbers<float>(const std::filesystem::path&,
                                                               const UnitNumbers&);
template std::vector<std::int32_t> read_unit_numbers<std::int32_t>(const GroupReader&,
                                                                   const UnitNumbers&,
                                                                   const UnitName&, int);
template std::vector<float> read_unit_numbers<float>(const GroupReader&, const UnitNumbers&,
                                                     const UnitName&, int);

}  // namespace kvsim
