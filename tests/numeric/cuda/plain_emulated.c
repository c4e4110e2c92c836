/* Launches of plain_gpu.h, emulated. */
#include <stdlib.h>
#include <string.h>

#include "libworker/cuda/cuda.h"
#include "libworker/cuda/launch.h"
#include "tests/cuda/emulated/emulated.h"
#include "tests/lib/check.h"
#include "tests/numeric/cuda/plain_gpu.h"

/* Scratch memory has what an earlier launch may have left there: here NaN. */
void plain_gpu_run(const struct cuda_launch *launch, const void *args)
{
    static uint64_t seed;
    struct cuda_queue queue = {.scratch = malloc(CUDA_SCRATCH_BYTES)};
    CHECK(queue.scratch);
    memset(queue.scratch, 0xff, CUDA_SCRATCH_BYTES);
    emulated_set_seed(++seed);
    launch->run(args, &queue);
    free(queue.scratch);
}
