#include "tests/numeric/graph/harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <worker/nn.h>

#include "libworker/nn/random.h"
#include "libworker/precision/half.h"

enum { GUARD = 128, GUARD_BYTE = 0xa5, BUFFERS_MAX = 32, LENGTH = 5 };

/* Memory between two guards, with a copy of what must not change. */
struct guarded {
    unsigned char *all, *data, *copy;
    size_t bytes;
};

const struct op_case *case_at(int i)
{
    static const struct op_case *const lists[] = {cases_elements, cases_shapes,   cases_images,
                                                  cases_losses,   cases_products, cases_custom,
                                                  cases_batches};
    for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++) {
        for (const struct op_case *c = lists[l]; c->row; c++) {
            if (i-- == 0)
                return c;
        }
    }
    return NULL;
}

const char *case_name(const struct op_case *c)
{
    static char text[96];
    snprintf(text, sizeof(text), "%s (%s)", c->row, c->what);
    return text;
}

static void *buffer_new(struct trial *t, size_t bytes)
{
    cr_assert_lt(t->n_buffers, BUFFERS_MAX);
    struct guarded *b = &t->buffers[t->n_buffers++];
    size_t before = GUARD + t->options.shift;
    b->bytes = bytes;
    b->all = aligned_alloc(64, (before + bytes + GUARD + 63) / 64 * 64);
    cr_assert_not_null(b->all);
    b->data = b->all + before;
    memset(b->all, GUARD_BYTE, before + bytes + GUARD);
    memset(b->data, 0xff, bytes); /* NaN in every type */
    return b->data;
}

/* Remember all buffers as they are. */
static void buffers_note(struct trial *t)
{
    for (int i = 0; i < t->n_buffers; i++) {
        struct guarded *b = &t->buffers[i];
        free(b->copy);
        b->copy = malloc(b->bytes + 1);
        cr_assert_not_null(b->copy);
        memcpy(b->copy, b->data, b->bytes);
    }
}

static bool is_written(const struct trial *t, const void *data, bool backward)
{
    const struct op_call *call = &t->call;
    bool written = data == call->scratch;
    for (int i = 0; i < t->node->n_out; i++)
        written |= !backward && data == call->out[i].data;
    for (int i = 0; i < t->node->n_in; i++)
        written |= backward && data == call->d_in[i].data;
    return written;
}

/* Guards are whole, and what this kernel only reads is as noted. */
static void buffers_check(const struct trial *t, bool backward)
{
    const char *pass = backward ? "backward" : "forward";
    for (int i = 0; i < t->n_buffers; i++) {
        const struct guarded *b = &t->buffers[i];
        bool whole = true;
        for (const unsigned char *p = b->all; p < b->data; p++)
            whole &= *p == GUARD_BYTE;
        for (int k = 0; k < GUARD; k++)
            whole &= b->data[b->bytes + (size_t)k] == GUARD_BYTE;
        if (!whole)
            cr_expect(false, "%s: %s writes beside buffer %d", case_name(t->c), pass, i);
        if (!is_written(t, b->data, backward) && memcmp(b->data, b->copy, b->bytes))
            cr_expect(false, "%s: %s changes buffer %d", case_name(t->c), pass, i);
    }
}

double tensor_value(const struct op_tensor *tensor, int64_t i)
{
    switch (tensor->type) {
    case WK_F32:
        return (double)((const float *)tensor->data)[i];
    case WK_BF16:
        return (double)f32_of_bf16(((const uint16_t *)tensor->data)[i]);
    case WK_F16:
        return (double)f32_of_f16(((const uint16_t *)tensor->data)[i]);
    case WK_I32:
        return ((const int32_t *)tensor->data)[i];
    case WK_F64:
        return ((const double *)tensor->data)[i];
    case WK_I64:
        return (double)((const int64_t *)tensor->data)[i];
    case WK_U8:
    case WK_BOOL:
        return ((const uint8_t *)tensor->data)[i];
    }
    return 0;
}

void tensor_put(const struct op_tensor *tensor, int64_t i, double value)
{
    if (tensor->type == WK_F32)
        ((float *)tensor->data)[i] = (float)value;
    else if (tensor->type == WK_BF16)
        ((uint16_t *)tensor->data)[i] = bf16_of_f32((float)value);
    else if (tensor->type == WK_F16)
        ((uint16_t *)tensor->data)[i] = f16_of_f32((float)value);
    else if (tensor->type == WK_F64)
        ((double *)tensor->data)[i] = value;
    else if (tensor->type == WK_I64)
        ((int64_t *)tensor->data)[i] = (int64_t)value;
    else if (tensor->type == WK_U8)
        ((uint8_t *)tensor->data)[i] = (uint8_t)value;
    else if (tensor->type == WK_BOOL)
        ((uint8_t *)tensor->data)[i] = (int)value % 2;
    else
        ((int32_t *)tensor->data)[i] = (int32_t)value;
}

