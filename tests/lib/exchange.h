/* Collectives between processes, for tests: every rank publishes what it contributes to each of
 * them, in memory that the processes share, and computes its result once the others have. Nothing
 * notices the death of a process: what it did not publish never comes.
 *
 * Zeroed memory is an exchange that no rank has joined. A rank's thread calls for it; publications
 * may be repeated with the same content.
 */
#ifndef LIB_EXCHANGE_H
#define LIB_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

enum { EXCHANGE_RANKS_MAX = 4 };

struct exchange;
size_t exchange_bytes(void); /* sparse: only what is published takes memory */

/* `device` tells devices apart. Joining twice changes nothing. */
void exchange_join(struct exchange *ex, int rank, uint64_t device);
bool exchange_joined(const struct exchange *ex, int world); /* all have */
/* Another rank on this rank's device, or -1. */
int exchange_twin(const struct exchange *ex, int rank, int world);

enum exchange_kind {
    EXCHANGE_SUM,     /* in an order that is not the ranks' */
    EXCHANGE_SCATTER, /* likewise */
    EXCHANGE_GATHER,
    EXCHANGE_ALL,
    EXCHANGE_SPREAD,
};

struct exchange_call {
    uint64_t number; /* of the collective, from 0, the same on all ranks */
    enum exchange_kind kind;
    size_t count; /* as in NCCL: of a row */
    enum wk_dtype type;
    int root, rank, world;
    uint64_t place; /* of memory that other ranks see; the same on all ranks */
};

/* Elements of a call's input and output at this rank. */
size_t exchange_in(const struct exchange_call *call);
size_t exchange_out(const struct exchange_call *call);

/* This rank's part of a call. Different calls of that number on the ranks end the process. */
void exchange_publish(struct exchange *ex, const struct exchange_call *call, const void *in);

/* Whether all ranks have published theirs. */
bool exchange_there(struct exchange *ex, const struct exchange_call *call);

/* The result, once all parts are there. False: `stopped` was set first, and `out` is undefined. */
bool exchange_result(struct exchange *ex, const struct exchange_call *call, void *out,
                     const _Atomic int *stopped);

#endif
