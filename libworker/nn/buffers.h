/* The buffers of a model: values without gradient that steps carry on, such as running statistics.
 * There are three of each, in memory of the model's place:
 *
 *     content   as of the last step: what evaluations read and checkpoints have
 *     window    as the window's passes have left it: what the next of them reads
 *     pass      as the pass under way will leave it
 *
 *               forward            end of backward          step taken
 *     window ──────────► pass ──────────────► window ──────────────► content
 *                                                ▲  any other end of the window  │
 *                                                └───────────────────────────────┘
 *
 * `host` is where they are read to and written from: memory of its own, so that nothing fails
 * between two ranks. Owned by the model; one thread.
 */
#ifndef NN_BUFFERS_H
#define NN_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct param;
struct wk_model;

struct buffers {
    struct param *list; /* [n]: name, shape, count, and offset among all; NULL: none */
    int n;
    size_t count;    /* elements of all */
    float *host;     /* [count] */
    double *sums;    /* [count + 1], for a mean over the ranks */
    int64_t samples; /* of this window's passes */
};

enum buffer_stage { BUFFERS_CONTENT, BUFFERS_WINDOW };

/* Of a model's implementation; as the functions below. reset: host gets the first values. */
struct buffer_ops {
    void (*reset)(struct wk_model *);
    int (*read)(struct wk_model *, enum buffer_stage, struct error *);
    int (*write)(struct wk_model *, enum buffer_stage, struct error *);
    void (*keep)(struct wk_model *);
    void (*drop)(struct wk_model *);
};

/* All of these do nothing for a model without buffers. read: all of them to host. write: from host;
 * content is the window's, too. The place's failure, WK_ENOMEM. */
int buffers_read(struct wk_model *model, enum buffer_stage stage, struct error *err);
int buffers_write(struct wk_model *model, enum buffer_stage stage, struct error *err);

/* First values: with `values` those of the model's weights from elsewhere (model_values), where it
 * has them. Fails as that and as buffers_write. */
int buffers_reset(struct wk_model *model, bool values, struct error *err);

/* The window ends: keep what its passes have left, or drop it. */
void buffers_keep(struct wk_model *model);
void buffers_drop(struct wk_model *model);

/* Memory for the table; the list is zeroed. WK_ENOMEM. buffers_fini accepts zeroed memory. */
int buffers_init(struct buffers *buffers, int n, size_t count);
void buffers_fini(struct buffers *buffers);

#endif
