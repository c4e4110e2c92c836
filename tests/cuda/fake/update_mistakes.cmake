# The program cuda_update with one mistake each. planted_update(NAME FILE RIGHT WRONG): in a file of libworker/optim,
# RIGHT stands once and becomes WRONG; updates that repeat must then differ.
function(planted_update name file right wrong)
  read_with_mistake(${name} ${CMAKE_SOURCE_DIR}/libworker/optim/${file} "${right}" "${wrong}" text)
  set(changed ${CMAKE_CURRENT_BINARY_DIR}/planted/${name}.c)
  file(CONFIGURE OUTPUT ${changed} CONTENT "${text}" @ONLY)
  set(program cuda_update_${name})
  # Before the libraries: the linker then takes this one.
  add_executable(${program} $<TARGET_OBJECTS:cuda_update_run> ${changed})
  target_link_libraries(${program} PRIVATE fake_cuda wk_optim)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${program} COMMAND ${program} optimizers_on_whole_tensors_repeat)
  set_tests_properties(${program} PROPERTIES LABELS numeric TIMEOUT 300
    PASS_REGULAR_EXPRESSION "not so: |Sanitizer|fake CUDA: ")
endfunction()

set(send "    queue_send(o->queue, noted->there")
planted_update(stale_rate noted.c "${send}" "    if (o->steps == 1)\n    ${send}")
planted_update(noise_of_the_step_before noted.c "o->copy.seed, o->steps)" "o->copy.seed, o->steps - 1)")
planted_update(copied_on_another_queue noted.c "${send}"
  "    extern struct queue *beside;\n    queue_send(beside, noted->there")
planted_update(written_before_it_is_copied noted.c "event_wait(o->noted.sent, err)" "err ? 0 : 0")
planted_update(graphs_outlive_the_binding noted.c "        replay_drop(o->queue, o);" "")
planted_update(noise_stays_an_argument update.c "    a->copy.noise = 0;" "")
planted_update(numbers_of_the_next_segment update.c "segment - o->segments]" "(segment - o->segments + 1) % o->n_segments]")
