# The same (mistakes.cmake) in kernels of operations on elements and shapes.
planted(no_barrier_in_columns table backward_is_the_slope repeat_sum repeat_sum.cu
  "* WIDTH + j] = r.sum[j];\n    __syncthreads();" "* WIDTH + j] = r.sum[j];")
planted(last_chunk table backward_is_the_slope repeat_sum repeat_sum.cu
  "k < chunks" "k + 1 < chunks")
planted(wrong_tail table forward_is_the_reference repeat repeat.cu
  "within + s.count <= r.size[last].by && r.stride[last]" "within < r.size[last].by && r.stride[last]")
planted(no_barrier_in_a_tile table forward_is_the_reference turn turn.cu
  "        __syncthreads();\n        for (int i = down" "        for (int i = down")
planted(a_row_too_many table forward_is_the_reference turn turn.cu
  "if (row < m.rows && column < m.columns)\n                Element::put" "if (row <= m.rows && column < m.columns)\n                Element::put")
planted(half_of_the_votes table backward_is_the_slope scatter scatter.cu
  "__ballot_sync(0xffffffffu, came)" "__ballot_sync(0xffffu, came)")
planted(unset_count table backward_is_the_slope scatter scatter.cu
  "    if (lane == 0)\n        counts[warp]" "    if (lane == 0 && votes)\n        counts[warp]")
planted(read_before_found table backward_is_the_slope scatter scatter.cu
  "from;\n    __syncthreads();\n    return all;" "from;\n    return all;")
planted(lost_add table gradients_are_added_or_overwrite rope rope.cu
  "x[j] += before[j]" "x[j] += 0 * before[j]")
planted(one_key_for_all_tiles table forward_is_the_reference dropout dropout.cu
  "(uint64_t)(at / DROPOUT_TILE * DROPOUT_TILE)" "(uint64_t)(at * 0)")
planted(unit_too_large table forward_is_the_reference move move.cu
  "m->from_first | m->from_apart) *" "m->from_apart) *")
