/* A sum and its norm as one launch of a GPU's kernels, beside the row of the CPU. A plan makes this
 * row itself, so no case of the table has it. */
#include <math.h>

#include "libworker/cuda/op.h"
#include "libworker/graph/op/norm.h"
#include "libworker/precision/half.h"
#include "tests/lib/check.h"
#include "tests/lib/rounding.h"

extern const struct cuda_op cuda_op_add_norm;

enum { ROWS = 11, WIDEST = 1301, ELEMENTS = ROWS * WIDEST, TENSORS = 8 };
enum { A, B, WEIGHT, BIAS, SUM, NORM, MEAN, RSTD };

struct trial {
    struct op_call call;
    struct norm_attributes attributes;
    struct node node;
    struct op_pass pass;
    float data[TENSORS][ELEMENTS]; /* narrow values are in the first half */
};

static double value_at(const struct op_tensor *x, int64_t i)
{
    const uint16_t *low = x->data;
    if (x->type == WK_F32)
        return (double)((const float *)x->data)[i];
    return (double)(x->type == WK_BF16 ? f32_of_bf16(low[i]) : f32_of_f16(low[i]));
}

static struct op_tensor tensor_of(struct trial *t, int which, enum wk_dtype type, int64_t count)
{
    struct op_tensor x = {.data = t->data[which], .type = type, .dims = 1, .count = count};
    x.shape[0] = count;
    for (int64_t i = 0; i < count; i++) {
        float value = (float)sin((double)(i * 37 + which * 11) * 0.7) * (1 + (float)(i % 5));
        if (type == WK_F32)
            t->data[which][i] = value;
        else
            ((uint16_t *)x.data)[i] = type == WK_BF16 ? bf16_of_f32(value) : f16_of_f32(value);
    }
    return x;
}

static void trial_begin(struct trial *t, int64_t width, bool mean, const enum wk_dtype types[2])
{
    int statistics = mean ? 2 : 1;
    memset(t, 0, sizeof(*t));
    t->attributes = (struct norm_attributes){1e-5f, mean};
    t->node = (struct node){
        .row = &op_add_norm, .attributes = &t->attributes, .n_in = 4, .n_out = 2 + statistics};
    t->pass.kernels = kernel_reference();
    t->call = (struct op_call){.node = &t->node, .pass = &t->pass};
    for (int i = A; i <= B; i++)
        t->call.in[i] = tensor_of(t, i, i == A ? types[0] : types[1], ROWS * width);
    t->call.in[WEIGHT] = tensor_of(t, WEIGHT, WK_F32, width);
    if (mean)
        t->call.in[BIAS] = tensor_of(t, BIAS, WK_F32, width);
    t->call.out[0] = tensor_of(t, SUM, types[0], ROWS * width);
    t->call.out[1] = tensor_of(t, NORM, types[1], ROWS * width);
    for (int i = 0; i < statistics; i++)
        t->call.out[2 + i] = tensor_of(t, MEAN + i, WK_F32, ROWS);
}

static void compare(const struct op_tensor *x, const struct op_tensor *y, double roundings)
{
    double unit = y->type == WK_BF16 ? 2 * ROUNDING_BF16 : y->type == WK_F16 ? 2 * ROUNDING_F16 : 0;
    double most = 0;
    for (int64_t i = 0; i < y->count; i++)
        most = fmax(most, fabs(value_at(y, i)));
    for (int64_t i = 0; i < y->count; i++)
        CHECK(fabs(value_at(x, i) - value_at(y, i)) <=
              rounding_bound(roundings) * most + unit * fabs(value_at(y, i)));
}

static void check_width(int64_t width, bool mean, const enum wk_dtype types[2], bool in_place)
{
    static struct trial gpu, cpu;
    static char scratch[1 << 20];
    struct cuda_queue queue = {.scratch = scratch};
    trial_begin(&gpu, width, mean, types);
    trial_begin(&cpu, width, mean, types);
    cpu.call.scratch = scratch;
    CHECK(op_add_norm.scratch_bytes(&cpu.call, false) <= sizeof(scratch));
    op_add_norm.forward(&cpu.call);
    if (in_place) {
        gpu.call.out[0].data = gpu.call.in[A].data;
        gpu.call.out[1].data = gpu.call.in[B].data;
    }
    cuda_op_add_norm.forward(&gpu.call, &queue);
    for (int64_t i = 0; i < cpu.call.out[0].count; i++)
        CHECK(value_at(&gpu.call.out[0], i) == value_at(&cpu.call.out[0], i));
    for (int i = 1; i < cpu.node.n_out; i++)
        compare(&gpu.call.out[i], &cpu.call.out[i], (double)width);
}

static void a_sum_and_its_norm_are_the_cpus(void)
{
    static const enum wk_dtype types[][2] = {
        {WK_F32, WK_F32}, {WK_BF16, WK_BF16}, {WK_F16, WK_F16}, {WK_F32, WK_BF16}};
    static const int64_t widths[] = {1, 19, 64, 1080, WIDEST};
    for (int t = 0; t < 4; t++) {
        for (int w = 0; w < 5; w++) {
            check_width(widths[w], true, types[t], false);
            check_width(widths[w], false, types[t], true);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {CHECK_CASE(a_sum_and_its_norm_are_the_cpus), {0}};
    return check_all(cases, argc, argv);
}
