# The program test_train_turns with one mistake each. planted_turn(NAME CASE FILE RIGHT WRONG): in a file of libworker,
# RIGHT stands once and becomes WRONG; the device or the case must find it.
function(planted_turn name case file right wrong)
  read_with_mistake(${name} ${CMAKE_SOURCE_DIR}/libworker/${file} "${right}" "${wrong}" text)
  set(changed ${CMAKE_CURRENT_BINARY_DIR}/planted/turns_${name}.c)
  file(CONFIGURE OUTPUT ${changed} CONTENT "${text}" @ONLY)
  set(program test_train_turns_${name})
  # Before the libraries: the linker then takes this one.
  add_executable(${program} test_turns.c rehearsed.c ${changed})
  target_link_libraries(${program} PRIVATE wk_rehearsal wk_step wk_estimate docs_prelu)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${program} COMMAND ${program} ${case})
  set_tests_properties(${program} PROPERTIES LABELS numeric TIMEOUT 300
    PASS_REGULAR_EXPRESSION "not so: |found: ")
endfunction()

planted_turn(reused_before_its_event blocks_take_turns parallel/sharded_slots.c
  "if (i == unit || (slots && slots_same(slots, unit, i)))" "if (i == unit && (slots || unit >= 0))")
planted_turn(gathered_before_its_turn blocks_take_turns parallel/sharded_params.c
  "int rc = sharded_take_gathered(s, unit);" "int rc = 0;")
planted_turn(left_before_its_sum blocks_take_turns parallel/sharded_grads.c
  "    elements_scale(s->model, grads, s->factor, sharded_elements(s, unit));"
  "    elements_scale(s->model, grads, s->factor, sharded_elements(s, unit));\n    sharded_drop(s, &s->grad_pages, unit);")
planted_turn(not_zeroed blocks_take_turns parallel/sharded_slots.c
  "        queue_fill(s->model->queue, s->grads + s->plan.units[unit].place, 0,\n                   sharded_elements(s, unit) * sizeof(*s->grads));"
  "        (void)0;")
planted_turn(narrow_not_zeroed so_they_do_in_narrow_types parallel/sharded_slots.c
  "        queue_fill(s->model->queue, s->low.grads + s->plan.units[unit].place, 0,\n                   sharded_elements(s, unit) * sizeof(*s->low.grads));"
  "        (void)0;")
planted_turn(too_few_slots blocks_take_turns parallel/unit_slots.c
  "moment <= n - 1 - unit + ahead && moment < n" "moment < n - 1 - unit + ahead && moment < n")
planted_turn(kept_after_reading other_passes_are_between parallel/sharded_slots.c
  "    int rc = slots_rest(slots);" "    int rc = 0;")
planted_turn(given_back_without_a_wait other_passes_are_between device/slots.c
  "    int rc = queue_finish(s->queue, NULL);\n    if (!rc)\n        give_back" "    int rc = 0;\n    if (!rc)\n        give_back")