double *tensor_doubles(const struct op_tensor *tensor)
{
    double *x = malloc(((size_t)tensor->count + 1) * sizeof(*x));
    cr_assert_not_null(x);
    for (int64_t i = 0; i < tensor->count; i++)
        x[i] = tensor_value(tensor, i);
    return x;
}

double largest_of(const double *x, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fabs(x[i]) > most || isnan(x[i]) ? fabs(x[i]) : most;
    return most;
}

static double normal_at(uint64_t key, int64_t i)
{
    double pair[2];
    random_normal_pair(key, (uint64_t)i / 2, pair);
    return pair[i % 2];
}

static bool is_index(enum fill fill)
{
    return fill == FILL_INDEX || fill == FILL_TARGET || fill == FILL_STARTS;
}

static double filled(const struct trial *t, enum fill fill, uint64_t key, int64_t i)
{
    static const double extremes[] = {1e4, -1e4, 1e-6, -1e-6, 80, -80, 20, -20, 0};
    const struct op_row *row = t->node->row;
    int64_t bound = row->index_bound ? row->index_bound(t->node) : 1;
    if (fill == FILL_SHARE)
        return random_uniform(key, (uint64_t)i);
    if (fill == FILL_TARGET && i % 3 == 2)
        return WK_IGNORED;
    if (fill == FILL_INDEX || fill == FILL_TARGET)
        return (double)(random_bits(key, (uint64_t)i) % (uint64_t)bound);
    if (fill == FILL_STARTS)
        return (double)(i % t->options.length / 2 * 2);
    if (fill == FILL_WHOLE)
        return (double)(random_bits(key, (uint64_t)i) % 201);
    if (fill == FILL_EXTREME && i % 3 == 1)
        return extremes[i / 3 % 9];
    return normal_at(key, i);
}

static struct op_tensor tensor_of(const struct trial *t, const struct wk_tensor *like,
                                  enum wk_dtype type)
{
    struct sizes sizes = {t->options.samples, t->options.length};
    struct op_tensor tensor = {.type = type, .dims = like->dims, .count = 1};
    for (int i = 0; i < like->dims; i++) {
        tensor.shape[i] = dim_size(like->shape[i], &sizes);
        tensor.count *= tensor.shape[i];
    }
    return tensor;
}

const struct kernel_table *case_kernels(const struct op_case *c)
{
    for (int i = 0; op_row_at(i); i++) {
        if (!strcmp(op_row_at(i)->name, c->row) && op_row_at(i)->factors)
            return kernel_named("cpu-own");
    }
    return kernel_cpu();
}

/* Index `i` of a dimension, among all positions. Samples are outermost, positions next. */
static int64_t index_in_all(const struct trial *t, struct dim d, int64_t i)
{
    int64_t span = t->options.length * d.fixed, sample = i / span, within = i % span;
    if (d.length != 1 || !t->options.of_length)
        return i;
    return sample * t->options.of_length * d.fixed + t->options.first_position * d.fixed + within;
}

static int64_t size_in_all(const struct trial *t, struct dim d)
{
    struct sizes sizes = {t->options.samples, t->options.of_length};
    if (!t->options.of_length)
        sizes.length = t->options.length;
    return dim_size(d, &sizes);
}

int64_t trial_index(const struct trial *t, const struct op_tensor *x, const struct wk_tensor *like,
                    int64_t i)
{
    int64_t index = 0, inner = 1;
    for (int d = like->dims - 1; d >= 0; d--) {
        index += index_in_all(t, like->shape[d], i % x->shape[d]) * inner;
        inner *= size_in_all(t, like->shape[d]);
        i /= x->shape[d];
    }
    return index;
}

/* The number of element i in the tensor of all samples and positions, sample by sample: a sample
 * alone has the values that it has among others, and so have some positions of it. */
static int64_t number_of(const struct trial *t, const struct op_tensor *x,
                         const struct wk_tensor *like, int64_t element)
{
    int64_t inner = 1, outer = 1, each = 1, i = trial_index(t, x, like, element);
    int d = like->dims - 1;
    for (; d >= 0 && !like->shape[d].samples; d--)
        inner *= size_in_all(t, like->shape[d]);
    if (d < 0 || !t->options.samples)
        return i;
    each = size_in_all(t, like->shape[d]) / t->options.samples * inner;
    for (int k = 0; k < d; k++)
        outer *= size_in_all(t, like->shape[k]);
    int64_t sample = i / each % t->options.samples, before = i / each / t->options.samples;
    return ((t->options.first_sample + sample) * outer + before) * each + i % each;
}

