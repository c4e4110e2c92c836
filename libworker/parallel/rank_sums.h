/* Launches of the wires (wires.h), on memory of a queue's device: their names and their arguments.
 * Devices with kernels of their own find them by name (device/kernels.h). One thread.
 *
 * PARALLEL_SUM_RANKS: out[count] = rows[0] + rows[1] + … + rows[world - 1], each [count]. f32, f16
 * and bf16 are summed in float and rounded once, to nearest even; f64 in double.
 */
#ifndef PARALLEL_RANK_SUMS_H
#define PARALLEL_RANK_SUMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <worker/types.h>

struct queue;

#define PARALLEL_SUM_RANKS "sum in rank order"
#define PARALLEL_NOTE_STOP "note a stop"

struct rank_sums_args {
    const void *rows; /* [world, count] of `type` */
    void *out;        /* [count] of `out_type`; apart from rows */
    size_t count;
    int world;
    enum wk_dtype type, out_type; /* both f64, or neither */
    bool as_float;                /* f64: each number and each sum is rounded to float */
};
void rank_sums(struct queue *queue, const struct rank_sums_args *args);

/* PARALLEL_NOTE_STOP: if *stop is not 0, *finite = 0. */
struct note_stop_args {
    const _Atomic int *stop; /* pinned; any thread writes it */
    double *finite;
};
void note_stop(struct queue *queue, const struct note_stop_args *args);

#endif
