#include "traces/hdf5/group_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/hdf5/stored_size.h"

namespace kvsim {
namespace {

std::string kind_of(H5L_type_t link) {
  switch (link) {
    case H5L_TYPE_SOFT:
      return "a soft link";
    case H5L_TYPE_EXTERNAL:
      return "an external link";
    default:
      return "a link of another kind";
  }
}

}  // namespace

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
  constexpr hsize_t kMostMembers = 1 << 20;
  const hsize_t count = group_.getNumObjs();
  if (count > kMostMembers) {
    place_.fail(fmt::format("at most {} members", kMostMembers), fmt::format("{}", count), fix_);
  }
  std::vector<std::string> names;
  for (hsize_t index = 0; index < count; ++index) {
    names.push_back(group_.getObjnameByIdx(index));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Whoever follows a link of another kind may end in another file, or nowhere: in a pipe that nobody
// writes to.
bool GroupReader::contains(const std::string& name) const {
  const Place place = place_.child(name);
  if (name.empty() || name == "." || name.find('/') != std::string::npos) {
    place_.fail("names of members", in_quotes(name), fix_);  // it would be a path
  }
  const htri_t is_there = H5Lexists(group_.getId(), name.c_str(), H5P_DEFAULT);
  if (is_there == 0) return false;
  H5L_info_t link{};
  if (is_there < 0 || H5Lget_info(group_.getId(), name.c_str(), &link, H5P_DEFAULT) < 0) {
    place.fail("a link that can be read", "damage", fix_);
  }
  if (link.type != H5L_TYPE_HARD) {
    place.fail("a group or a dataset of this file", kind_of(link.type),
               "replace it by what it leads to, or by a hard link");
  }
  if (H5Oexists_by_name(group_.getId(), name.c_str(), H5P_DEFAULT) <= 0) {
    place.fail("a group or a dataset", "damage", fix_);
  }
  return true;
}

GroupReader GroupReader::group(const std::string& name, const std::string& fix) const {
  const Place place = place_.child(name);
  if (!contains(name)) place.fail("a group", "nothing", fix);
  if (group_.childObjType(name) != H5O_TYPE_GROUP) place.fail("a group", "something else", fix);
  GroupReader opened(place, group_.openGroup(name), fix);
  opened.variable_strings_ = variable_strings_;
  return opened;
}

GroupReader GroupReader::at(const std::string& path) const {
  GroupReader opened({place_.file, path}, group_.openGroup(path), fix_);
  opened.variable_strings_ = variable_strings_;
  return opened;
}

H5::DataSet GroupReader::dataset(const std::string& name) const {
  const Place place = place_.child(name);
  if (!contains(name)) place.fail("a dataset", "nothing", fix_);
  if (group_.childObjType(name) != H5O_TYPE_DATASET) {
    place.fail("a dataset", "something else", fix_);
  }
  H5::DataSet dataset = group_.openDataSet(name);
  check_stored_size(dataset, place, fix_);
  return dataset;
}

}  // namespace kvsim
