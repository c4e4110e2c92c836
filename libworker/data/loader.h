/* Global batches in a fixed order, and one rank's share of each.
 *
 * The cursor is the number of global samples dealt since the start, over all epochs: sample number
 * p is the (p mod samples)-th of epoch p / samples. It moves when a batch is dealt; `committed` is
 * where the last optimizer step left it, and where a rolled-back step returns to. A batch never
 * crosses the end of an epoch.
 *
 * Owned by the caller through worker/data.h. One thread.
 */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "common/base/list.h"
#include "libworker/data/permute.h"
#include "libworker/data/rows.h"
#include "libworker/data/source.h"

/* The arrays of a share, one for each field of its samples, in one allocation. A sample of tokens
 * has two, tokens and targets. */
struct loader_arrays {
    void *memory;
    int64_t capacity;                              /* samples of the loader's length */
    void *data[WK_FIELDS_MAX];                     /* NULL before there was a sample */
    struct wk_batch_tensor tensors[WK_FIELDS_MAX]; /* of rows: what the batch shows */
};

/* Samples to read, padded to `length`. */
struct share_range {
    int64_t position, count, length;
};

/* A share that was read before it is dealt (ahead.h). */
struct loader_ahead {
    struct loader_arrays arrays;
    struct share_range range; /* in them; count 0: none */
};

struct wk_loader {
    struct wk_loader_options options;
    struct wk_source *opened; /* freed with the loader; NULL where the source is the program's */
    int64_t samples;          /* of an epoch, the dropped ones included */
    int64_t length;           /* of the longest sample; 1 for rows without a length */
    int64_t cursor;
    int64_t committed;
    struct permutation order; /* of epoch `order_epoch` */
    int64_t order_epoch;      /* -1: none yet */
    struct loader_arrays arrays;
    struct loader_ahead *ahead;
    int n_ahead, ahead_capacity;
    struct wk_batch last;  /* dealt last; all zeros before one */
    double own;            /* what this rank's share of it adds to its denominator */
    int64_t batches_after; /* global batches of the epoch after it */
    double mean;           /* denominator of its step's batches on average; see loader_weigh */
    struct counts *counts; /* what its batches' losses are divided by; kept by step/, freed here */
    void *owner;           /* the context it was prepared in; kept by step/ */
    const void *owned_by;  /* the context that frees it, or NULL; kept by step/ */
    void *maker;           /* the open context it was made in, or NULL; kept by step/ */
    struct list made;      /* in the maker's list of them */
    int64_t batch_asked;   /* of the program; wk_find_batch may have halved options.batch */
};

struct loader_place {
    int rank, world;
};

struct loader_share {
    struct wk_batch batch;
    double own;
};

int loader_new(const struct wk_loader_options *options, struct wk_loader **ret, struct error *err);

/* Deal the next global batch. 1: *ret has this rank's share of it; 0: all epochs are over;
 * otherwise an error. The batch's arrays belong to the loader until the next call. */
int loader_next(struct wk_loader *loader, const struct loader_place *place, struct wk_batch *ret,
                struct error *err);

/* Look at batches after the last one dealt, which stay to be dealt. loader_look_begin
 * forgets what was read ahead and returns where to begin. loader_look returns the batch at
 * *position, with what this rank's share adds to its denominator, and moves on. With `values` it
 * also reads the share; the batch shows it until the next call. Look no further than an epoch's
 * end. WK_ENOMEM, or the program's error. */
int64_t loader_look_begin(struct wk_loader *loader);
int loader_look(struct wk_loader *loader, const struct loader_place *place, bool values,
                int64_t *position, struct loader_share *ret, struct error *err);

/* Weight the last batch by its tokens, or of rows without targets by its samples: its denominator
 * becomes the mean one of the `window` batches of its step. The mean of the batches' losses is then
 * that over all tokens. `begins`: it is the first batch of the step. Returns the denominator. */
double loader_weigh(struct wk_loader *loader, int window, bool begins);

/* Denominators are samples: of rows without targets. */
bool loader_counts_samples(const struct wk_loader *loader);

/* Whether a program's copy of a batch is the one dealt last, unchanged. */
bool loader_dealt(const struct wk_loader *loader, const struct wk_batch *batch);

/* wk_loader_seek, once it is allowed. WK_EINVAL. */
int loader_seek(struct wk_loader *loader, int64_t position);

/* Bytes of the longest sample in a batch. */
size_t loader_sample_bytes(const struct wk_loader *loader);

/* Whether the next loader_next would return 0. */
bool loader_at_end(const struct wk_loader *loader);

#endif
