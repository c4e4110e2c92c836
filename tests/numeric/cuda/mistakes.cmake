# Kernels with one mistake each. planted(NAME TEST CASE KERNEL FILE RIGHT WRONG): in FILE, which KERNEL.cu is or
# includes, RIGHT stands once and becomes WRONG; the named case of a test over that kernel must then fail.
set(folder ${CMAKE_SOURCE_DIR}/libworker/cuda/kernels)
set(table_depends wk_graph docs_prelu criterion_alike)
set(optim_depends wk_optim)
set(elements_depends wk_parallel wk_graph)
set(muon_depends fake_cuda wk_optim)
set(products_depends fake_cuda wk_graph docs_prelu criterion_alike)

function(planted name test case kernel file right wrong)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${kernel}.cu)
  read_with_mistake(${name} ${folder}/${file} "${right}" "${wrong}" text)
  set(root ${CMAKE_CURRENT_BINARY_DIR}/planted/${name}) # it comes before the source's, so that any header finds it
  set(place ${root}/libworker/cuda/kernels)
  file(READ ${folder}/${kernel}.cu source)
  file(CONFIGURE OUTPUT ${place}/${kernel}.cu CONTENT "${source}" @ONLY)
  file(CONFIGURE OUTPUT ${place}/${file} CONTENT "${text}" @ONLY)

  emulated_kernels(planted_${name} ${place}/${kernel}.cu)
  target_include_directories(planted_${name} BEFORE PRIVATE ${root})
  set_source_files_properties(${place}/${kernel}.cu PROPERTIES OBJECT_DEPENDS ${place}/${file})
  set(program mistake_${name})
  # As an object: of a library, the linker takes only what is called before it gets there.
  add_executable(${program} ${${test}_sources} $<TARGET_OBJECTS:planted_${name}>)
  target_link_libraries(${program} PRIVATE wk_cuda cuda_kernels ${${test}_depends})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${program} COMMAND ${program} ${case})
  set_tests_properties(${program} PROPERTIES LABELS numeric TIMEOUT 900
    PASS_REGULAR_EXPRESSION "not so: |Sanitizer|emulated: ")
endfunction()

planted(no_epsilon table forward_is_the_reference norm norm.cu
  "(float)n.width + n.epsilon)" "(float)n.width)")
planted(last_block table backward_is_the_slope norm norm.cu
  "b < blocks" "b + 1 < blocks")
planted(unmerged table backward_is_the_slope embedding embedding.cu
  "tile_steps(tile, first, size, TILE / 2)" "tile_steps(tile, first, size, TILE / 4)")
planted(lost_piece table backward_is_the_slope embedding embedding.cu
  "sum += a.heads[chunk * a.width + column]" "sum = a.heads[chunk * a.width + column]")
planted(units_of_sums table forward_is_the_reference softmax softmax.cu
  "own.sum * power_from(own.most, most)" "own.sum")
planted(no_barrier table backward_is_the_slope norm columns.h
  "        __syncthreads();\n        if (threadIdx.y < half)" "        if (threadIdx.y < half)")
planted(stride table backward_is_the_slope pool pool.cu
  "first / p.stride + 1" "first / p.stride")
planted(past_the_end optim elementwise_optimizers_have_the_bits_of_the_plain_kernels update update.cu
  "q.first + j < q.end" "q.first + j <= q.end")
planted(always_applies optim elementwise_optimizers_have_the_bits_of_the_plain_kernels update update.cu
  "        return;\n    const part<Rule>" "        (void)p;\n    const part<Rule>")
planted(next_part optim elementwise_optimizers_have_the_bits_of_the_plain_kernels update update.cu
  "first_block <= blockIdx.x" "first_block < blockIdx.x")
planted(chance_by_range optim copies_are_rounded_by_the_same_chance update update.cu
  "copy.first + (uint64_t)i" "(uint64_t)i")
planted(forgets_nothing muon matrices_move_as_on_the_cpu muon muon.cu
  "m.decay * momentum[j] + fresh * grads[j];" "momentum[j] + fresh * grads[j];")
planted(looks_no_step_ahead muon matrices_move_as_on_the_cpu muon muon.cu
  "m.nesterov ? fresh * grads[j]" "m.nesterov ? 0 * grads[j]")
planted(always_nesterov muon without_nesterov_too muon muon.cu
  "m.nesterov ? fresh" "true ? fresh")
planted(length_of_a_part muon matrices_move_as_on_the_cpu muon muon.cu
  "i < partials" "i + 1 < partials")
planted(moves_without_a_step muon matrices_move_as_on_the_cpu muon muon.cu
  "!m.factor.applies || *m.factor.applies > 0" "!m.factor.applies || *m.factor.applies <= 1")
planted(gradient_of_another_type products gradients_of_curves_may_be_narrow curve curve.cu
  "struct gpu_value to = {dx.at, low};" "struct gpu_value to = {dx.at, WK_F16};")
planted(narrow_sums_read_as_others products gradients_of_linear_may_be_narrow product product.cu
  "element_read(s.x.at, s.x.type," "element_read(s.x.at, s.x.type == WK_F32 ? WK_F32 : WK_F16,")
planted(narrow_gradient_of_attention products gradients_of_attention_may_be_narrow attention_bf16 attention_slopes.h
  "element_write(to->at, to->type, line" "element_write(to->at, to->type == WK_BF16 ? WK_F16 : to->type, line")
planted(last_partial elements losses_are_summed_in_double numbers numbers.cu
  "i < partials" "i + 1 < partials")
planted(no_barrier_in_a_move elements rows_move_together_where_they_overlap elements elements.cu
  "T(0);\n        __syncthreads();" "T(0);")
