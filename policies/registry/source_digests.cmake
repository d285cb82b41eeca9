# Writes OUTPUT: a digest of the source code of every policy, combinator, oracle and of the allocations.
#   cmake -D ROOT=SOURCES -D OUTPUT=FILE.cpp -P source_digests.cmake
# The code of policies/NAME.cpp is that file, what it includes from policies/, oracle/ and sim/base/, directly
# or not, and the .cpp next to each header of these, and what reads its file of numbers. Lines that hold only a comment, or that only ask
# whether the run was interrupted, do not count.
cmake_minimum_required(VERSION 3.25)

file(GLOB_RECURSE sources RELATIVE ${ROOT}
  ${ROOT}/policies/*.h ${ROOT}/policies/*.cpp ${ROOT}/oracle/*.h ${ROOT}/oracle/*.cpp
  ${ROOT}/sim/base/*.h ${ROOT}/sim/base/*.cpp
  ${ROOT}/sim/sweep/allocate*.h ${ROOT}/sim/sweep/allocate*.cpp ${ROOT}/sim/sweep/apportion.*
  ${ROOT}/sim/sweep/attention_spread.* ${ROOT}/sim/sweep/head_table*.*
  ${ROOT}/sim/results/numpy/*.h ${ROOT}/sim/results/numpy/*.cpp ${ROOT}/sim/results/scorer_file.*)
# The table of policies and the parser of specs decide no number.
list(FILTER sources EXCLUDE REGEX "^(policies/registry/|sim/base/interrupt[.])")
list(SORT sources)

foreach(source ${sources})
  file(READ ${ROOT}/${source} text)
  string(REGEX MATCHALL "#include \"[^\"\n]+\"" needs "${text}")
  list(TRANSFORM needs REPLACE "#include \"(.+)\"" "\\1")
  if(source MATCHES "\\.h$")
    string(REGEX REPLACE "\\.h$" ".cpp" pair ${source})
    list(APPEND needs ${pair})
  endif()
  set(needs_${source} ${needs})
  string(REGEX REPLACE "(^|\n)[ \t]*//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "\n[ \t]*poll_interrupt\\(\\)[^\n]*" "" text "${text}")
  set(include "\n#include \"sim/base/interrupt.h\"")
  string(REPLACE "\n${include}\n\n" "\n\n" text "${text}")
  string(REPLACE "${include}" "" text "${text}")
  string(STRIP "${text}" text)
  string(SHA256 digest_${source} "${text}")
endforeach()

# A policy may not include what reads its file.
list(APPEND needs_policies/learned.cpp sim/results/scorer_file.cpp)

set(rows "")
foreach(file ${sources})
  if(NOT file MATCHES "^(policies/[^/]+|oracle/[^/]+|sim/sweep/allocate)\\.cpp$")
    continue()
  endif()
  set(reached ${file})
  set(next ${file})
  while(next)
    list(POP_FRONT next source)
    foreach(needed ${needs_${source}})
      if(needed IN_LIST sources AND NOT needed IN_LIST reached)
        list(APPEND reached ${needed})
        list(APPEND next ${needed})
      endif()
    endforeach()
  endwhile()
  list(SORT reached)
  set(digests "")
  foreach(source ${reached})
    string(APPEND digests "${source} ${digest_${source}}\n")
  endforeach()
  string(SHA256 digest "${digests}")
  string(APPEND rows "      {\"${file}\", \"${digest}\"},\n")
endforeach()

file(WRITE ${OUTPUT} "#include \"policies/registry/source_digest.h\"

namespace kvsim {

const std::map<std::string, std::string, std::less<>>& source_digests() {
  static const std::map<std::string, std::string, std::less<>> table{
${rows}  };
  return table;
}

}  // namespace kvsim
")
