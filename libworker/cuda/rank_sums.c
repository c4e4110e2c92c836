/* Sums in rank order on a GPU, and the word that stops an update (parallel/rank_sums.h). */
#include "libworker/cuda/kernels/rank_sums.h"
#include "libworker/cuda/launch.h"
#include "libworker/parallel/rank_sums.h"

static void run_sums(const void *args, struct cuda_queue *queue)
{
    const struct rank_sums_args *a = args;
    int64_t count = (int64_t)a->count;
    const struct gpu_rank_numbers numbers = {a->rows, a->out, count, a->world, a->as_float};
    const struct gpu_rank_sums sums = {
        {(void *)(uintptr_t)a->rows, a->type}, {a->out, a->out_type}, count, a->world};
    if (a->type == WK_F64)
        gpu_sum_rank_numbers(&numbers, queue->stream);
    else
        gpu_sum_ranks(&sums, queue->stream);
}

static void run_note(const void *args, struct cuda_queue *queue)
{
    const struct note_stop_args *a = args;
    gpu_note_stop((const int *)(const void *)a->stop, a->finite, queue->stream);
}

const struct cuda_launch cuda_launch_parallel_note_stop = {PARALLEL_NOTE_STOP, run_note};
const struct cuda_launch cuda_launch_parallel_sum_ranks = {PARALLEL_SUM_RANKS, run_sums};
