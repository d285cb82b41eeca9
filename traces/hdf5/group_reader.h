#pragma once

#include <H5Cpp.h>

#include <string>
#include <vector>

#include "traces/hdf5/attribute_reader.h"
#include "traces/hdf5/place.h"

namespace kvsim {

/// Reads one group of an HDF5 file. What is missing or wrong raises a DataError that names the
/// place and advises `fix`. Only hard links are followed, so that all comes from this file. The
/// caller holds the Hdf5Lock.
class GroupReader {
 public:
  GroupReader(Place place, const H5::Group& group, std::string fix);

  const Place& place() const { return place_; }
  const std::string& fix() const { return fix_; }

  /// The names of the group's members, sorted.
  std::vector<std::string> names() const;
  /// Throws DataError for a soft or an external link, and for a name that is a path.
  bool contains(const std::string& name) const;
  GroupReader group(const std::string& name, const std::string& fix) const;
  /// A dataset that passes check_stored_size().
  H5::DataSet dataset(const std::string& name) const;
  /// The group at an absolute path, which exists.
  GroupReader at(const std::string& path) const;

  AttributeReader attributes() const { return {group_, place_, fix_, variable_strings_}; }

  /// Whether strings may have a variable length; as soon as not, none of this group and of those
  /// opened through it may, and reading one throws DataError.
  bool variable_strings() const { return variable_strings_; }
  void refuse_variable_strings() { variable_strings_ = false; }

  const H5::Group& hdf5() const { return group_; }

  /// The bytes of the file that holds the group.
  std::string file_image() const;

 private:
  Place place_;
  H5::Group group_;
  std::string fix_;
  bool variable_strings_ = true;
};

}  // namespace kvsim
