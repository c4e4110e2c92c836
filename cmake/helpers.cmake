# muster_rooms(dir...)                              add each room that exists
# muster_library(name SOURCES ... DEPENDS ...)      a static library of one room
# muster_program(name SOURCES ... DEPENDS ...)      an executable in the build folder
# muster_test(name SOURCES ... DEPENDS ... [COST n])  a Criterion test, run by ctest with label `unit`
# muster_check(name SOURCES ... DEPENDS ... ARGS .. LABEL .. [COST n])  a plain executable run by ctest
# COST, in seconds: tests of more begin before those of less.

function(muster_rooms)
  foreach(room ${ARGN})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/CMakeLists.txt)
      add_subdirectory(${room})
    endif()
  endforeach()
endfunction()

function(muster_library name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC ${A_DEPENDS})
endfunction()

function(muster_program name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_DEPENDS})
endfunction()

function(muster_test name)
  if(NOT MUSTER_TESTS)
    return()
  endif()
  cmake_parse_arguments(A "" "COST" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${A_SOURCES} $<TARGET_OBJECTS:criterion_close>)
  # Criterion's macros are not written for our warnings.
  target_compile_options(${name} PRIVATE -Wno-undef -Wno-strict-prototypes -Wno-missing-prototypes -Wno-shadow)
  target_link_libraries(${name} PRIVATE ${A_DEPENDS} criterion)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  # Limits of what hangs: of one test, and of the program.
  add_test(NAME ${name} COMMAND ${name} --timeout 300)
  # Criterion does not notice what a sanitizer says in its children; the words count.
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 900
    ENVIRONMENT "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/lsan.supp:print_suppressions=0"
    FAIL_REGULAR_EXPRESSION "ERROR: (Leak|Address|Thread)Sanitizer;runtime error:")
  if(A_COST)
    set_tests_properties(${name} PROPERTIES COST ${A_COST})
  endif()
endfunction()

function(muster_check name)
  if(NOT MUSTER_TESTS)
    return()
  endif()
  cmake_parse_arguments(A "" "LABEL;COST" "SOURCES;DEPENDS;ARGS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_DEPENDS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} ${A_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${A_LABEL}" TIMEOUT 900
    ENVIRONMENT "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/lsan.supp:print_suppressions=0"
    FAIL_REGULAR_EXPRESSION "ERROR: (Leak|Address|Thread)Sanitizer;runtime error:")
  if(A_COST)
    set_tests_properties(${name} PROPERTIES COST ${A_COST})
  endif()
endfunction()
