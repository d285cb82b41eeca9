#include "tests/support/unit_parts.h"

#include <algorithm>
#include <utility>

namespace kvsim::test_support {
namespace {

class MemoryRows final : public UnitRows {
 public:
  MemoryRows(UnitPart whole, int at_once) : whole_(std::move(whole)), at_once_(at_once) {}

  int num_tokens() const override { return whole_.end(); }

  void read(int first, UnitPart& part) override {
    const int count = std::min(at_once_, num_tokens() - first);
    part.first = first;
    part.query.clear();
    for (const Matrix& head : whole_.query) part.query.push_back(head.middleRows(first, count));
    part.key = whole_.key.middleRows(first, count);
    part.value = whole_.value.middleRows(first, count);
  }

 private:
  UnitPart whole_;
  int at_once_;
};

}  // namespace

Unit read_in_parts(Unit unit, int at_once) {
  UnitPart whole{0, unit.query, unit.key, unit.value};
  for (Matrix& head : unit.query) head.resize(0, head.cols());
  unit.key.resize(0, unit.key.cols());
  unit.value.resize(0, unit.value.cols());
  unit.rows = std::make_shared<MemoryRows>(std::move(whole), at_once);
  return unit;
}

}  // namespace kvsim::test_support
