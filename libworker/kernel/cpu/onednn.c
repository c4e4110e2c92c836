#include "libworker/kernel/cpu/onednn.h"

#ifdef KERNEL_ONEDNN

#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

/* From oneDNN's OpenMP run-time library; OpenMP 5.0, sections 3.2.1 and 3.2.3. Its header is part
 * of one compiler only. */
void omp_set_num_threads(int threads);
int omp_get_max_threads(void);

enum { PLANS_MAX = 1024 }; /* a power of two; training meets some tens of shapes */

/* What a plan is made for. */
struct shape {
    int64_t m, n, k, lda, ldb, ldc;
    int64_t transpose_a, transpose_b, add;
};

struct plan {
    struct shape shape;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c;
};

struct onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct plan plans[PLANS_MAX]; /* open addressing; primitive NULL: free */
    int n_plans;
};

static void plan_fini(struct plan *p)
{
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    if (p->a)
        dnnl_memory_destroy(p->a);
    if (p->b)
        dnnl_memory_destroy(p->b);
    if (p->c)
        dnnl_memory_destroy(p->c);
    memset(p, 0, sizeof(*p));
}

void onednn_free(struct onednn *o)
{
    if (!o)
        return;
    for (int i = 0; i < PLANS_MAX; i++)
        plan_fini(&o->plans[i]);
    if (o->stream)
        dnnl_stream_destroy(o->stream);
    if (o->engine)
        dnnl_engine_destroy(o->engine);
    free(o);
}

struct onednn *onednn_new(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx512bf16"))
        return NULL;
    struct onednn *o = calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    if (dnnl_engine_create(&o->engine, dnnl_cpu, 0) ||
        dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags)) {
        onednn_free(o);
        return NULL;
    }
    return o;
}

static int describe(dnnl_memory_desc_t *ret, const int64_t size[2], int64_t ld, bool turned)
{
    const dnnl_dims_t dims = {size[0], size[1]};
    const dnnl_dims_t strides = {turned ? 1 : ld, turned ? ld : 1};
    return dnnl_memory_desc_init_by_strides(ret, 2, dims, dnnl_bf16, strides);
}

static int make_primitive(struct onednn *o, struct plan *p, const dnnl_memory_desc_t d[3])
{
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_desc_t desc = NULL;
    int rc = dnnl_matmul_desc_init(&matmul, &d[0], &d[1], NULL, &d[2]);
    if (!rc && p->shape.add) {
        rc = dnnl_primitive_attr_create(&attr) || dnnl_post_ops_create(&ops) ||
             dnnl_post_ops_append_sum(ops, 1.0f) || dnnl_primitive_attr_set_post_ops(attr, ops);
    }
    rc = rc || dnnl_primitive_desc_create(&desc, &matmul, attr, o->engine, NULL) ||
         dnnl_primitive_create(&p->primitive, desc);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    if (ops)
        dnnl_post_ops_destroy(ops);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return rc;
}

static int plan_init(struct onednn *o, struct plan *p, const struct shape *s)
{
    dnnl_memory_desc_t d[3];
    p->shape = *s;
    int rc = describe(&d[0], (int64_t[]){s->m, s->k}, s->lda, s->transpose_a) ||
             describe(&d[1], (int64_t[]){s->k, s->n}, s->ldb, s->transpose_b) ||
             describe(&d[2], (int64_t[]){s->m, s->n}, s->ldc, false);
    d[2].data_type = dnnl_f32;
    rc = rc || make_primitive(o, p, d) ||
         dnnl_memory_create(&p->a, &d[0], o->engine, DNNL_MEMORY_NONE) ||
         dnnl_memory_create(&p->b, &d[1], o->engine, DNNL_MEMORY_NONE) ||
         dnnl_memory_create(&p->c, &d[2], o->engine, DNNL_MEMORY_NONE);
    if (rc)
        plan_fini(p);
    return rc;
}

/* Usually there are fewer plans than PLANS_MAX. A program with ever new shapes starts again when
 * half are in use. */
static struct plan *plan_for(struct onednn *o, const struct shape *s)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a over the numbers */
    const int64_t *numbers = &s->m;
    for (size_t i = 0; i < sizeof(*s) / sizeof(*numbers); i++)
        hash = (hash ^ (uint64_t)numbers[i]) * 0x100000001b3u;
    if (o->n_plans >= PLANS_MAX / 2) {
        for (int i = 0; i < PLANS_MAX; i++)
            plan_fini(&o->plans[i]);
        o->n_plans = 0;
    }
    size_t at = (size_t)(hash ^ hash >> 32) % PLANS_MAX;
    for (; o->plans[at].primitive; at = (at + 1) % PLANS_MAX) {
        if (!memcmp(&o->plans[at].shape, s, sizeof(*s)))
            return &o->plans[at];
    }
    if (plan_init(o, &o->plans[at], s))
        return NULL;
    o->n_plans++;
    return &o->plans[at];
}

bool onednn_gemm(struct onednn *o, const struct kernel_gemm_low *g)
{
    if (g->type != WK_BF16 || g->k <= 0)
        return false;
    struct shape shape = {g->m,   g->n,           g->k,           g->lda, g->ldb,
                          g->ldc, g->transpose_a, g->transpose_b, g->add};
    int threads = omp_get_max_threads();
    omp_set_num_threads(1); /* of this thread only: ranks share a machine */
    struct plan *p = plan_for(o, &shape);
    bool done = false;
    if (p) {
        (void)dnnl_memory_set_data_handle(p->a, (void *)g->a);
        (void)dnnl_memory_set_data_handle(p->b, (void *)g->b);
        (void)dnnl_memory_set_data_handle(p->c, g->c);
        const dnnl_exec_arg_t args[3] = {
            {DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}};
        done = !dnnl_primitive_execute(p->primitive, o->stream, 3, args) &&
               !dnnl_stream_wait(o->stream);
    }
    omp_set_num_threads(threads);
    return done;
}

#else

struct onednn *onednn_new(void)
{
    return NULL;
}

void onednn_free(struct onednn *o)
{
    (void)o;
}

bool onednn_gemm(struct onednn *o, const struct kernel_gemm_low *g)
{
    (void)o;
    (void)g;
    return false;
}

#endif
