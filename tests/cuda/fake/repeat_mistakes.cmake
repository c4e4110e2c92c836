# The program cuda_repeat with one mistake each. planted_repeat(NAME CASE FILE RIGHT WRONG): in a file of
# libworker/device, RIGHT stands once and becomes WRONG; the case must then fail.
function(planted_repeat name case file right wrong)
  read_with_mistake(${name} ${CMAKE_SOURCE_DIR}/libworker/device/${file} "${right}" "${wrong}" text)
  set(changed ${CMAKE_CURRENT_BINARY_DIR}/planted/${name}.c)
  file(CONFIGURE OUTPUT ${changed} CONTENT "${text}" @ONLY)
  set(program cuda_repeat_${name})
  # Before the libraries: the linker then takes this one.
  add_executable(${program} repeat.c ${changed})
  target_link_libraries(${program} PRIVATE fake_cuda)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${program} COMMAND ${program} ${case})
  set_tests_properties(${program} PROPERTIES LABELS conformance TIMEOUT 300
    PASS_REGULAR_EXPRESSION "not so: |Sanitizer|fake CUDA: |assertion")
endfunction()

planted_repeat(argument_is_baked_in an_argument_that_changes_counts replay.c
  "memcmp(x->args, y->args, x->args_bytes) == 0" "true")
planted_repeat(source_is_baked_in a_copy_from_elsewhere_is_another replay.c "c->from == d->from && " "")
planted_repeat(held_back_work_is_lost an_argument_that_changes_counts replay.c
  "        enqueue_work(queue, &work);\n        write_down" "        write_down")
planted_repeat(longer_sequence_is_taken several_sequences_take_turns replay.c
  "r->alive[i]->n == r->n" "r->alive[i]->n >= r->n")
planted_repeat(record_does_not_end_it events_end_a_sequence device.c
  "end_sequence(queue);\n    return queue->device->ops->record" "return queue->device->ops->record")
planted_repeat(dropped_graphs_stay what_was_captured_is_of_no_use_after_a_change replay.c
  "if (is_dropped(record, owner)) {" "if (false) {")
planted_repeat(graph_is_freed_too_early owners_drop_their_own replay.c
  "ops->finish(ops->record(queue));" "(void)ops;")
planted_repeat(nothing_is_captured a_sequence_becomes_a_graph replay.c
  "        capture(queue, record);\n    if" "        (void)capture;\n    if")
