# Runs what CMakeLists.txt builds in the folder BUILD on TRACE, and checks numbers.

function(kvsim result)
  execute_process(COMMAND ${BUILD}/own_program ${ARGN} WORKING_DIRECTORY ${BUILD}
                  OUTPUT_VARIABLE output ERROR_VARIABLE error RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "own_program ${ARGN}: ${status} ${error}")
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

# The rows of a policy without its name and without sums, which kernels round in another order than
# a replay step by step: what is left are counts, of misses for one.
function(rows result policy)
  file(REMOVE ${BUILD}/rows.sqlite)
  kvsim(ignored --plugin ${BUILD}/libdecayed_attention.so sweep ${TRACE} --policies ${policy}
        --budgets 16 --layers 0-1 --quiet -o rows.sqlite)
  string(JOIN "," left_out policy policy_code run_id device attention_recall attention_loss
         output_error_mean output_error_p50 output_error_p95 output_error_max output_error_sq
         predicted_kl bound_mean)
  kvsim(table export rows.sqlite --without ${left_out})
  string(REGEX MATCHALL "\n" lines "${table}")
  list(LENGTH lines count)
  if(count LESS 10)
    message(FATAL_ERROR "${policy}: expected rows, found ${table}")
  endif()
  set(${result} "${table}" PARENT_SCOPE)
endfunction()

function(check_same policy built_in)
  rows(found ${policy})
  rows(expected ${built_in})
  if(NOT found STREQUAL expected)
    message(FATAL_ERROR "${policy} differs from ${built_in}:\n${found}\n${expected}")
  endif()
endfunction()

function(check_differ policy built_in)
  rows(found ${policy})
  rows(other ${built_in})
  if(found STREQUAL other)
    message(FATAL_ERROR "${policy} equals ${built_in}")
  endif()
endfunction()

check_same("decayed-attention:decay=1" h2o)
check_same("decayed-attention:decay=1,recent=4" h2o:recent=4)
check_differ("decayed-attention" h2o)
check_same("key-length:keep=short" knorm)
check_differ("key-length" knorm)

# The mean norm of the keys of sequence copied-segment, layer 0, head 0 from token 2 on, computed
# with numpy.
file(REMOVE ${BUILD}/norms.sqlite)
kvsim(ignored --plugin ${BUILD}/libkey_norms.so analyze ${TRACE} --what key-norms:from=2
      --sequences copied-segment --layers 0 --heads 0 --quiet -o norms.sqlite)
kvsim(table export norms.sqlite --table key_norms)
if(NOT table MATCHES "copied-segment,0,0,0,510,2\\.57584258")
  message(FATAL_ERROR "key-norms: expected a mean norm of 2.575842586, found\n${table}")
endif()
message("Plug-ins and a program of one's own give the numbers expected of them.")
