#include "tests/bench/raw_heads.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <stdexcept>

namespace kvsim::bench {
namespace {

void write(std::ofstream& out, const Matrix& matrix) {
  out.write(reinterpret_cast<const char*>(matrix.data()),
            static_cast<std::streamsize>(matrix.size() * sizeof(float)));
}

}  // namespace

std::vector<Unit> read_raw(const std::filesystem::path& file, const Shape& shape) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  const auto bytes = static_cast<std::int64_t>(in.tellg());
  const std::int64_t matrix_bytes = std::int64_t{4} * shape.tokens * shape.head_dim;
  const std::int64_t heads_in_file = bytes / (3 * matrix_bytes);
  if (bytes % (3 * matrix_bytes) != 0 || heads_in_file < shape.heads) {
    throw std::runtime_error(
        fmt::format("{} has {} bytes, which are not at least {} heads of {} tokens of {} elements",
                    file.string(), bytes, shape.heads, shape.tokens, shape.head_dim));
  }
  const auto read = [&](int part, int head) {
    Matrix matrix(shape.tokens, shape.head_dim);
    in.seekg((part * heads_in_file + head) * matrix_bytes);
    in.read(reinterpret_cast<char*>(matrix.data()), matrix_bytes);
    if (!in) throw std::runtime_error("cannot read " + file.string());
    return matrix;
  };
  std::vector<Unit> heads;
  for (int head = 0; head < shape.heads; ++head) {
    Unit& unit = heads.emplace_back();
    unit.name = {"bench", 0, head};
    unit.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    unit.query = {read(0, head)};
    unit.key = read(1, head);
    unit.value = read(2, head);
  }
  return heads;
}

void write_raw(const std::vector<Unit>& heads, const std::filesystem::path& file) {
  std::ofstream out(file, std::ios::binary);
  for (const Unit& head : heads) write(out, head.query.front());
  for (const Unit& head : heads) write(out, head.key);
  for (const Unit& head : heads) write(out, head.value);
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace kvsim::bench
