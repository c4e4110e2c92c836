# The program cuda_nccl_memory with one mistake each, which the fake NCCL or a case finds. planted_memory(NAME CASE FILE
# RIGHT WRONG): in a file of libworker, RIGHT stands once and becomes WRONG.
function(planted_memory name case file right wrong)
  read_with_mistake(${name} ${CMAKE_SOURCE_DIR}/libworker/${file} "${right}" "${wrong}" text)
  set(changed ${CMAKE_CURRENT_BINARY_DIR}/planted/memory_${name}.c)
  file(CONFIGURE OUTPUT ${changed} CONTENT "${text}" @ONLY)
  set(program cuda_nccl_memory_${name})
  memory_program(${program} ${changed})
  add_test(NAME ${program} COMMAND ${program} ${case})
  set_tests_properties(${program} PROPERTIES LABELS numeric TIMEOUT 300
    PASS_REGULAR_EXPRESSION "not so: |Sanitizer|fake CUDA: |fake NCCL: |exchange: ")
endfunction()

planted_memory(freed_while_shared memory_may_be_freed_before_its_wire cuda/nccl_memory.c
  "withdraw_one(wire, enrolled_at(wire, memory));" "(void)withdraw_one, (void)enrolled_at(wire, memory);")
planted_memory(freed_as_ordinary what_is_used_in_each_step_is_shared cuda/memory.c
  "kind == MEMORY_DEVICE && device->nccl_free" "false && device->nccl_free")
planted_memory(kept_to_the_end what_is_used_in_each_step_is_shared cuda/nccl_memory.c
  "    for (int i = 0; i < wire->n_enrolled; i++)\n        deregister(wire, &wire->enrolled[i]);" "    (void)deregister;")
planted_memory(shared_alone all_ranks_share_or_none parallel/wires.c
  "memory->shared = least[0] && least[1] == -least[2];" "memory->shared = wires->ops->shares(w->wire, memory->at);")
planted_memory(order_differs what_is_used_in_each_step_is_shared parallel/sharded.c
  "    size_t narrow = sizeof(uint16_t);\n    if (!s->grad"
  "    size_t narrow = sizeof(uint16_t);\n    if (wk_comm_rank(comm) == 1 && !s->low.params && !s->grad_pages.slots) {\n        wire_enroll(&s->gathers, comm, s->params, s->plan.padded * 4);\n        wire_enroll(&s->sums, comm, s->grads, s->trained.padded * 4);\n        wire_enroll(&s->gathers, comm, s->own_params, s->plan.shard * 4);\n        return;\n    }\n    if (!s->grad")
planted_memory(tried_again where_windows_fail_no_memory_is_shared parallel/wires.c
  "    wires->unshared = true;" "")
planted_memory(all_is_shared memory_may_be_freed_before_its_wire cuda/nccl_memory.c
  "return piece && wire->n_enrolled" "return wire->n_enrolled")
