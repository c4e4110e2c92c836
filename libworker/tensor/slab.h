/* One flat allocation of floats holding many tensors as views: aligned for vector loads, growing by
 * replacement. In place; owned by the struct around it. One thread.
 */
#ifndef TENSOR_SLAB_H
#define TENSOR_SLAB_H

#include <stddef.h>

#include "common/base/error.h"

enum { SLAB_ALIGN_BYTES = 64 };

struct slab {
    float *data;     /* [capacity], NULL at first */
    size_t capacity; /* elements */
    size_t used;     /* elements handed out since the last reset */
};

void slab_fini(struct slab *slab); /* zeroed or NULL is fine */

/* Forget all views and make room for `count` elements. Contents are not kept when the slab has to
 * grow, and are never cleared. WK_ENOMEM leaves the slab as it was, but without views.
 */
int slab_reset(struct slab *slab, size_t count, struct error *err);

/* The next view of `count` elements, aligned; the total must fit what was reset to, with each view
 * rounded up by slab_rounded.
 */
float *slab_take(struct slab *slab, size_t count);

/* Write zeros over all of it, so that its pages are there. */
void slab_touch(struct slab *slab);

/* Elements that a view of `count` occupies. */
size_t slab_rounded(size_t count);

#endif
