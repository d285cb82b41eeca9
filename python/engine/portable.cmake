# Finds the libraries as archives, so that what is built runs on machines without them. Where an
# archive is missing or needs more than these, it says so and sets KVSIM_PORTABLE to OFF; then the
# libraries are found as for other builds.
set(names SQLiteCpp sqlite3 yaml-cpp boost_program_options hdf5_cpp hdf5 sz aec z deflate crypto gomp)
set(archives "")
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libgomp.a
                OUTPUT_VARIABLE gomp OUTPUT_STRIP_TRAILING_WHITESPACE)
get_filename_component(gomp_folder "${gomp}" DIRECTORY)
foreach(name ${names})
  find_library(KVSIM_ARCHIVE_${name} lib${name}.a PATHS ${gomp_folder} PATH_SUFFIXES hdf5/serial)
  mark_as_advanced(KVSIM_ARCHIVE_${name})
  if(NOT KVSIM_ARCHIVE_${name} OR (name STREQUAL "gomp" AND NOT OpenMP_gomp_LIBRARY))
    message(NOTICE "There is no lib${name}.a here: what is built will need this machine's libraries")
    set(KVSIM_PORTABLE OFF)
    return()
  endif()
  list(APPEND archives ${KVSIM_ARCHIVE_${name}})
endforeach()
find_package(Threads REQUIRED)
find_path(KVSIM_HDF5_HEADERS H5Cpp.h PATH_SUFFIXES hdf5/serial)
find_path(KVSIM_DEFLATE_HEADERS libdeflate.h)
find_file(KVSIM_FMT_VERSION fmt/core.h)
mark_as_advanced(KVSIM_HDF5_HEADERS KVSIM_DEFLATE_HEADERS KVSIM_FMT_VERSION)
if(NOT KVSIM_HDF5_HEADERS OR NOT KVSIM_DEFLATE_HEADERS OR NOT KVSIM_FMT_VERSION)
  set(KVSIM_PORTABLE OFF)  # what looks for the libraries then names these
  return()
endif()

include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_INCLUDES ${KVSIM_HDF5_HEADERS})
set(CMAKE_REQUIRED_LIBRARIES ${archives} Threads::Threads ${CMAKE_DL_LIBS})
check_cxx_source_compiles([[
#include <H5Cpp.h>
#include <openssl/evp.h>
int main() { return H5::H5File("a.h5", H5F_ACC_RDONLY).getObjCount() + EVP_MD_get_size(EVP_sha256()); }
]] KVSIM_ARCHIVES_SUFFICE)
unset(CMAKE_REQUIRED_INCLUDES)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT KVSIM_ARCHIVES_SUFFICE)
  message(NOTICE "The archives here need further ones: what is built will need this machine's libraries")
  set(KVSIM_PORTABLE OFF)
  return()
endif()

# kvsim_archive(TARGET NAME OTHERS...): the target is lib<NAME>.a, which needs the others.
function(kvsim_archive target name)
  add_library(${target} STATIC IMPORTED)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION ${KVSIM_ARCHIVE_${name}} INTERFACE_LINK_LIBRARIES "${ARGN}")
endfunction()

# Not all that FindHDF5 names: libcurl is for reading from the network.
kvsim_archive(hdf5::hdf5 hdf5 ${KVSIM_ARCHIVE_sz} ${KVSIM_ARCHIVE_aec} ${KVSIM_ARCHIVE_z} ${CMAKE_DL_LIBS} m)
target_include_directories(hdf5::hdf5 INTERFACE ${KVSIM_HDF5_HEADERS})
kvsim_archive(hdf5::hdf5_cpp hdf5_cpp hdf5::hdf5)
kvsim_archive(libdeflate::libdeflate deflate)
target_include_directories(libdeflate::libdeflate INTERFACE ${KVSIM_DEFLATE_HEADERS})
kvsim_archive(OpenSSL::Crypto crypto ${CMAKE_DL_LIBS} Threads::Threads)
kvsim_archive(SQLite::SQLite3 sqlite3 ${CMAKE_DL_LIBS} Threads::Threads m)
kvsim_archive(SQLiteCpp SQLiteCpp SQLite::SQLite3)
kvsim_archive(yaml-cpp yaml-cpp)
kvsim_archive(Boost::program_options boost_program_options)
add_library(Boost::headers INTERFACE IMPORTED)
# Debian has no archive of fmt: of the version that fmt_archive.cpp knows, one is made here.
add_library(fmt::fmt INTERFACE IMPORTED)
file(STRINGS ${KVSIM_FMT_VERSION} fmt_version REGEX "define FMT_VERSION 9")
if(fmt_version)
  add_library(kvsim_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt_archive.cpp)
  target_link_libraries(fmt::fmt INTERFACE kvsim_fmt)
else()
  target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
endif()

# A module cannot hold the OpenMP runtime, whose variables of threads are for programs: the package
# brings it along. Where a module with the same one is loaded before, both share that.
set_target_properties(OpenMP::OpenMP_CXX PROPERTIES INTERFACE_LINK_LIBRARIES
  "$<IF:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>,${KVSIM_ARCHIVE_gomp},${OpenMP_gomp_LIBRARY}>;Threads::Threads")
file(REAL_PATH "${OpenMP_gomp_LIBRARY}" gomp)
install(FILES ${gomp} RENAME libgomp.so.1 DESTINATION kvsim/lib COMPONENT python)

target_link_options(kvsim_portable INTERFACE -static-libstdc++ -static-libgcc)
target_sources(kvsim_portable INTERFACE ${CMAKE_CURRENT_LIST_DIR}/older_libc.c)
# Archives are compiled for programs. A module binds their symbols to itself and shows none.
set(is_module $<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>)
target_link_options(kvsim_portable INTERFACE
  $<${is_module}:-Wl,-Bsymbolic> $<${is_module}:-Wl,--exclude-libs,ALL>)
target_sources(kvsim_portable INTERFACE $<${is_module}:${CMAKE_CURRENT_LIST_DIR}/libc_data.c>)
