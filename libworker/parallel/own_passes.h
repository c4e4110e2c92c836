/* A custom model's buffers in bf16 and f16 for the program's own passes (worker/parallel.h):
 *
 *      low (whole on this rank) ──bits────────────────► passes that take the type
 *                               ──widened─► `wide` ───► passes that take floats
 *      the float gradient ◄──added─ `given` ◄────────── passes that give it narrow
 *
 * Both are memory of the model's device, and written on its queue. On request they are in the
 * host's memory only while needed; `given` is empty between passes. Owned by the
 * strategy, whose thread calls. In float, and for models of ours, there is nothing, and calls do
 * nothing.
 */
#ifndef PARALLEL_OWN_PASSES_H
#define PARALLEL_OWN_PASSES_H

#include <stdbool.h>

#include <worker/types.h>

#include "common/base/error.h"
#include "libworker/parallel/pages.h"

struct wk_model;

struct own_passes {
    struct wk_model *model; /* borrowed; NULL: there is nothing */
    enum wk_dtype type;
    bool gives_back; /* memory, whenever it is not in use */
    struct pages wide_pages, given_pages;
    float *room; /* a piece on its way from `given` to the float gradient */
    bool *taken; /* [n_params]: in this pass */
    bool shown;  /* wide equals low */
};

/* After the model's low views are set. WK_ENOMEM. */
int own_passes_init(struct own_passes *own, struct wk_model *model, enum wk_dtype type,
                    bool gives_back, struct error *err);
void own_passes_fini(struct own_passes *own); /* zeroed memory is allowed */

/* The low copy is whole and passes may begin; it is old, or other floats are to be read. */
void own_passes_show(struct own_passes *own);
void own_passes_hide(struct own_passes *own);

/* The same for one block, which is whole on this rank; own_passes_hide is for what is left. */
void own_passes_show_block(struct own_passes *own, int block);
void own_passes_hide_block(struct own_passes *own, int block);

/* A pass begins; parameter `index` is final in it; all are. */
void own_passes_begin(struct own_passes *own);
void own_passes_take(struct own_passes *own, int index);
void own_passes_take_rest(struct own_passes *own);

/* What has been given is not wanted. */
void own_passes_forget(struct own_passes *own);

#endif
