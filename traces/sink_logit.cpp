#include "traces/sink_logit.h"

#include <fmt/format.h>

#include <cmath>

#include "traces/hdf5/hdf5_type.h"
#include "traces/integrity/digest_attribute.h"

namespace kvsim {

std::vector<float> read_sink_logit(const GroupReader& layer, int query_heads) {
  const std::string name = "sink_logit";
  if (!layer.contains(name)) return {};
  const H5::DataSet dataset = layer.dataset(name);
  const Place place = layer.place().child(name);
  const H5::DataType type = dataset.getDataType();
  if (!is_float16(type) && !is_float32(type)) {
    place.fail("float16 or float32", type_name(type), layer.fix());
  }
  const H5::DataSpace space = dataset.getSpace();
  if (space.getSimpleExtentNdims() != 1 || space.getSimpleExtentNpoints() != query_heads) {
    place.fail(fmt::format("shape [{}], a logit per query head", query_heads), shape_name(space),
               layer.fix());
  }
  std::vector<float> logits;
  if (is_float32(type)) {
    logits = read_list<float>(dataset, place, layer.fix());
  } else {
    const auto halves = read_list<Eigen::half>(dataset, place, layer.fix());
    logits.assign(halves.begin(), halves.end());
  }
  for (std::size_t head = 0; head < logits.size(); ++head) {
    if (std::isfinite(logits[head])) continue;
    place.fail("finite numbers", fmt::format("{} at [{}]", logits[head], head), layer.fix());
  }
  return logits;
}

}  // namespace kvsim
