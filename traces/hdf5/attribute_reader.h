#pragma once

#include <H5Cpp.h>

#include <limits>
#include <string>

#include "traces/hdf5/place.h"

namespace kvsim {

/// Reads the attributes of a group or a dataset, which has to outlive it. What is missing or wrong
/// raises a DataError that names the place and advises `fix`. The caller holds the Hdf5Lock.
class AttributeReader {
 public:
  /// `variable_strings`: whether strings may have a variable length.
  AttributeReader(const H5::H5Object& object, Place place, std::string fix,
                  bool variable_strings = true);

  bool has(const std::string& name) const;
  /// An integer of any width, within [lowest, highest].
  int integer(const std::string& name, int lowest,
              int highest = std::numeric_limits<int>::max()) const;
  /// A number of any type, positive and finite.
  double positive(const std::string& name) const;
  /// A string of fixed or variable length, at most 16 KiB.
  std::string text(const std::string& name) const;
  /// As text(), but empty if there is no such attribute.
  std::string optional_text(const std::string& name) const;

 private:
  H5::Attribute attribute(const std::string& name, const std::string& expected) const;

  const H5::H5Object& object_;
  Place place_;
  std::string fix_;
  bool variable_strings_;
};

}  // namespace kvsim
