/* A function of several inputs under test: its backward pass against central differences of its
 * forward pass, with plain and with fast kernels. Random weights reduce what it gives to one
 * number, summed in double.
 */
#ifndef NN_SUBJECT_H
#define NN_SUBJECT_H

#include "libworker/nn/product.h"
#include "tests/numeric/nn/fixture.h"

enum { SUBJECT_INPUTS_MAX = 5 };

struct subject {
    const char *name;
    const struct kernel_table *kernels;
    int n_inputs;
    float *inputs[SUBJECT_INPUTS_MAX], *grads[SUBJECT_INPUTS_MAX];
    size_t counts[SUBJECT_INPUTS_MAX];
    int heads;       /* of attention */
    float smoothing; /* of the loss */
    size_t out_count;
    float *out, *dout;
    void (*forward)(struct subject *);  /* out from inputs */
    void (*backward)(struct subject *); /* grads from dout, after a forward */
};

/* The next input, normal; what comes out. */
void subject_input(struct subject *s, const char *name, size_t count, double deviation);
void subject_output(struct subject *s, size_t count);

/* Free its memory. */
void subject_release(struct subject *s);

/* Expect each gradient to be the slope. Takes the subject's memory with it. */
void subject_check(struct subject *s);

/* Expect out[i] to be `expected` but for that many roundings, beside the largest of out. */
void subject_near(const struct subject *s, int64_t i, double expected, double roundings);

/* The first input as layers take it. */
struct operand subject_x(const struct subject *s);

typedef void subject_kernels_fn(const struct kernel_table *kernels);
void subject_each(subject_kernels_fn *check_with);

#endif
