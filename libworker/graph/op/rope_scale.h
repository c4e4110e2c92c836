/* The frequencies of rotary positions. Pure. Sources: Su et al. 2021; Chen et al. 2023; Peng et al.
 * 2023, section 3; Llama 3.1's configuration. */
#ifndef OP_ROPE_SCALE_H
#define OP_ROPE_SCALE_H

#include <stdint.h>

#include <worker/types.h>

#include "common/base/error.h"

/* WK_EINVAL: a number is outside its range; the sentence begins after "operation: ". */
int rope_scaling_check(const struct wk_rope_scaling *scaling, struct error *err);

/* The radians by which one position rotates pair i of a head of `size`. */
struct rope_head {
    double theta;
    int64_t size;
};
double rope_frequency(const struct wk_rope_scaling *scaling, struct rope_head head, int64_t i);

/* The factor of cosines and sines. */
double rope_amplitude(const struct wk_rope_scaling *scaling);

#endif
