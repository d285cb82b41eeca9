# Writes OUTPUT, the source file of version(), unless it says the same already.
#   cmake -D ROOT=SOURCES -D RELEASE=0.2.0 -D OUTPUT=FILE.cpp -P version.cmake
# The version is the release and, in a git checkout, its revision: 0.2.0+g1a2b3c4, with .dirty if
# files that git tracks differ from it. For a source archive, which has no git, OUTPUT=version.txt in
# its root keeps the version.
cmake_minimum_required(VERSION 3.25)

set(VERSION ${RELEASE})
if(EXISTS ${ROOT}/.git)  # not the checkout of another project around this one
  execute_process(COMMAND git describe --always --exclude=* --abbrev=7 --dirty=.dirty
                  WORKING_DIRECTORY ${ROOT} RESULT_VARIABLE failed OUTPUT_VARIABLE revision
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(failed EQUAL 0)
    string(APPEND VERSION "+g${revision}")
  endif()
elseif(EXISTS ${ROOT}/version.txt)
  file(STRINGS ${ROOT}/version.txt VERSION LIMIT_COUNT 1)
endif()
if(OUTPUT MATCHES "\\.txt$")
  file(WRITE ${OUTPUT} "${VERSION}\n")
else()
  configure_file(${CMAKE_CURRENT_LIST_DIR}/version.cpp.in ${OUTPUT} @ONLY)
endif()
