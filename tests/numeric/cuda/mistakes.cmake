# Kernels with one mistake each. planted(NAME TEST CASE KERNEL FILE RIGHT WRONG): in FILE, which KERNEL.cu is or
# includes, RIGHT stands once and becomes WRONG; the named case of a test over that kernel must then fail.
set(folder ${CMAKE_SOURCE_DIR}/libworker/cuda/kernels)
set(table_depends wk_graph docs_prelu criterion_alike)
set(optim_depends wk_optim)
set(elements_depends wk_parallel wk_graph)

function(planted name test case kernel file right wrong)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${kernel}.cu)
  read_with_mistake(${name} ${folder}/${file} "${right}" "${wrong}" text)
  set(place ${CMAKE_CURRENT_BINARY_DIR}/planted/${name})
  file(READ ${folder}/${kernel}.cu source)
  string(REPLACE "\"libworker/cuda/kernels/${file}\"" "\"${place}/${file}\"" source "${source}")
  file(CONFIGURE OUTPUT ${place}/${kernel}.cu CONTENT "${source}" @ONLY)
  file(CONFIGURE OUTPUT ${place}/${file} CONTENT "${text}" @ONLY)

  emulated_kernels(planted_${name} ${place}/${kernel}.cu)
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
planted(last_partial elements losses_are_summed_in_double numbers numbers.cu
  "i < partials" "i + 1 < partials")
planted(no_barrier_in_a_move elements rows_move_together_where_they_overlap elements elements.cu
  "T(0);\n        __syncthreads();" "T(0);")
