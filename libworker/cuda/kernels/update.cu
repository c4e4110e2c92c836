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
    __device__ __forceinline__ void apply(struct element *e, float scale) const
    {
        float g = e->grad * scale + k.l2 * e->param;
        e->state[0] = k.beta1 * e->state[0] + (1 - k.beta1) * g;
        e->state[1] = k.beta2 * e->state[1] + (1 - k.beta2) * g * g;
        float root = sqrtf(e->state[1]) * k.inv_root2 + k.epsilon;
        e->param = e->param * k.keep - k.step_size * e->state[0] / root;
    }
};

struct sgd_rule {
    enum { STATES = 0 };
    struct kernel_sgd k;
    __device__ __forceinline__ void apply(struct element *e, float scale) const
    {
        float g = e->grad * scale + k.weight_decay * e->param;
        e->param -= k.rate * g;
    }
};

struct momentum_rule {
    enum { STATES = 1 };
    struct kernel_sgd k;
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
    __device__ __forceinline__ void apply(struct element *e, float scale) const
    {
        float g = e->grad * scale;
        float c = k.beta1 * e->state[0] + (1 - k.beta1) * g;
        float sign = c != c ? c : (float)((c > 0) - (c < 0));
        e->param = e->param * k.keep - k.rate * sign;
        e->state[0] = k.beta2 * e->state[0] + (1 - k.beta2) * g;
    }
};

/* The QUAD elements of a thread. Ranges begin anywhere in their arenas, so the first quad may begin
 * before the range; where all arrays are at the same place of 16 bytes, whole quads are aligned. */
struct quad {
    int64_t first;
    bool packed;
};

struct update_walk {
    int before; /* elements of the first quad before the range */
    bool packed;
};

static __device__ __forceinline__ struct quad quad_of(const struct update_walk &w, int64_t count)
{
    struct quad q;
    q.first = ((int64_t)blockIdx.x * UPDATE_THREADS + threadIdx.x) * QUAD - w.before;
    q.packed = w.packed && q.first >= 0 && q.first + QUAD <= count;
    return q;
}

static __device__ __forceinline__ bool quad_has(struct quad q, int j, int64_t count)
{
    return q.first + j >= 0 && q.first + j < count;
}

static __device__ __forceinline__ void quad_read(struct quad q, struct gpu_value x, int64_t count,
                                                 float ret[QUAD])
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
        ret[j] = quad_has(q, j, count) ? value_read(x, q.first + j) : 0.0f;
}

static __device__ __forceinline__ void quad_write(struct quad q, float *to, int64_t count,
                                                  const float x[QUAD])
{
    if (q.packed) {
        floats_write(to + q.first, x);
        return;
    }
    GPU_UNROLL
    for (int j = 0; j < QUAD; j++)
        if (quad_has(q, j, count))
            to[q.first + j] = x[j];
}

static __device__ __forceinline__ unsigned copy_of(const struct gpu_copy &copy, float x, int64_t i)
{
    return copy.by_chance ? round_by_chance(x, copy.noise, copy.first + (uint64_t)i)
                          : bits_of_value(copy.type, x);
}

static __device__ __forceinline__ void quad_copy(struct quad q, const struct gpu_copy &copy,
                                                 int64_t count, const float x[QUAD])
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
        if (quad_has(q, j, count))
            copy.low[q.first + j] = (uint16_t)bits[j];
}

template <class Rule>
__global__ void update_params(Rule rule, struct gpu_update u, struct update_walk w)
{
    if (u.factor.applies && !(*u.factor.applies > 0))
        return;
    struct quad q = quad_of(w, u.count);
    float scale = u.factor.scale ? (float)*u.factor.scale : u.factor.value;
    float params[QUAD], grads[QUAD], state[2][QUAD];
    quad_read(q, floats_value(u.params), u.count, params);
    quad_read(q, u.grads, u.count, grads);
    GPU_UNROLL
    for (int i = 0; i < Rule::STATES; i++)
        quad_read(q, floats_value(u.state[i]), u.count, state[i]);
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
    quad_write(q, u.params, u.count, params);
    GPU_UNROLL
    for (int i = 0; i < Rule::STATES; i++)
        quad_write(q, u.state[i], u.count, state[i]);
    if (u.copy.low)
        quad_copy(q, u.copy, u.count, params);
}

__global__ void copy_params(struct gpu_update u, struct update_walk w)
{
    if (u.factor.applies && !(*u.factor.applies > 0))
        return;
    struct quad q = quad_of(w, u.count);
    float params[QUAD];
    quad_read(q, floats_value(u.params), u.count, params);
    quad_copy(q, u.copy, u.count, params);
}

/* The element of a quad, from 0 on, that an address is at. */
int lane_of(const void *at, size_t element)
{
    return (int)((uintptr_t)at / element % QUAD);
}

struct update_walk walk_of(const struct gpu_update *u, int states)
{
    struct update_walk w = {lane_of(u->params, sizeof(float)), true};
    for (int i = 0; i < states; i++)
        w.packed = w.packed && lane_of(u->state[i], sizeof(float)) == w.before;
    if (u->grads.at)
        w.packed = w.packed && lane_of(u->grads.at, u->grads.type == WK_F32 ? 4 : 2) == w.before;
    if (u->copy.low)
        w.packed = w.packed && lane_of(u->copy.low, sizeof(*u->copy.low)) == w.before;
    return w;
}

dim3 grid_of(const struct gpu_update *u, const struct update_walk *w)
{
    int64_t quads = (u->count + w->before + QUAD - 1) / QUAD;
    return dim3((unsigned)((quads + UPDATE_THREADS - 1) / UPDATE_THREADS));
}

template <class Rule> void update_launch(Rule rule, const struct gpu_update *u, cudaStream_t stream)
{
    struct update_walk w = walk_of(u, Rule::STATES);
    if (u->count)
        GPU_LAUNCH(update_params<Rule>, grid_of(u, &w), dim3(UPDATE_THREADS), 0, stream, rule, *u,
                   w);
}

} // namespace

extern "C" void gpu_adamw(const struct kernel_adamw *k, const struct gpu_update *u,
                          cudaStream_t stream)
{
    struct adamw_rule rule = {*k};
    update_launch(rule, u, stream);
}

extern "C" void gpu_sgd(const struct kernel_sgd *k, const struct gpu_update *u, cudaStream_t stream)
{
    struct sgd_rule plain = {*k};
    struct momentum_rule momentum = {*k};
    if (k->momentum != 0)
        update_launch(momentum, u, stream);
    else
        update_launch(plain, u, stream);
}

extern "C" void gpu_lion(const struct kernel_lion *k, const struct gpu_update *u,
                         cudaStream_t stream)
{
    struct lion_rule rule = {*k};
    update_launch(rule, u, stream);
}

extern "C" void gpu_copy_params(const struct gpu_update *u, cudaStream_t stream)
{
    struct gpu_update copy = *u;
    copy.grads.at = NULL;
    struct update_walk w = walk_of(&copy, 0);
    if (u->count && u->copy.low)
        GPU_LAUNCH(copy_params, grid_of(u, &w), dim3(UPDATE_THREADS), 0, stream, copy, w);
}
