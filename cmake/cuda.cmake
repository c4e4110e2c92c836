# Whether the module for GPUs is built: MUSTER_CUDA (also of the environment) on, off, or auto: where there is a CUDA
# toolkit. There auto fails where it is not whole, so that a machine with one never skips it. Sets MUSTER_CUDA_VERSION,
# MUSTER_CUDA_INCLUDE (also what the tests of the module need, which run without a GPU), and MUSTER_NVCC where the module
# is built. One line says what was chosen.
#
# muster_nvcc(kernel.cu object fmad): compile it for MUSTER_CUDA_ARCHS. Warnings and spilled registers are errors; what
# each kernel uses is written beside the object, in object.kernels.
function(muster_nvcc kernel object fmad)
  # Of one GPU where many builds are made, as this takes most of the time; for PTX see nvcc(1).
  set(chosen ${MUSTER_CUDA_ARCHS})
  if(NOT chosen AND CMAKE_BUILD_TYPE STREQUAL "Release")
    set(chosen 80 90 100)
  elseif(NOT chosen)
    set(chosen 90)
  endif()
  set(archs)
  foreach(arch ${chosen})
    list(APPEND archs -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  list(LENGTH chosen number)
  if(number GREATER 1) # for GPUs that are newer than the last
    list(GET chosen -1 arch)
    list(APPEND archs -gencode arch=compute_${arch},code=compute_${arch})
  endif()
  get_filename_component(name ${object} NAME)
  add_custom_command(OUTPUT ${object} ${object}.kernels
    COMMAND ${CMAKE_SOURCE_DIR}/tools/nvcc.sh ${object}.kernels ${CMAKE_C_COMPILER_LAUNCHER} ${MUSTER_NVCC}
      -ccbin ${CMAKE_C_COMPILER} -std=c++17 -O3 -lineinfo --fmad=${fmad} ${archs}
      -Werror all-warnings -Xptxas -v,--warn-on-spills,--warning-as-error
      -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics,-Wall,-Wextra,-Werror
      -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/libworker/include -MMD -MF ${object}.d -c ${kernel} -o ${object}
    DEPENDS ${kernel} ${CMAKE_SOURCE_DIR}/tools/nvcc.sh DEPFILE ${object}.d
    COMMENT "Building CUDA object ${name}" VERBATIM)
endfunction()

set(MUSTER_CUDA auto CACHE STRING "the module for GPUs: on, off, or auto: where there is a CUDA toolkit")
foreach(name MUSTER_CUDA MUSTER_CUDA_ARCHS)
  if(NOT "$ENV{${name}}" STREQUAL "") # also where an earlier configuration had another
    set(${name} "$ENV{${name}}" CACHE STRING "" FORCE)
  endif()
endforeach()
set_property(CACHE MUSTER_CUDA PROPERTY STRINGS auto on off)
if(NOT MUSTER_CUDA MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "MUSTER_CUDA is ${MUSTER_CUDA}: it is auto, on or off")
endif()
set(MUSTER_CUDA_ARCHS "" CACHE STRING
  "GPUs to compile for, such as 80;90;100: the last of several as PTX, too. Empty: 90, and 80;90;100 for release")
if(NOT MUSTER_CUDA_ARCHS MATCHES "^([0-9]+(;[0-9]+)*)?$")
  message(FATAL_ERROR "MUSTER_CUDA_ARCHS is ${MUSTER_CUDA_ARCHS}: it is as 90, or 80;90;100")
endif()
set(MUSTER_NVCC "")
set(MUSTER_CUDA_INCLUDE "")
if(MUSTER_CUDA STREQUAL "off")
  message(STATUS "libworker-cuda.so: not built, as MUSTER_CUDA is off")
  return()
endif()

# A toolkit is where nvcc is, where CUDA_HOME says, or in its usual place.
find_program(MUSTER_FOUND_NVCC nvcc HINTS $ENV{CUDA_HOME} $ENV{CUDA_PATH} ${CMAKE_SOURCE_DIR}/.cuda /usr/local/cuda PATH_SUFFIXES bin)
set(root /usr/local/cuda)
if(MUSTER_FOUND_NVCC)
  get_filename_component(real ${MUSTER_FOUND_NVCC} REALPATH)
  get_filename_component(root ${real}/../.. ABSOLUTE)
elseif(NOT "$ENV{CUDA_HOME}" STREQUAL "")
  set(root $ENV{CUDA_HOME})
endif()
find_path(MUSTER_FOUND_CUDA_INCLUDE cuda_runtime_api.h HINTS ${root}/include ${root}/targets/x86_64-linux/include)
find_library(MUSTER_CUDART cudart_static HINTS ${root}/lib64 ${root}/lib ${root}/targets/x86_64-linux/lib)
# NVIDIA's wheels for Python have it under its full name only, and in folders of their own (CMAKE_PREFIX_PATH).
find_path(MUSTER_CUBLAS_INCLUDE cublasLt.h HINTS ${root}/include ${root}/targets/x86_64-linux/include)
find_library(MUSTER_CUBLASLT NAMES cublasLt libcublasLt.so.13 libcublasLt.so.12 HINTS ${root}/lib64 ${root}/lib ${root}/targets/x86_64-linux/lib)
if(MUSTER_FOUND_NVCC AND MUSTER_FOUND_CUDA_INCLUDE AND MUSTER_CUDART AND MUSTER_CUBLASLT
    AND MUSTER_CUBLAS_INCLUDE)
  execute_process(COMMAND ${MUSTER_FOUND_NVCC} --version OUTPUT_VARIABLE text ERROR_QUIET)
  string(REGEX MATCH "release ([0-9]+)\\.[0-9]+" version "${text}")
  if(CMAKE_MATCH_1 AND CMAKE_MATCH_1 VERSION_LESS 12)
    message(FATAL_ERROR "the CUDA toolkit of ${root} has ${version}; it takes 12 or later (or MUSTER_CUDA=off)")
  endif()
  string(REGEX MATCH "[0-9]+\\.[0-9]+" MUSTER_CUDA_VERSION "${version}")
  string(REPLACE "." "-" MUSTER_CUDA_DASHED "${MUSTER_CUDA_VERSION}")
  string(REGEX MATCH "^[0-9]+" MUSTER_CUDA_MAJOR "${MUSTER_CUDA_VERSION}")
  set(MUSTER_CUDA_INCLUDE ${MUSTER_FOUND_CUDA_INCLUDE} ${MUSTER_CUBLAS_INCLUDE})
  list(REMOVE_DUPLICATES MUSTER_CUDA_INCLUDE)
  find_path(MUSTER_NCCL_INCLUDE nccl.h HINTS ${root}/include ${root}/../nccl/include $ENV{NCCL_HOME}/include)
  if(NOT MUSTER_NCCL_INCLUDE)
    message(STATUS "libworker-cuda.so: without NCCL, as there is no nccl.h")
  endif()
  find_path(MUSTER_CUDNN_INCLUDE cudnn_graph.h HINTS ${root}/include $ENV{CUDNN_HOME}/include)
  if(NOT MUSTER_CUDNN_INCLUDE)
    message(STATUS "libworker-cuda.so: without cuDNN, as there is no cudnn_graph.h")
  endif()
  if(MUSTER_SANITIZE OR NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
    message(STATUS "libworker-cuda.so: not built with sanitizers or clang; its tests are")
  else()
    set(MUSTER_NVCC ${MUSTER_FOUND_NVCC})
    message(STATUS "libworker-cuda.so: built with ${MUSTER_NVCC}, CUDA ${version}")
  endif()
elseif(MUSTER_CUDA STREQUAL "on" OR EXISTS ${root} OR MUSTER_FOUND_NVCC)
  message(FATAL_ERROR "the CUDA toolkit of ${root} is not whole: nvcc ${MUSTER_FOUND_NVCC}, "
    "headers ${MUSTER_FOUND_CUDA_INCLUDE}, libraries ${MUSTER_CUDART} ${MUSTER_CUBLASLT}. Mend it, or build with MUSTER_CUDA=off")
else()
  message(STATUS "libworker-cuda.so: not built, as there is no CUDA toolkit (MUSTER_CUDA=on to insist)")
endif()
