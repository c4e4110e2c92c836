#include "libworker/cuda/update_traffic.h"

#include "libworker/cuda/kernels/factored.h"
#include "libworker/cuda/kernels/muon.h"
#include "libworker/cuda/kernels/numbers.h"
#include "libworker/optim/launches.h"
#include "libworker/optim/muon.h"

static double floats(double count)
{
    return count * (double)sizeof(float);
}

/* Written by one kernel and read by another. */
static void pass_on(struct device_traffic *t, double bytes)
{
    t->read += bytes;
    t->written += bytes;
}

/* A copy's range may stay as it is, so it counts both ways; a kernel only writes it. */
static void copy_is_written(const struct update_args *a, struct device_traffic *t)
{
    if (a->copy.low)
        t->read -= (double)a->whole.count * (double)sizeof(*a->copy.low);
}

/* The copy has a kernel of its own. */
static void copy_apart(const struct update_args *a, struct device_traffic *t)
{
    copy_is_written(a, t);
    if (!a->copy.low)
        return;
    t->launches++;
    t->read += floats((double)a->whole.count);
}

void traffic_squares(const void *clip_args, struct device_traffic *t)
{
    const struct clip_args *a = clip_args;
    int partials = gpu_sum_partials((int64_t)a->grads.count);
    t->launches = partials ? 2 : 1;
    pass_on(t, (double)partials * (double)sizeof(double));
}

/* Elements that stay as they are are read, for their copy. `params`: their range is an update. */
static void rest(const struct update_args *a, size_t count, bool params, struct device_traffic *t)
{
    double each = floats((double)count);
    t->read -= a->whole.grads ? each : (double)count * (double)sizeof(*a->low_grads);
    t->written -= params ? each : 0;
    for (int i = 0; i < 2; i++) {
        t->read -= a->whole.state[i] ? each : 0;
        t->written -= a->whole.state[i] ? each : 0;
    }
}

void traffic_segment(const void *update_args, struct device_traffic *t)
{
    const struct update_args *a = update_args;
    copy_is_written(a, t);
    if (!a->moves)
        rest(a, a->whole.count, false, t);
}

void traffic_segments(const void *together_args, struct device_traffic *t)
{
    const struct together_args *a = together_args;
    copy_is_written(&a->range, t);
    for (int i = 0; i < a->n; i++) {
        if (!a->parts[i].moves)
            rest(&a->range, a->parts[i].count, true, t);
    }
}

/* Of a whole tensor that stays as it is, at most the copy is written: by `kernels`. */
static void rest_whole(const struct update_args *a, int kernels, struct device_traffic *t)
{
    double count = (double)a->whole.count;
    t->launches = kernels;
    t->read = kernels ? floats(count) : 0;
    t->written = a->copy.low ? count * (double)sizeof(*a->copy.low) : 0;
}

/* Gradients for the moments of rows and of columns, for the size of the update, and for the update;
 * inverse roots of the moments are left in scratch memory. */
void traffic_adafactor(const void *update_args, struct device_traffic *t)
{
    const struct update_args *a = update_args;
    const struct adafactor_numbers *n = &a->numbers.adafactor;
    if (!a->moves) {
        rest_whole(a, a->copy.low != NULL, t);
        return;
    }
    bool sums = n->relative || n->clip > 0;
    double count = (double)a->whole.count, roots = floats((double)(n->rows + n->cols));
    double moments = floats((double)(n->is_matrix ? n->rows : 0) + (double)n->cols);
    int around = (n->is_matrix ? 1 : 0) + (sums ? 1 : 0); /* kernels that also read gradients */
    t->launches = 4 + around;
    t->read += (around + 1) * floats(count) + moments;
    pass_on(t, roots);
    copy_apart(a, t);
    if (!sums)
        return;
    t->read += roots + (n->relative ? floats(count) : 0);
    pass_on(t, 2.0 * gpu_adafactor_partials((int64_t)a->whole.count) * (double)sizeof(double));
}

/* The update is made, measured, scaled, multiplied and applied. */
static void add_matrix(const struct update_args *a, struct device_traffic *t)
{
    enum { AROUND = 4, PRODUCTS = 3 };
    double count = floats((double)a->whole.count);
    double square = floats((double)a->numbers.muon.square * (double)a->numbers.muon.square);
    t->launches = AROUND + MUON_ITERATIONS * PRODUCTS;
    pass_on(t, count);
    pass_on(t, gpu_muon_partials((int64_t)a->whole.count) * (double)sizeof(double));
    pass_on(t, count);
    for (int i = 0; i < MUON_ITERATIONS; i++) {
        t->read += count; /* of the sum's first product; its others are passed on */
        pass_on(t, square);
        pass_on(t, square);
        pass_on(t, count);
    }
}

void traffic_muon(const void *update_args, struct device_traffic *t)
{
    const struct update_args *a = update_args;
    if (!a->moves) {
        rest_whole(a, 1, t);
        return;
    }
    if (!a->numbers.muon.is_matrix) {
        copy_is_written(a, t);
        return;
    }
    add_matrix(a, t);
    copy_apart(a, t);
}
