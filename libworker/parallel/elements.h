/* Work on the elements of a strategy's arrays, enqueued on the queue of the model that has them.
 * The arrays are memory of that queue's device. One thread. */
#ifndef PARALLEL_ELEMENTS_H
#define PARALLEL_ELEMENTS_H

#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

struct wk_model;

/* data[count] *= factor; nothing for a factor of 1. */
void elements_scale(const struct wk_model *model, float *data, float factor, size_t count);

/* to[count] += from[count] */
void elements_add(const struct wk_model *model, float *to, const float *from, size_t count);

/* low[count] = from[count] in `type`, rounded; and to[count] = low[count]. */
void elements_narrow(const struct wk_model *model, enum wk_dtype type, uint16_t *low,
                     const float *from, size_t count);
void elements_widen(const struct wk_model *model, enum wk_dtype type, float *to, uint16_t *low,
                    size_t count);

/* low[count] += from[count], where low is in `type`: rounded once, in pieces that are widened in
 * `wide`, [ELEMENTS_PIECE]. */
enum { ELEMENTS_PIECE = 16384 }; /* they stay in cache */
struct elements_pieces {
    enum wk_dtype type;
    float *wide;
};
void elements_add_narrow(const struct wk_model *model, const struct elements_pieces *how,
                         uint16_t *low, const float *from, size_t count);

/* to[count] += low[count], which is widened in those pieces. */
void elements_add_widened(const struct wk_model *model, const struct elements_pieces *how,
                          float *to, uint16_t *low, size_t count);

#endif
