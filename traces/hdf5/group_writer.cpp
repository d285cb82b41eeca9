#include "traces/hdf5/group_writer.h"

namespace kvsim {

H5::Group create_group(const H5::H5File& file, const std::string& path) {
  const H5::PropList properties(H5P_GROUP_CREATE);
  H5Pset_obj_track_times(properties.getId(), false);
  const hid_t group =
      H5Gcreate2(file.getId(), path.c_str(), H5P_DEFAULT, properties.getId(), H5P_DEFAULT);
  if (group < 0) throw H5::GroupIException("H5Gcreate2", path + " cannot be made");
  H5Gclose(group);
  return file.openGroup(path);
}

H5::FileCreatPropList without_times_of_root() {
  H5::FileCreatPropList properties;
  H5Pset_obj_track_times(properties.getId(), false);
  return properties;
}

}  // namespace kvsim
