/* One rank's share of a global batch: which samples it has, how long they are, and their values in
 * the loader's arrays. Part of a loader. One thread. */
#ifndef DATA_SHARE_H
#define DATA_SHARE_H

#include "libworker/data/loader.h"

/* Of some samples: the length of the longest, and what they add to a denominator. */
struct share_size {
    int64_t length;
    double divisor;
};

/* The `count` samples from `position` on, within one epoch. WK_EINVAL: the program's length_of
 * returned one that is out of bounds; *ret has those before it. */
int share_measure(struct wk_loader *loader, int64_t position, int64_t count, struct share_size *ret,
                  struct error *err);

/* Bytes of the longest sample in a batch. */
size_t share_sample_bytes(const struct wk_loader *loader);

/* Read these samples into the arrays, which grow for it. WK_ENOMEM, or the error of the program's
 * read. */
int share_read(struct wk_loader *loader, struct loader_arrays *arrays,
               const struct share_range *range, struct error *err);

/* Let the batch show the arrays; its length is set already. */
void share_show(const struct wk_loader *loader, struct loader_arrays *arrays,
                struct wk_batch *batch);

#endif
