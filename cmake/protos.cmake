# muster_protos(target file.proto...): protobuf-c sources of the schemas in proto/.
# Generated headers are included as "proto/NAME.pb-c.h".
function(muster_protos target)
  set(out ${CMAKE_BINARY_DIR}/gen)
  file(MAKE_DIRECTORY ${out}/proto)
  set(sources)
  foreach(file ${ARGN})
    get_filename_component(base ${file} NAME_WE)
    add_custom_command(
      OUTPUT ${out}/proto/${base}.pb-c.c ${out}/proto/${base}.pb-c.h
      COMMAND protoc-c --proto_path=${CMAKE_SOURCE_DIR} --c_out=${out} proto/${file}
      DEPENDS ${CMAKE_SOURCE_DIR}/proto/${file}
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)
    list(APPEND sources ${out}/proto/${base}.pb-c.c)
  endforeach()
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-w")
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} SYSTEM PUBLIC ${out})
  target_link_libraries(${target} PUBLIC protobuf-c)
endfunction()
