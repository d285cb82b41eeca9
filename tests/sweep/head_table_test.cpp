#include "sim/sweep/head_table.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>

#include "sim/base/errors.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::head_table_test {

using traces_test::TemporaryFolder;

HeadTable read(const std::string& name, const std::string& bytes) {
  const TemporaryFolder folder;
  std::ofstream(folder / name, std::ios::binary) << bytes;
  return read_head_table(folder / name);
}

/// An .npy file, as numpy.save writes it.
std::string npy(const std::string& shape, const std::vector<float>& values,
                const std::string& type = "<f4", const std::string& order = "False") {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header.resize(118 - 1, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += {'\1', '\0', static_cast<char>(header.size()), '\0'};
  bytes += header;
  const std::size_t begin = bytes.size();
  bytes.resize(begin + 4 * values.size());
  std::memcpy(bytes.data() + begin, values.data(), 4 * values.size());
  return bytes;
}

TEST_CASE("a table of heads is the same in each of its formats", "[allocate]") {
  const std::vector<double> values{0.5, 1, 0, 2, 0.25, 3};
  const auto check = [&](const std::string& name, const std::string& bytes) {
    CAPTURE(name, bytes);
    const HeadTable table = read(name, bytes);
    CHECK(table.rows == 1);
    CHECK(table.layers == 2);
    CHECK(table.heads == 3);
    CHECK(table.values == values);
    CHECK(table.sha256.size() == 64);
    CHECK(table.at(0, 1, 1) == 0.25);
  };
  check("t.npy", npy("(2, 3)", {0.5F, 1, 0, 2, 0.25F, 3}));
  check("t.json", "[[0.5, 1, 0], [2, 2.5e-1, 3]]\n");
  check("t.json", R"({"0-0": [0, 1], "0-1": [1], "0-2": [0],
                      "1-0": [2], "1-1": [0.25], "1-2": [1, 5]})");
  check("t.tsv", "5.0e-01\t1\t0\n2\t0.25\t3\n");
  check("t.txt", "0.5, 1, 0\r\n2 0.25 3\n\n");
  const HeadTable rows = read("t.npy", npy("(2, 1, 2)", {1, 2, 3, NAN}));
  CHECK(rows.rows == 2);
  CHECK(rows.at(1, 0, 0) == 3);
  CHECK(std::isnan(rows.at(1, 0, 1)));
  CHECK(std::isnan(read("t.json", "[[1, null]]").at(0, 0, 1)));
}

TEST_CASE("what is no table of heads is refused with its place", "[allocate]") {
  const auto refused = [](const std::string& name, const std::string& bytes, const char* hint) {
    CAPTURE(name, bytes);
    CHECK_THROWS_AS(read(name, bytes), DataError);
    CHECK_THROWS_WITH(read(name, bytes), Catch::Contains(hint) && Catch::Contains(name));
  };
  refused("t.npy", "", "an .npy file");
  refused("t.npy", "PK\3\4 a zip file of numpy", "an .npy file");
  refused("t.npy", npy("(2, 3)", {1, 2, 3, 4, 5}), "6 numbers");
  refused("t.npy", npy("(99999999999, 99999999999)", {1}), "numbers as its shape");
  refused("t.npy", npy("(2,)", {1, 2}), "shape [2]");
  refused("t.npy", npy("(1, 1)", {INFINITY}), "finite");
  refused("t.npy", npy("(1, 1)", {1}, "<i4"), "float32");
  refused("t.npy", npy("(1, 1)", {1}, "<f4", "True"), "C order");
  refused("t.npy", npy("(2, 2)", {1, 2, 3, 4}).substr(0, 60), "a part");
  refused("t.json", "", "'['");
  refused("t.json", "[[1, 2], [3]]", "the same length");
  refused("t.json", "[[1, 2], 3]", "lists alone");
  refused("t.json", "[1, 2]", "shape [2]");
  refused("t.json", "[[[[1]]]]", "three levels");
  refused("t.json", "[[1, 2]] x", "the end");
  refused("t.json", R"({"first": [1]})", "LAYER-HEAD");
  refused("t.json", R"({"0-0": [1], "0-0": [2]})", "once");
  refused("t.json", R"({"0-0": []})", "scores");
  refused("t.json", R"({"9999-9999": [1]})", "gaps");
  refused("t.tsv", "1\t2\nx\t3\n", "line 2");
  refused("t.tsv", "1\t2\n3\n", "2 numbers in line 2");
  refused("t.tsv", "\n\n", "no numbers");
  CHECK_THROWS_WITH(read_head_table("/no/such.npy"), Catch::Contains("check the path"));
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(read_head_table(folder.path()), Catch::Contains("a folder"));
}

TEST_CASE("a table has to have the layers and heads of the model", "[allocate]") {
  const HeadTable table = read("t.json", "[[1, 3, 5, 7], [2, 4, null, null]]");
  const auto fit = [&](int layers, ModelHeads::Heads second) {
    return fitted(table, {.num_layers = layers, .of_layer = {{0, {4, 4}}, {1, second}}});
  };
  CHECK(fit(2, {2, 4}).at(0, 1, 1) == 4);
  CHECK_THROWS_WITH(fit(3, {2, 4}), Catch::Contains("the 3 layers of the model, found 2"));
  CHECK_THROWS_WITH(fit(2, {4, 8}), Catch::Contains("4 KV heads in layer 1"));
  // Numbers of query heads are averaged over those of a KV head.
  const HeadTable grouped =
      fitted(read("q.json", "[[1, 3, 5, 7]]"), {.num_layers = 1, .of_layer = {{0, {2, 4}}}});
  CHECK(grouped.values == std::vector<double>{2, 6});
  const HeadTable holes = read("h.json", "[[[1, 3]], [[1, null]]]");
  CHECK_THROWS_WITH(fitted(holes, {.num_layers = 1, .of_layer = {{0, {2, 2}}}}),
                    Catch::Contains("found nan for head 1"));
  // A layer without a cache of its own needs no numbers.
  CHECK_NOTHROW(fitted(table, {.num_layers = 2, .of_layer = {{0, {4, 4}}}}));
}

}  // namespace kvsim::head_table_test
