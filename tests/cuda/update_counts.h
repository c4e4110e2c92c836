/* What is counted of a step's end (estimate/traffic.h), beside what wk_step does on the fake
 * runtime. */
#ifndef CUDA_UPDATE_COUNTS_H
#define CUDA_UPDATE_COUNTS_H

#include <worker/types.h>

enum { UPDATE_KINDS = 7 }; /* sgd, momentum, adam, adamw, lion, adafactor, muon */

/* Train with it, a group of parameters resting: launch by launch of wk_step, the kernels are as
 * many as counted, and move the counted bytes. */
void update_counts_are_measured(int kind, enum wk_dtype compute);

#endif
