# emulated_kernels(name file.cu...): kernels of CUDA compiled as C++ that runs on the CPU, in a library for
# tests. tests/cuda/emulated/emulated.h says what that is.
if(NOT MUSTER_TESTS)
  return()
endif()

# The C++ compiler that belongs to the C compiler.
if(NOT CMAKE_CXX_COMPILER)
  string(REGEX REPLACE "gcc([^/]*)$" "g++\\1" cxx "${CMAKE_C_COMPILER}")
  string(REGEX REPLACE "clang([^/+]*)$" "clang++\\1" cxx "${cxx}")
  string(REGEX REPLACE "/cc$" "/c++" cxx "${cxx}")
  set(CMAKE_CXX_COMPILER ${cxx})
endif()
enable_language(CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")
set(CMAKE_CXX_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
set(CMAKE_CXX_FLAGS_DEBUG "${CMAKE_C_FLAGS_DEBUG}")

function(emulated_kernels name)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
  add_library(${name} STATIC ${ARGN})
  target_compile_options(${name} PRIVATE -xc++ -fno-exceptions -fno-rtti -fno-threadsafe-statics)
  target_compile_definitions(${name} PRIVATE "GPU_EMULATION=\"tests/cuda/emulated.h\"")
  target_link_libraries(${name} PUBLIC emulated_gpu)
endfunction()
