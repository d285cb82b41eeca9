# The programs of gpu/check on the stub, for a walk without a GPU, which gpu/README.md describes. They are no part of
# `all`: cmake --build build --target gpu_walk
set(on_stub ${of_cuda} ${CMAKE_CURRENT_SOURCE_DIR}/cuda/kernels.cpp)
set(bench ${PROJECT_SOURCE_DIR}/tests/bench)
file(GLOB cli CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/sim/cli/*.cpp)

add_executable(walk_kvsim EXCLUDE_FROM_ALL ${cli} ${on_stub} gpu/host_device.cpp gpu/emulated_threads.cpp)
target_link_libraries(walk_kvsim PRIVATE kvsim::summary kvsim::plugin yaml-cpp)
add_executable(walk_device EXCLUDE_FROM_ALL ${bench}/device.cpp ${bench}/device_ceilings.cpp ${bench}/cases.cpp
  ${bench}/structured_heads.cpp ${on_stub} gpu/host_device.cpp gpu/emulated_threads.cpp)
foreach(program kvsim device)
  target_compile_definitions(walk_${program} PRIVATE KVSIM_WITH_CUDA)
  target_link_libraries(walk_${program} PRIVATE cuda_stub kvsim::gpu kvsim::sweep kvsim_options fmt::fmt
    Boost::program_options Boost::headers nlohmann_json::nlohmann_json)
endforeach()
set_target_properties(walk_kvsim PROPERTIES OUTPUT_NAME kvsim RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/walk)
set_target_properties(walk_device PROPERTIES OUTPUT_NAME device
  RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/walk/bench)
add_custom_target(gpu_walk DEPENDS walk_kvsim walk_device test_cuda
  COMMAND ${CMAKE_COMMAND} -E create_symlink ${PROJECT_BINARY_DIR}/test_cuda ${PROJECT_BINARY_DIR}/walk/test_cuda)
