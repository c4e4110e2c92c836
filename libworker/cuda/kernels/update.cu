#include "libworker/cuda/kernels/update.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/round.h"
#include "libworker/cuda/kernels/span.h"

namespace
{

enum { QUAD = 4, UPDATE_THREADS = 256 };

/* One parameter with its gradient and state. */
struct element {
    float param, grad, state[2];
};

struct adamw_rule {
    enum { STATES = 2 };
    struct kernel_adamw k;
    void take(const struct gpu_part *part)
    {
        k = part->rule.adamw;
    }
    __device__ __forceinline__ void apply(struct element *e, float scale) const
    {
        float g = e->grad * scale + k.l2 * e->param;
        e->state[0] = k.beta1 * e->state[0] + (1 - k.beta1) * g;
        e->state[1] = k.beta2 * e->state[1] + (1 - k.beta2) * g * g;
        float root = sqrtf(e->state[1]) * k.inv_root2 + k.epsilon;
        e->param = e->param * k.keep - k.step_size * e->state[0] / root;
    }
};

/* With the same bits: its numbers change from step to step, and its arguments do not. */
struct noted_adamw_rule {
    enum { STATES = 2 };
    const struct kernel_adamw *at;
    void take(const struct gpu_part *part)
    {
        at = part->adamw_at;
    }
    __device__ __forceinline__ void apply(struct element *e, float scale) const
    {
        struct adamw_rule rule = {*at};
        rule.apply(e, scale);
    }
};

struct sgd_rule {
    enum { STATES = 0 };
    struct kernel_sgd k;
    void take(const struct gpu_part *part)
    {
        k = part->rule.sgd;
    }
    __device__ __forceinline__ void apply(struct element *e, float scale) const
    {
        float g = e->grad * scale + k.weight_decay * e->param;
        e->param -= k.rate * g;
    }
};

struct momentum_rule {
    enum { STATES = 1 };
    struct kernel_sgd k;
    void take(const struct gpu_part *part)
    {
        k = part->rule.sgd;
    }
    __device__ __forceinline__ void apply(struct element *e, float scale) const
    {
        float g = e->grad * scale + k.weight_decay * e->param;
        e->state[0] = k.first ? g : k.momentum * e->state[0] + g;
        g = k.nesterov ? g + k.momentum * e->state[0] : e->state[0];
        e->param -= k.rate * g;
    }
};

struct lion_rule {
    enum { STATES = 1 };
    struct kernel_lion k;
    void take(const struct gpu_part *part)
    {
        k = part->rule.lion;
    }
    __device__ __forceinline__ void apply(struct element *e, float scale) const
    {
        float g = e->grad * scale;
        float c = k.beta1 * e->state[0] + (1 - k.beta1) * g;
        float sign = c != c ? c : (float)((c > 0) - (c < 0));
        e->param = e->param * k.keep - k.rate * sign;
        e->state[0] = k.beta2 * e->state[0] + (1 - k.beta2) * g;
    }
};

/* The QUAD elements of a thread, of a part of the range. Parts begin anywhere, so the first quad may
 * begin before the part. Where all arrays are at the same place of 16 bytes, whole quads are
 * aligned. */
struct quad {
    int64_t first, from, end; /* elements of the range; of the part, [from, end) */
    bool packed;
};

static __device__ __forceinline__ bool quad_has(struct quad q, int j)
{
    return q.first + j >= q.from && q.first + j < q.end;
}

static __device__ __forceinline__ void quad_read(struct quad q, struct gpu_value x, float ret[QUAD])
{
    if (q.packed && x.type == WK_F32) {
        floats_read((const float *)x.at + q.first, ret);
        return;
    }
    if (q.packed) {
        uint2 line = *(const uint2 *)(const void *)((const uint16_t *)x.at + q.first);
        halves_read(x.type, line.x, ret);
        halves_read(x.type, line.y, ret + 2);
        return;
    }
    GPU_UNROLL
    for (int j = 0; j < QUAD; j++)
        ret[j] = quad_has(q, j) ? value_read(x, q.first + j) : 0.0f;
}

static __device__ __forceinline__ void quad_write(struct quad q, float *to, const float x[QUAD])
{
    if (q.packed) {
        floats_write(to + q.first, x);
        return;
    }
    GPU_UNROLL
    for (int j = 0; j < QUAD; j++)
        if (quad_has(q, j))
            to[q.first + j] = x[j];
}

static __device__ __forceinline__ unsigned copy_of(const struct gpu_copy &copy, float x, int64_t i)
{
    if (!copy.by_chance)
        return bits_of_value(copy.type, x);
    uint64_t noise = copy.noise_at ? *copy.noise_at : copy.noise;
    return round_by_chance(x, noise, copy.first + (uint64_t)i);
}

static __device__ __forceinline__ void quad_copy(struct quad q, const struct gpu_copy &copy,
                                                 const float x[QUAD])
{
    unsigned bits[QUAD];
    GPU_UNROLL
    for (int j = 0; j < QUAD; j++)
        bits[j] = copy_of(copy, x[j], q.first + j);
    if (q.packed) {
        uint2 line = make_uint2(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16);
        __stcg((uint2 *)(void *)(copy.low + q.first), line);
        return;
    }
    GPU_UNROLL
    for (int j = 0; j < QUAD; j++)
        if (quad_has(q, j))
            copy.low[q.first + j] = (uint16_t)bits[j];
}

/* A part with its place among the launch's blocks. */
template <class Rule> struct part {
    int64_t first, count;
    unsigned first_block;
    int before; /* elements of its first quad before it */
    bool moves;
    Rule rule;
};

template <class Rule> struct parts {
    int n;
    bool packed;
    struct part<Rule> list[GPU_PARTS_MAX];
};

/* The last part that begins at or before this block. */
template <class Rule> static __device__ __forceinline__ int part_of_block(const parts<Rule> &p)
{
    int low = 0, high = p.n;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (p.list[middle].first_block <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static __device__ __forceinline__ struct quad quad_of(int64_t first, int64_t count, int before,
                                                      unsigned block)
{
    struct quad q;
    q.from = first;
    q.end = first + count;
    q.first = first - before + ((int64_t)block * UPDATE_THREADS + threadIdx.x) * QUAD;
    return q;
}

template <class Rule>
static __device__ __forceinline__ void quad_update(struct quad q, const struct gpu_update &u,
                                                   const Rule &rule, float params[QUAD])
{
    float scale = u.factor.scale ? (float)*u.factor.scale : u.factor.value;
    float grads[QUAD], state[2][QUAD];
    quad_read(q, u.grads, grads);
    GPU_UNROLL
    for (int i = 0; i < Rule::STATES; i++)
        quad_read(q, floats_value(u.state[i]), state[i]);
    GPU_UNROLL
    for (int j = 0; j < QUAD; j++) {
        struct element e = {params[j], grads[j], {0, 0}};
        GPU_UNROLL
        for (int i = 0; i < Rule::STATES; i++)
            e.state[i] = state[i][j];
        rule.apply(&e, scale);
        params[j] = e.param;
        GPU_UNROLL
        for (int i = 0; i < Rule::STATES; i++)
            state[i][j] = e.state[i];
    }
    quad_write(q, u.params, params);
    GPU_UNROLL
    for (int i = 0; i < Rule::STATES; i++)
        quad_write(q, u.state[i], state[i]);
}

template <class Rule> __global__ void update_parts(struct gpu_update u, const parts<Rule> p)
{
    if (u.factor.applies && !(*u.factor.applies > 0))
        return;
    const part<Rule> &part = p.list[part_of_block(p)];
    struct quad q = quad_of(part.first, part.count, part.before, blockIdx.x - part.first_block);
    q.packed = p.packed && q.first >= q.from && q.first + QUAD <= q.end;
    float params[QUAD];
    quad_read(q, floats_value(u.params), params);
    if (part.moves)
        quad_update(q, u, part.rule, params);
    if (u.copy.low)
        quad_copy(q, u.copy, params);
}

__global__ void copy_params(struct gpu_update u, int before, bool packed)
{
    if (u.factor.applies && !(*u.factor.applies > 0))
        return;
    struct quad q = quad_of(0, u.count, before, blockIdx.x);
    q.packed = packed && q.first >= q.from && q.first + QUAD <= q.end;
    float params[QUAD];
    quad_read(q, floats_value(u.params), params);
    quad_copy(q, u.copy, params);
}

/* The element of a quad, from 0 on, that an address is at. */
int lane_of(const void *at, size_t element)
{
    return (int)((uintptr_t)at / element % QUAD);
}

/* All arrays are at the same place of their quads. */
bool packs(const struct gpu_update *u, int states)
{
    int lane = lane_of(u->params, sizeof(float));
    bool packed = true;
    for (int i = 0; i < states; i++)
        packed = packed && lane_of(u->state[i], sizeof(float)) == lane;
    if (u->grads.at)
        packed = packed && lane_of(u->grads.at, u->grads.type == WK_F32 ? 4 : 2) == lane;
    if (u->copy.low)
        packed = packed && lane_of(u->copy.low, sizeof(*u->copy.low)) == lane;
    return packed;
}

unsigned blocks_of(int64_t count, int before)
{
    int64_t each = (int64_t)UPDATE_THREADS * QUAD;
    return (unsigned)((count + before + each - 1) / each);
}

template <class Rule>
void update_launch(const struct gpu_update *u, const struct gpu_part *from, int n,
                   cudaStream_t stream)
{
    parts<Rule> p = {};
    unsigned blocks = 0;
    p.packed = packs(u, Rule::STATES);
    for (int i = 0; i < n; i++) {
        part<Rule> *to = &p.list[p.n];
        if (from[i].count == 0)
            continue;
        to->first = from[i].first;
        to->count = from[i].count;
        to->moves = from[i].moves;
        to->rule.take(&from[i]);
        to->before = lane_of(u->params + to->first, sizeof(float));
        to->first_block = blocks;
        blocks += blocks_of(to->count, to->before);
        p.n++;
    }
    if (blocks)
        GPU_LAUNCH(update_parts<Rule>, dim3(blocks), dim3(UPDATE_THREADS), 0, stream, *u, p);
}

} // namespace

extern "C" void gpu_adamw(const struct gpu_update *u, const struct gpu_part *parts, int n,
                          cudaStream_t stream)
{
    if (n == 1 && parts->adamw_at)
        update_launch<noted_adamw_rule>(u, parts, n, stream);
    else
        update_launch<adamw_rule>(u, parts, n, stream);
}

extern "C" void gpu_sgd(const struct gpu_update *u, const struct gpu_part *parts, int n,
                        cudaStream_t stream)
{
    if (u->state[0])
        update_launch<momentum_rule>(u, parts, n, stream);
    else
        update_launch<sgd_rule>(u, parts, n, stream);
}

extern "C" void gpu_lion(const struct gpu_update *u, const struct gpu_part *parts, int n,
                         cudaStream_t stream)
{
    update_launch<lion_rule>(u, parts, n, stream);
}

extern "C" void gpu_copy_params(const struct gpu_update *u, cudaStream_t stream)
{
    struct gpu_update copy = *u;
    copy.grads.at = NULL;
    int before = lane_of(u->params, sizeof(float));
    if (u->count && u->copy.low)
        GPU_LAUNCH(copy_params, dim3(blocks_of(u->count, before)), dim3(UPDATE_THREADS), 0, stream,
                   copy, before, packs(&copy, 0));
}
