#include "traces/hdf5/group_reader.h"

#include <algorithm>

namespace kvsim {
GroupReader::GroupReader(Place place, const H5::Group& group, std::string fix)
    : place_(std::move(place)), group_(group), fix_(std::move(fix)) {}

std::string GroupReader::file_image() const {
  const hid_t file = H5Iget_file_id(group_.getId());
  H5Fflush(file, H5F_SCOPE_GLOBAL);
  const ssize_t size = H5Fget_file_image(file, nullptr, 0);
  std::string image(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  const ssize_t copied = H5Fget_file_image(file, image.data(), image.size());
  H5Fclose(file);
  if (size <= 0 || copied != size) place_.fail("a file that can be copied", "one that cannot");
  return image;
}

std::vector<std::string> GroupReader::names() const {
  std::vector<std::string> names;
  for (hsize_t index = 0; index < group_.getNumObjs(); ++index) {
    names.push_back(group_.getObjnameByIdx(index));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool GroupReader::contains(const std::string& name) const {
  return H5Lexists(group_.getId(), name.c_str(), H5P_DEFAULT) > 0 &&
         H5Oexists_by_name(group_.getId(), name.c_str(), H5P_DEFAULT) > 0;
}

GroupReader GroupReader::group(const std::string& name, const std::string& fix) const {
  const Place place = place_.child(name);
  if (!contains(name)) place.fail("a group", "nothing", fix);
  if (group_.childObjType(name) != H5O_TYPE_GROUP) place.fail("a group", "something else", fix);
  return GroupReader(place, group_.openGroup(name), fix);
}

H5::DataSet GroupReader::dataset(const std::string& name) const {
  const Place place = place_.child(name);
  if (!contains(name)) place.fail("a dataset", "nothing", fix_);
  if (group_.childObjType(name) != H5O_TYPE_DATASET) {
    place.fail("a dataset", "something else", fix_);
  }
  return group_.openDataSet(name);
}

}  // namespace kvsim
