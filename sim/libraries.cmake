# Finds the libraries that the build needs. What is missing is named at once, a line each, with the packages that
# bring it; nothing is fetched.
set(kvsim_missing "")

# kvsim_require(FOUND WHAT DEBIAN FEDORA): WHAT is missing unless FOUND is true.
macro(kvsim_require found what debian fedora)
  if(NOT ${found})
    list(APPEND kvsim_missing "  ${what}: Debian ${debian}, Fedora ${fedora}")
  endif()
endmacro()

find_package(Eigen3 3.3 QUIET NO_MODULE)
kvsim_require(Eigen3_FOUND "Eigen 3.3" libeigen3-dev eigen3-devel)
find_package(OpenMP QUIET COMPONENTS CXX)
kvsim_require(OpenMP_CXX_FOUND "OpenMP of the C++ compiler" g++ gcc-c++)
find_package(nlohmann_json QUIET)
kvsim_require(nlohmann_json_FOUND nlohmann-json nlohmann-json3-dev json-devel)
find_path(XXHASH_HEADERS xxhash.h)  # all of the library is in its headers
mark_as_advanced(XXHASH_HEADERS)
kvsim_require(XXHASH_HEADERS xxHash libxxhash-dev xxhash-devel)

add_library(kvsim_portable INTERFACE)  # for programs and modules that run elsewhere
if(KVSIM_PORTABLE AND NOT kvsim_missing)
  include(python/engine/portable.cmake)
endif()
if(NOT KVSIM_PORTABLE)
  find_package(HDF5 QUIET COMPONENTS C CXX)
  kvsim_require(HDF5_FOUND "HDF5 with its C++ library" libhdf5-dev hdf5-devel)
  find_package(OpenSSL QUIET COMPONENTS Crypto)
  kvsim_require(OpenSSL_FOUND OpenSSL libssl-dev openssl-devel)
  list(APPEND CMAKE_MODULE_PATH ${PROJECT_SOURCE_DIR}/traces)
  find_package(libdeflate QUIET)
  kvsim_require(libdeflate_FOUND libdeflate libdeflate-dev libdeflate-devel)
  find_package(SQLiteCpp QUIET)
  kvsim_require(SQLiteCpp_FOUND SQLiteCpp "libsqlitecpp-dev libsqlite3-dev" "sqlitecpp-devel sqlite-devel")
  find_package(fmt 9 QUIET)
  kvsim_require(fmt_FOUND "fmt 9" libfmt-dev fmt-devel)
  find_package(yaml-cpp QUIET)
  kvsim_require(yaml-cpp_FOUND yaml-cpp libyaml-cpp-dev yaml-cpp-devel)
  find_package(Boost QUIET COMPONENTS program_options)
  kvsim_require(Boost_FOUND Boost.Program_options libboost-program-options-dev boost-devel)
endif()

if(kvsim_missing)
  list(JOIN kvsim_missing "\n" lines)
  message(NOTICE "kvsim cannot be compiled here, for want of:\n${lines}\n"
    "Install these packages and try again, or use the wheel, which needs no library: "
    "pip install kvsim-${PROJECT_VERSION}-PYTHON-PLATFORM.whl")
  message(FATAL_ERROR "Libraries are missing; the lines above name them.")
endif()
