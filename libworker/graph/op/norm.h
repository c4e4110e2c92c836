/* Norms over the last dimension, by the kernel table: norm_ has a mean and maybe a bias, rms_ has
 * neither. Inputs: x, weight, bias. Outputs: the result, then what backward
 * keeps: the mean, if there is one, and rstd = 1 / standard deviation, of each row in f32. */
#ifndef OP_NORM_H
#define OP_NORM_H

#include "libworker/graph/op.h"

struct norm_attributes {
    float epsilon;
    bool mean;
};

int norm_shape(struct op_signature *s, struct error *err);
unsigned norm_keeps(const struct node *node);
size_t norm_scratch(const struct op_call *call, bool back);
void norm_cost(const struct op_call *call, bool back, struct op_cost *ret);
void norm_over_rows(const struct op_call *call);
void norm_over_rows_back(const struct op_call *call);

/* A sum and its norm (add_norm.c). */
extern const struct op_row op_add_norm;
enum { ADD_NORM_WEIGHT = 2 };

#endif
