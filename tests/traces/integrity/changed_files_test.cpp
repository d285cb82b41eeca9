#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/format_versions.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/error_of_reading.h"
#include "tests/traces/full_trace.h"
#include "traces/hdf5/attribute_writer.h"

namespace kvsim::traces_test::changed_files_test {

using Catch::Matchers::Contains;

/// A file with everything that a trace may hold, to be changed as a sound HDF5 file.
struct FullTrace {
  FullTrace() { write_full_trace(file); }

  std::string error() const { return error_of_reading(file); }

  TemporaryFolder folder;
  std::filesystem::path file = folder / "t.h5";
};

TEST_CASE("a trace as it was written has no error") { CHECK(FullTrace().error().empty()); }

TEST_CASE("a number that differs from the recorded one is found when its head is read") {
  const FullTrace full;
  const auto change = [&](const std::string& path, const std::vector<hsize_t>& index) {
    set_number(edit(full.file), path, index, 0.75f);
    CHECK_THAT(full.error(), Contains("t.h5: " + path + ": expected digest ") &&
                                 Contains(": copy the file again"));
  };
  SECTION("query") { change(kLayer + "/query", {3, 4, 3}); }
  SECTION("key") { change(kLayer + "/key", {0, 0, 0}); }
  SECTION("value") { change(kLayer + "/value", {1, 2, 2}); }
  SECTION("output") { change(kLayer + "/output", {2, 2, 2}); }
  SECTION("gradient") { change(kGradient, {1, 3, 4, 2}); }
  SECTION("residual") { change(kLayer + "/residual", {4, 5}); }
  SECTION("activation") { change(kActivation, {4, 8}); }
  SECTION("sink") { change(kLayer + "/sink_logit", {1}); }
  SECTION("rope") { change("/rope/inv_freq", {1}); }
  SECTION("span") { change("/sequences/a/spans/start", {0}); }
  SECTION("projection of another unit") { change(kProjection, {11, 5}); }
}

TEST_CASE("the head of a changed number is named") {
  const FullTrace full;
  set_number(edit(full.file), kLayer + "/query", {3, 4, 3}, 0.75f);
  CHECK_THAT(full.error(), Contains(" of head 3, found "));
}

TEST_CASE("a flipped bit of numbers that no filter checks is found") {
  const FullTrace full;
  haddr_t offset = 0;
  {
    const H5::H5File h5 = edit(full.file);
    const std::vector<float> numbers(2 * kSmallTokens * 4, 1.5f);
    const H5::DataSet key =
        set_dataset(h5, kLayer + "/key", H5::PredType::IEEE_F32LE, {2, kSmallTokens, 4});
    key.write(numbers.data(), H5::PredType::NATIVE_FLOAT);
    offset = key.getOffset();
  }
  seal_again(full.file);
  REQUIRE(full.error().empty());
  std::fstream bytes(full.file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(static_cast<std::streamoff>(offset + 7));
  const char flipped = static_cast<char>(bytes.get() ^ 0x01);
  bytes.seekp(static_cast<std::streamoff>(offset + 7));
  bytes.put(flipped);
  bytes.close();
  CHECK_THAT(full.error(), Contains("/key: expected digest "));
}

TEST_CASE("an attribute that differs from the listed one is named with both") {
  const FullTrace full;
  const auto root = edit(full.file).openGroup("/");
  SECTION("scale") {
    set_real(root, "scale", 0.25);
    CHECK_THAT(full.error(), Contains("t.h5: /manifest: expected 0.5 at /scale, as listed, found "
                                      "0.25; the file is not what was recorded: copy the file"));
  }
  SECTION("softcap") {
    set_real(root, "logit_softcap", 50);
    CHECK_THAT(full.error(), Contains("expected nothing at /logit_softcap, as listed, found 50.0"));
  }
  SECTION("window") {
    root.openGroup("sequences/a/layers/0").removeAttr("attention_chunk");
    CHECK_THAT(full.error(), Contains("expected 2 at /sequences/a/layers/0/attention_chunk, as "
                                      "listed, found nothing"));
  }
  SECTION("prompt") {
    set_integer(root.openGroup("sequences/a"), "prompt_length", 3);
    CHECK_THAT(full.error(),
               Contains("expected 0 at /sequences/a/prompt_length, as listed, found "));
  }
}

TEST_CASE("what is lost is named") {
  const FullTrace full;
  const H5::H5File h5 = edit(full.file);
  SECTION("layer") {
    h5.unlink("/sequences/a/layers/1");
    CHECK_THAT(full.error(), Contains("at /sequences/a/layers/1, as listed, found nothing"));
  }
  SECTION("dataset") {
    h5.unlink(kLayer + "/output");
    CHECK_THAT(full.error(), Contains("at /sequences/a/layers/0/output, as listed, found nothing"));
  }
  SECTION("span") {
    h5.unlink("/sequences/a/spans");
    CHECK_THAT(full.error(), Contains("at /sequences/a/spans, as listed, found nothing"));
  }
}

TEST_CASE("a head that disappears from the index of chunks is named") {
  const FullTrace full;
  {
    const H5::H5File h5 = edit(full.file);
    const std::string path = kLayer + "/key";
    std::uint64_t digests[2];
    h5.openDataSet(path).openAttribute("digests").read(H5::PredType::NATIVE_UINT64, digests);
    H5::DSetCreatPropList properties;
    const hsize_t one_head[] = {1, kSmallTokens, 4};
    properties.setChunk(3, one_head);
    const H5::DataSet key =
        set_dataset(h5, path, H5::PredType::IEEE_F32LE, {2, kSmallTokens, 4}, properties);
    const hsize_t count = 2;
    key.createAttribute("digests", H5::PredType::STD_U64LE, H5::DataSpace(1, &count))
        .write(H5::PredType::NATIVE_UINT64, digests);
    const hsize_t start[] = {1, 0, 0};
    const H5::DataSpace space = key.getSpace();
    space.selectHyperslab(H5S_SELECT_SET, one_head, start);
    const std::vector<float> numbers(kSmallTokens * 4, 1.5f);
    key.write(numbers.data(), H5::PredType::NATIVE_FLOAT, H5::DataSpace(3, one_head), space);
  }
  CHECK_THAT(full.error(), Contains("/sequences/a/layers/0/key: expected head 0 with digest ") &&
                               Contains(", found nothing of it; copy the file again"));
}

TEST_CASE("digests, manifest and trace_id hold each other") {
  const FullTrace full;
  const H5::H5File h5 = edit(full.file);
  const H5::Group root = h5.openGroup("/");
  const H5::DataSet key = h5.openDataSet(kLayer + "/key");
  SECTION("a digest is changed") {
    const std::uint64_t other[] = {1, 2};
    key.openAttribute("digests").write(H5::PredType::NATIVE_UINT64, other);
    CHECK_THAT(full.error(), Contains("at /sequences/a/layers/0/key/digests/0, as listed, found "
                                      "\"0000000000000001\""));
  }
  SECTION("digests are removed") {
    key.removeAttr("digests");
    CHECK_THAT(full.error(), Contains("/key: attribute digests: expected one number per head, "
                                      "found nothing; copy the file again"));
  }
  SECTION("digests are too few") {
    key.removeAttr("digests");
    const hsize_t one = 1;
    key.createAttribute("digests", H5::PredType::STD_U64LE, H5::DataSpace(1, &one));
    CHECK_THAT(full.error(), Contains("attribute digests: expected uint64 [2], found uint64 [1]"));
  }
  SECTION("the manifest is changed") {
    set_number(h5, "/manifest", {5}, 'x');
    CHECK_THAT(full.error(), Contains("/manifest: expected "));
  }
  SECTION("the manifest is removed") {
    h5.unlink("/manifest");
    CHECK_THAT(full.error(), Contains("/manifest: expected a dataset, found nothing"));
  }
  SECTION("the manifest is packed") {
    H5::DSetCreatPropList properties;
    const hsize_t chunk = 8;
    properties.setChunk(1, &chunk);
    set_dataset(h5, "/manifest", H5::PredType::STD_U8LE, {8}, properties);
    CHECK_THAT(full.error(), Contains("/manifest: expected uint8 [bytes], contiguous"));
  }
  SECTION("the trace_id is changed") {
    root.removeAttr("trace_id");
    write_attribute(root, "trace_id", std::string(64, '0'));
    CHECK_THAT(full.error(), Contains("attribute trace_id: expected ") &&
                                 Contains("the SHA-256 of /manifest, found \"0000"));
  }
  SECTION("the version is changed") {
    set_integer(root, "kvtrace_version", 1);
    CHECK_THAT(full.error(), Contains("attribute kvtrace_version: expected the integer 2, as there "
                                      "is a manifest, found 1"));
  }
}

TEST_CASE("version 2 has no strings of variable length") {
  const FullTrace full;
  const H5::H5File h5 = edit(full.file);
  SECTION("attribute") {
    set_text(h5.openGroup("/"), "model", "another");
    CHECK_THAT(full.error(), Contains("attribute model: expected a string of fixed length"));
  }
  SECTION("dataset") {
    set_dataset(h5, "/sequences/a/token_text", H5::StrType(H5::PredType::C_S1, H5T_VARIABLE),
                {kSmallTokens});
    CHECK_THAT(full.error(), Contains("/token_text: expected uint8, found a string"));
  }
}

}  // namespace kvsim::traces_test::changed_files_test
