/* The numbers of Muon's update of a matrix, for the host's kernels and devices' own. Pure. */
#ifndef OPTIM_MUON_H
#define OPTIM_MUON_H

#include <math.h>

#include "libworker/optim/optimizer_ops.h"

/* States, and places in a step's scratch memory of 2 count + 2 side^2 floats. */
enum { MUON_MOMENTUM, MUON_AVG, MUON_AVG_SQ };

/* A step of Newton and Schulz is x = a x + (b s + c s^2) x with s = x x^T. If x^T x is smaller, s
 * is that, and is multiplied from the right. Before the first, x is divided by its length plus
 * MUON_EPSILON. */
enum { MUON_ITERATIONS = 5 };
static const float MUON_A = 3.4445f, MUON_B = -4.7750f, MUON_C = 2.0315f;
static const double MUON_EPSILON = 1e-7;

/* params = a params + b update, for a matrix of `count` elements. An update's root mean square is
 * about 0.2, as that of Adam's. */
static inline struct kernel_blend muon_step(const struct muon_numbers *m, size_t count)
{
    double larger = (double)count / (double)m->square;
    return (struct kernel_blend){(float)(1 - m->rate * m->weight_decay),
                                 (float)(-m->rate * 0.2 * sqrt(larger))};
}

#endif
