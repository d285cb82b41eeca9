#pragma once

#include <H5Cpp.h>

#include <string>
#include <vector>

#include "traces/hdf5/attribute_reader.h"
#include "traces/hdf5/place.h"

namespace kvsim {

/// Reads one group of an HDF5 file. What is missing or wrong raises a DataError that names the
/// place and advises `fix`. The caller holds the Hdf5Lock.
class GroupReader {
 public:
  GroupReader(Place place, const H5::Group& group, std::string fix);

  const Place& place() const { return place_; }
  const std::string& fix() const { return fix_; }

  /// The names of the group's members, sorted.
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const;
  GroupReader group(const std::string& name, const std::string& fix) const;
  H5::DataSet dataset(const std::string& name) const;

  AttributeReader attributes() const { return {group_, place_, fix_}; }

  /// The bytes of the file that holds the group.
  std::string file_image() const;

 private:
  Place place_;
  H5::Group group_;
  std::string fix_;
};

}  // namespace kvsim