static void input_fill(struct trial *t, int i)
{
    const struct op_tensor *in = &t->call.in[i];
    char name[64];
    snprintf(name, sizeof(name), "%s %s %d", t->c->row, t->c->what, i);
    uint64_t key = random_key(1, name);
    for (int64_t k = 0; k < in->count; k++) {
        int64_t number = number_of(t, in, t->node->in[i], k);
        tensor_put(in, k, filled(t, t->c->in[i].fill, key, number));
    }
    if (t->c->in[i].fill == FILL_COUNTED)
        tensor_put(in, in->count - 1, 8);
}

static void inputs_new(struct trial *t)
{
    for (int i = 0; i < t->node->n_in; i++) {
        const struct wk_tensor *like = t->node->in[i];
        if (!like)
            continue;
        bool low = like->type == WK_F32 && (like->kind != TENSOR_PARAM || like->dims > 1) &&
                   !(t->c->wide & OP_IN(i));
        t->call.in[i] = tensor_of(t, like, low ? t->options.in_type : like->type);
        size_t bytes = (size_t)t->call.in[i].count * wk_dtype_bytes(t->call.in[i].type);
        t->call.in[i].data = buffer_new(t, bytes);
        input_fill(t, i);
    }
}

/* Values that backward reads: as the row says, or the kernels. */
static unsigned ask_keeps(const struct trial *t, struct op_call *call)
{
    const struct op_row *row = t->node->row;
    unsigned keeps = row->keeps_of ? row->keeps_of(t->node) : row->keeps;
    call->pass = &t->pass;
    if (trial_kernels.keep && trial_kernels.has(row, false))
        trial_kernels.keep(call, &keeps);
    return keeps;
}

static void outputs_new(struct trial *t)
{
    for (int i = 0; i < t->node->n_out; i++) {
        const struct wk_tensor *like = t->node->out[i];
        bool low = i == 0 && like->type == WK_F32 && !(t->c->wide & OP_OUT(0));
        t->call.out[i] = tensor_of(t, like, low ? t->options.out_type : like->type);
    }
    (void)ask_keeps(t, &t->call);
    for (int i = 0; i < t->node->n_out; i++) {
        size_t bytes = (size_t)t->call.out[i].count * wk_dtype_bytes(t->call.out[i].type);
        if (i == 0 && t->options.in_place)
            t->call.out[i].data = t->call.in[0].data;
        else
            t->call.out[i].data = buffer_new(t, bytes);
    }
}

static void graph_build(struct trial *t)
{
    struct wk_tensor *in[NODE_INPUTS_MAX] = {0};
    t->graph = wk_graph_new("trial");
    for (int i = 0; i < NODE_INPUTS_MAX; i++) {
        const struct op_input *like = &t->c->in[i];
        char name[8];
        bool index = is_index(like->fill);
        snprintf(name, sizeof(name), "in%d", i);
        if (!like->shape.dims)
            continue;
        in[i] = like->param
                    ? wk_graph_param(t->graph, name, like->shape, NULL)
                    : wk_graph_input(t->graph, name, index ? WK_I32 : like->type, like->shape);
        cr_assert_not_null(in[i], "%s: %s", case_name(t->c), wk_graph_error(t->graph));
        in[i]->trains = !index && like->type == WK_F32;
    }
    struct wk_tensor *out = t->c->build(t->c, in);
    cr_assert_not_null(out, "%s: %s", case_name(t->c), wk_graph_error(t->graph));
    t->node = out->node;
    cr_assert_str_eq(t->node->row->name, t->c->row);
}

struct trial trial_new(const struct op_case *c, const struct trial_options *options)
{
    struct trial t = {.options = *options, .c = c};
    t.buffers = calloc(BUFFERS_MAX, sizeof(*t.buffers));
    cr_assert_not_null(t.buffers);
    t.options.length = options->length ? options->length : LENGTH;
    t.pass = (struct op_pass){.kernels = options->kernels ? options->kernels : kernel_cpu(),
                              .device = trial_kernels.device,
                              .trains = !options->evaluates,
                              .samples = options->samples,
                              .first_sample = options->first_sample,
                              .seed = 7,
                              .dropout = 0.25,
                              .smoothing = 0.125};
    graph_build(&t);
    t.call = (struct op_call){.node = t.node, .compute = options->compute};
    if (options->compute != WK_F32)
        t.pass.room = t.pass.kernels->room_new();
    inputs_new(&t);
    outputs_new(&t);
    return t;
}

void trial_free(struct trial *t)
{
    for (int i = 0; i < t->n_buffers; i++) {
        free(t->buffers[i].all);
        free(t->buffers[i].copy);
    }
    if (t->pass.room)
        t->pass.kernels->room_free(t->pass.room);
    free(t->buffers);
    wk_graph_free(t->graph);
    *t = (struct trial){0};
}

