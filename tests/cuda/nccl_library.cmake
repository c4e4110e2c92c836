# Opening NCCL's library beside the program, and the same with one mistake each. library_program(NAME SOURCES...)
target_link_libraries(nccl_gate PRIVATE -Wl,--no-as-needed fake_nccl)
set_target_properties(nccl_gate PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

function(library_program name)
  add_executable(${name} nccl_library.c ${cuda}/nccl_api.c ${ARGN})
  target_link_libraries(${name} PRIVATE base dl pthread)
  target_link_options(${name} PRIVATE -Wl,--wrap=pthread_cond_wait)
  add_dependencies(${name} nccl_gate)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/libworker/include)
  target_include_directories(${name} SYSTEM PRIVATE ${NCCL_INCLUDE} ${CUDART_INCLUDE})
  target_compile_definitions(${name} PRIVATE "GATED_NCCL=\"$<TARGET_FILE:nccl_gate>\"")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

library_program(cuda_nccl_library ${cuda}/nccl_library.c)
add_test(NAME cuda_nccl_library COMMAND cuda_nccl_library)
set_tests_properties(cuda_nccl_library PROPERTIES LABELS unit TIMEOUT 900
  FAIL_REGULAR_EXPRESSION "ERROR: (Leak|Address|Thread)Sanitizer;runtime error:")

# planted_library(NAME CASE RIGHT WRONG): in nccl_library.c RIGHT stands once and becomes WRONG; the case must then fail.
function(planted_library name case right wrong)
  read_with_mistake(${name} ${cuda}/nccl_library.c "${right}" "${wrong}" text)
  set(changed ${CMAKE_CURRENT_BINARY_DIR}/planted/${name}.c)
  file(CONFIGURE OUTPUT ${changed} CONTENT "${text}" @ONLY)
  library_program(cuda_nccl_library_${name} ${changed})
  add_test(NAME cuda_nccl_library_${name} COMMAND cuda_nccl_library_${name} ${case})
  set_tests_properties(cuda_nccl_library_${name} PROPERTIES LABELS unit TIMEOUT 300
    PASS_REGULAR_EXPRESSION "not so: |Sanitizer")
endfunction()

planted_library(opens_at_once the_program_goes_on_while_it_is_opened
  "library->loads = start_thread(library)" "(void)start_thread, load(library), library->ready = true")
planted_library(error_is_forgotten an_open_has_the_error_of_the_thread "    return library->rc;\n}" "    return 0;\n}")
planted_library(fork_is_not_seen a_forked_process_does_not_wait_for_the_thread
  "library->loads && getpid() != library->starter" "false && getpid() != library->starter")
