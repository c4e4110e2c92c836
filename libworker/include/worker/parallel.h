/* Models whose forward and backward are the program's own, and control over when gradients are
 * summed.
 *
 * A custom model is a list of named buffers. wk_prepare gives them a place in the arenas: the
 * program reads and writes parameters through wk_parameter_data and adds gradients, of the loss
 * summed over this rank's share and divided by the batch's denominator, to wk_parameter_grad. Its
 * loop is wk_next, its own forward pass, its own backward pass calling wk_grad_ready as gradients
 * become final, then wk_backward (which scales by the accumulation window, so gradients are given
 * unscaled), wk_step.
 */
#ifndef WORKER_PARALLEL_H
#define WORKER_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/export.h>

struct wk_model;

enum { WK_BUFFER_DIMS_MAX = 4 };

struct wk_buffer {
    const char *name; /* unique, below 96 bytes */
    int dims;         /* 1 … WK_BUFFER_DIMS_MAX */
    int64_t shape[WK_BUFFER_DIMS_MAX];
    const float
        *initial; /* [product of shape], copied at wk_prepare and not needed later; or NULL */
    bool decay;   /* takes part in weight decay */
};

/* WK_EINVAL, WK_ENOMEM. `buffers` are only read during the call, but for `initial`. */
WK_API int wk_custom_new(const struct wk_buffer *buffers, int n_buffers,
                         struct wk_model **ret_model);

/* Where parameter `index` and its gradient live; NULL before wk_prepare, out of range
 * and for NULL, so what could not be made needs no check. */
WK_API float *wk_parameter_data(struct wk_model *model, int index);
WK_API float *wk_parameter_grad(struct wk_model *model, int index);

/* Parameter `index` gets no more gradient in this backward pass: its sum over the ranks may start.
 * Leaving it out costs only the overlap. WK_EINVAL for an index out of range, WK_ESTATE before
 * wk_prepare. */
WK_API int wk_grad_ready(struct wk_model *model, int index);

/* While on, backward passes only add to this rank's gradients; the sum over the ranks happens in
 * the first wk_backward after it is off again. Ranks switch together. */
WK_API int wk_no_sync(struct wk_model *model, bool on);

/* Make every parameter readable on this rank, where wk_parameter_data says, until the next wk_next
 * or wk_step. Only strategy fsdp needs it (it costs the memory that the strategy saves); elsewhere
 * it does nothing. All ranks call it. WK_ESTATE before wk_prepare, or a failure of the collective.
 */
WK_API int wk_gather_parameters(struct wk_model *model);

#endif
