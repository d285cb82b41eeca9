# The kernels once per instruction set, as modules in `folder`: one process may load all of them.
function(kvsim_kernel_modules folder)
  foreach(set avx512 avx2 baseline)
    add_library(kernels_${set} MODULE
                ${PROJECT_SOURCE_DIR}/tests/faults/modules/kernel_results.cpp)
    set_target_properties(kernels_${set} PROPERTIES PREFIX "" POSITION_INDEPENDENT_CODE ON
      LIBRARY_OUTPUT_DIRECTORY ${folder})
    target_link_libraries(kernels_${set} PRIVATE kvsim::kernels kvsim_options)
    if(KVSIM_FUZZ)
      target_compile_options(kernels_${set} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
  endforeach()
endfunction()
