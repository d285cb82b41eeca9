"""A build without the libraries ends in a line for each that says what to install."""

import shutil
import subprocess

import pytest

from conftest import HERE

ROOT = HERE.parents[1]
# Of each library: what CMake looks for, and what the lines must name.
LIBRARIES = {
    "Eigen3": ("Eigen 3.3", "libeigen3-dev", "eigen3-devel"),
    "OpenMP": ("OpenMP of the C++ compiler", "g++", "gcc-c++"),
    "nlohmann_json": ("nlohmann-json", "nlohmann-json3-dev", "json-devel"),
    "HDF5": ("HDF5 with its C++ library", "libhdf5-dev", "hdf5-devel"),
    "OpenSSL": ("OpenSSL", "libssl-dev", "openssl-devel"),
    "libdeflate": ("libdeflate", "libdeflate-dev", "libdeflate-devel"),
    "SQLiteCpp": (
        "SQLiteCpp",
        "libsqlitecpp-dev libsqlite3-dev",
        "sqlitecpp-devel sqlite-devel",
    ),
    "fmt": ("fmt 9", "libfmt-dev", "fmt-devel"),
    "yaml-cpp": ("yaml-cpp", "libyaml-cpp-dev", "yaml-cpp-devel"),
    "Boost": ("Boost.Program_options", "libboost-program-options-dev", "boost-devel"),
}


@pytest.mark.skipif(not shutil.which("cmake"), reason="there is no cmake")
@pytest.mark.skipif(not (ROOT / "CMakeLists.txt").exists(), reason="there are no sources")
def test_libraries_that_are_missing_are_named_a_line_each(tmp_path):
    hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in LIBRARIES]
    hidden += ["-DXXHASH_HEADERS=XXHASH_HEADERS-NOTFOUND", "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF"]
    done = subprocess.run(
        ["cmake", "-S", ROOT, "-B", tmp_path, "-DKVSIM_CUDA=OFF", "-DKVSIM_TESTS=OFF", *hidden],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    lines = [line.strip() for line in done.stderr.splitlines() if ": Debian " in line]
    expected = [
        f"{what}: Debian {debian}, Fedora {fedora}" for what, debian, fedora in LIBRARIES.values()
    ]
    expected.append("xxHash: Debian libxxhash-dev, Fedora xxhash-devel")
    assert sorted(lines) == sorted(expected)
    assert "or use the wheel" in done.stderr
    assert not (tmp_path / "_deps").exists() and done.stderr.count("CMake Error") == 1
