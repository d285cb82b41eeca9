#pragma once

#include <H5Cpp.h>

#include <limits>
#include <string>
#include <vector>

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

  bool has_attribute(const std::string& name) const;
  /// An integer attribute of any width, within [lowest, highest].
  int integer(const std::string& name, int lowest,
              int highest = std::numeric_limits<int>::max()) const;
  /// A number of any type, positive and finite.
  double positive(const std::string& name) const;
  /// A string of fixed or variable length.
  std::string text(const std::string& name) const;
  /// As text(), but empty if there is no such attribute.
  std::string optional_text(const std::string& name) const;

  /// The bytes of the file that holds the group.
  std::string file_image() const;

 private:
  H5::Attribute attribute(const std::string& name, const std::string& expected) const;

  Place place_;
  H5::Group group_;
  std::string fix_;
};

}  // namespace kvsim
