#include "traces/integrity/digest_attribute.h"

#include <fmt/format.h>

#include <bit>

#include "traces/hdf5/digest.h"
#include "traces/hdf5/hdf5_type.h"
#include "traces/hdf5/stored_size.h"

namespace kvsim {
namespace {

static_assert(std::endian::native == std::endian::little,
              "digests are of elements as they lie in memory");

constexpr const char* kDigests = "digests";

}  // namespace

std::vector<std::uint64_t> read_digests(const H5::DataSet& dataset, std::size_t count,
                                        const Place& place, const std::string& fix) {
  if (!dataset.attrExists(kDigests)) return {};
  const H5::Attribute attribute = dataset.openAttribute(kDigests);
  const H5::DataSpace space = attribute.getSpace();
  const bool is_list = space.getSimpleExtentType() == H5S_SIMPLE &&
                       space.getSimpleExtentNdims() == 1 &&
                       space.getSimpleExtentNpoints() == static_cast<hssize_t>(count);
  if (!is_list || attribute.getTypeClass() != H5T_INTEGER) {
    place.attribute(kDigests).fail(
        fmt::format("uint64 [{}]", count),
        fmt::format("{} {}", type_name(attribute.getDataType()), shape_name(space)), fix);
  }
  std::vector<std::uint64_t> digests(count);
  attribute.read(H5::PredType::NATIVE_UINT64, digests.data());
  return digests;
}

void write_digests(const H5::DataSet& dataset, const std::vector<std::uint64_t>& digests) {
  const hsize_t count = digests.size();
  if (dataset.attrExists(kDigests)) dataset.removeAttr(kDigests);
  dataset.createAttribute(kDigests, H5::PredType::STD_U64LE, H5::DataSpace(1, &count))
      .write(H5::PredType::NATIVE_UINT64, digests.data());
}

void check_digest(const std::vector<std::uint64_t>& digests, std::size_t head, std::uint64_t found,
                  const Place& place) {
  if (digests.empty() || digests[head] == found) return;
  const std::string of_head = digests.size() > 1 ? fmt::format(" of head {}", head) : "";
  place.fail(fmt::format("digest {}{}", digest_name(digests[head]), of_head), digest_name(found),
             "the numbers are not those that were recorded: copy the file again");
}

std::vector<unsigned char> read_elements(const H5::DataSet& dataset, const Place& place,
                                         const std::string& fix) {
  require_written(dataset, place, fix);
  H5::DataType type;
  type.copy(dataset);
  H5Tset_order(type.getId(), H5T_ORDER_LE);
  std::vector<unsigned char> bytes(
      static_cast<std::size_t>(dataset.getSpace().getSimpleExtentNpoints()) * type.getSize());
  if (!bytes.empty()) dataset.read(bytes.data(), type);
  const std::vector<std::uint64_t> digests = read_digests(dataset, 1, place, fix);
  if (digests.empty()) return bytes;
  Digest digest;
  digest.update(bytes.data(), bytes.size());
  check_digest(digests, 0, digest.value(), place);
  return bytes;
}

}  // namespace kvsim