bool trial_runs(const struct trial *t)
{
    const struct op_row *row = t->node->row;
    return trial_kernels.has(row, false) && (!row->backward || trial_kernels.has(row, true));
}

static void run(struct trial *t, bool backward)
{
    t->call.pass = &t->pass;
    if (!trial_kernels.has(t->node->row, backward))
        return;
    t->call.scratch = buffer_new(t, trial_kernels.scratch_bytes(&t->call, backward));
    buffers_note(t);
    trial_kernels.run(&t->call, backward);
    buffers_check(t, backward);
}

void trial_forward(struct trial *t)
{
    run(t, false);
}

void trial_backward(struct trial *t, unsigned wanted, unsigned add)
{
    t->call.d_out = tensor_of(t, t->node->out[0], WK_F32);
    t->call.d_out.data = buffer_new(t, (size_t)t->call.d_out.count * sizeof(float));
    uint64_t key = random_key(2, t->c->row);
    for (int64_t i = 0; i < t->call.d_out.count; i++)
        tensor_put(&t->call.d_out, i,
                   normal_at(key, number_of(t, &t->call.d_out, t->node->out[0], i)));
    for (int i = 0; i < t->node->n_in; i++) {
        t->call.d_in[i] = (struct op_tensor){0};
        if (!(wanted & OP_IN(i)))
            continue;
        struct op_tensor *d = &t->call.d_in[i];
        *d = tensor_of(t, t->node->in[i], WK_F32);
        d->add = (add & OP_IN(i)) != 0;
        d->data = buffer_new(t, (size_t)d->count * sizeof(float));
        for (int64_t k = 0; d->add && k < d->count; k++)
            tensor_put(d, k, 1);
    }
    run(t, true);
}

unsigned trial_passed(const struct trial *t)
{
    unsigned passed = 0;
    for (int i = 0; i < t->node->n_in; i++) {
        bool same = t->node->in[i] && t->call.in[i].count == t->call.out[0].count;
        if (same && (t->node->row->passes_gradient & OP_IN(i)))
            passed |= OP_IN(i);
    }
    return passed;
}

unsigned trial_gradients(const struct trial *t)
{
    unsigned gradients = 0;
    for (int i = 0; i < t->node->n_in; i++) {
        if (t->node->in[i] && (t->node->row->differentiable & OP_IN(i)))
            gradients |= OP_IN(i);
    }
    return gradients & ~trial_passed(t);
}

unsigned trial_params(const struct trial *t)
{
    unsigned params = 0;
    for (int i = 0; i < t->node->n_in; i++) {
        if (t->node->in[i] && t->node->in[i]->kind == TENSOR_PARAM)
            params |= OP_IN(i);
    }
    return params;
}

unsigned trial_keeps(const struct trial *t)
{
    struct op_call call = t->call;
    return ask_keeps(t, &call);
}

void trial_poison(struct trial *t, unsigned keeps)
{
    for (int i = 0; i < t->node->n_in; i++) {
        const struct op_tensor *x = &t->call.in[i];
        if (x->data && !(keeps & OP_IN(i)))
            memset(x->data, 0xff, (size_t)x->count * wk_dtype_bytes(x->type));
    }
    for (int i = 0; i < t->node->n_out; i++) {
        const struct op_tensor *x = &t->call.out[i];
        if (!(keeps & OP_OUT(i)))
            memset(x->data, 0xff, (size_t)x->count * wk_dtype_bytes(x->type));
    }
}

/* As a launch describes it (run_describe). */
void trial_forget(struct trial *t, unsigned keeps)
{
    for (int i = 0; i < t->node->n_in; i++) {
        if (!t->node->in[i] || (keeps & OP_IN(i)))
            continue;
        t->call.in[i] = tensor_of(t, t->node->in[i], t->node->in[i]->type);
    }
    for (int i = 0; i < t->node->n_out; i++) {
        if (!(keeps & OP_OUT(i)))
            t->call.out[i].data = NULL;
    }
}

double *trial_reference(const struct trial *t, int input, int64_t element, double by)
{
    struct reference r = {.c = t->c, .call = &t->call, .samples = t->options.samples};
    double *in[NODE_INPUTS_MAX] = {0};
    r.out = calloc((size_t)t->call.out[0].count + 1, sizeof(*r.out));
    cr_assert_not_null(r.out);
    for (int i = 0; i < t->node->n_in; i++) {
        if (!t->call.in[i].data)
            continue;
        in[i] = tensor_doubles(&t->call.in[i]);
        if (i == input)
            in[i][element] += by;
        r.in[i] = in[i];
    }
    t->c->reference(&r);
    for (int i = 0; i < t->node->n_in; i++)
        free(in[i]);
    return r.out;
}
