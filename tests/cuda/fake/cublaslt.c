/* cuBLASLt without a GPU: the functions of cublasLt.h that the module calls, by plain loops in
 * double. Descriptors are as in the real library, which runs the same test (lt_descriptors.c).
 *
 *     refused    what the library refuses: sizes that do not fit, types that do not go together,
 *                a plan for another problem, memory less aligned than was said, a small workspace
 *     a mistake  what it would do wrong in silence: memory that is not the device's or too short,
 *                a result over a factor. A sentence, and the end of the program (fake.h)
 *
 * Products are work of their stream. They fill the workspace that their plan asked for. */
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "libworker/precision/half.h"
#include "tests/cuda/fake/fake.h"

struct layout {
    uint64_t rows, cols;
    int64_t ld, offset;
    int32_t type, order, batch;
};

struct product {
    int32_t compute, scale, pointer_mode, turn_a, turn_b, epilogue, bias_type;
    const void *bias, *aux;
    int64_t aux_ld;
};

struct preference {
    uint64_t workspace;
    uint32_t align[4], schemes; /* of a, b, c, d */
};

/* What a plan is for, in cublasLtMatmulAlgo_t. */
struct algo {
    uint64_t problem, workspace;
    uint32_t align[4];
};

_Static_assert(sizeof(struct layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "fits");
_Static_assert(sizeof(struct product) <= sizeof(cublasLtMatmulDescOpaque_t), "fits");
_Static_assert(sizeof(struct preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "fits");
_Static_assert(sizeof(struct algo) <= sizeof(cublasLtMatmulAlgo_t), "fits");

enum { WORKSPACE = 4096, WORKSPACE_ALIGN = 256, ALIGN_DEFAULT = 256, AUX_ALIGN = 16, AUX_STEP = 8 };

static long plans_asked;

long fake_plans_asked(void)
{
    return plans_asked;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    int device;
    if (cudaGetDevice(&device) != cudaSuccess)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = malloc(1);
    return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

static void *descriptor_new(size_t bytes)
{
    void *descriptor = calloc(1, bytes);
    insist(descriptor);
    return descriptor;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *ret, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    *ret = descriptor_new(sizeof(**ret));
    struct layout layout = {.type = (int32_t)type,
                            .rows = rows,
                            .cols = cols,
                            .ld = ld,
                            .order = CUBLASLT_ORDER_COL,
                            .batch = 1};
    memcpy(*ret, &layout, sizeof(layout));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *ret, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    *ret = descriptor_new(sizeof(**ret));
    struct product product = {.compute = (int32_t)compute,
                              .scale = (int32_t)scale,
                              .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                              .bias_type = -1};
    memcpy(*ret, &product, sizeof(product));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product)
{
    free(product);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *ret)
{
    *ret = descriptor_new(sizeof(**ret));
    struct preference preference = {.schemes = CUBLASLT_REDUCTION_SCHEME_MASK};
    for (int i = 0; i < 4; i++)
        preference.align[i] = ALIGN_DEFAULT;
    memcpy(*ret, &preference, sizeof(preference));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

/* A field of a descriptor; NULL for an attribute that the module does not set. */
struct field {
    void *at;
    size_t bytes;
};

static cublasStatus_t field_set(struct field field, const void *from, size_t bytes)
{
    if (!field.at || !from || bytes != field.bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(field.at, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t field_get(struct field field, void *to, size_t bytes, size_t *written)
{
    if (!field.at || bytes < field.bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, field.at, field.bytes);
    if (written)
        *written = field.bytes;
    return CUBLAS_STATUS_SUCCESS;
}

#define FIELD(x)                                                                                   \
    (struct field)                                                                                 \
    {                                                                                              \
        &(x), sizeof(x)                                                                            \
    }

static struct field layout_field(cublasLtMatrixLayout_t of, cublasLtMatrixLayoutAttribute_t which)
{
    struct layout *l = (struct layout *)of;
    const struct field fields[] = {
        [CUBLASLT_MATRIX_LAYOUT_TYPE] = FIELD(l->type),
        [CUBLASLT_MATRIX_LAYOUT_ORDER] = FIELD(l->order),
        [CUBLASLT_MATRIX_LAYOUT_ROWS] = FIELD(l->rows),
        [CUBLASLT_MATRIX_LAYOUT_COLS] = FIELD(l->cols),
        [CUBLASLT_MATRIX_LAYOUT_LD] = FIELD(l->ld),
        [CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT] = FIELD(l->batch),
        [CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET] = FIELD(l->offset),
    };
    return (size_t)which < sizeof(fields) / sizeof(fields[0]) ? fields[which] : (struct field){0};
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void *from, size_t bytes)
{
    return field_set(layout_field(layout, which), from, bytes);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which, void *to,
                                                size_t bytes, size_t *written)
{
    return field_get(layout_field(layout, which), to, bytes, written);
}

static struct field product_field(cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t which)
{
    struct product *p = (struct product *)of;
    const struct field fields[] = {
        [CUBLASLT_MATMUL_DESC_COMPUTE_TYPE] = FIELD(p->compute),
        [CUBLASLT_MATMUL_DESC_SCALE_TYPE] = FIELD(p->scale),
        [CUBLASLT_MATMUL_DESC_POINTER_MODE] = FIELD(p->pointer_mode),
        [CUBLASLT_MATMUL_DESC_TRANSA] = FIELD(p->turn_a),
        [CUBLASLT_MATMUL_DESC_TRANSB] = FIELD(p->turn_b),
        [CUBLASLT_MATMUL_DESC_EPILOGUE] = FIELD(p->epilogue),
        [CUBLASLT_MATMUL_DESC_BIAS_POINTER] = FIELD(p->bias),
        [CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE] = FIELD(p->bias_type),
        [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER] = FIELD(p->aux),
        [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD] = FIELD(p->aux_ld),
    };
    return (size_t)which < sizeof(fields) / sizeof(fields[0]) ? fields[which] : (struct field){0};
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void *from, size_t bytes)
{
    return field_set(product_field(product, which), from, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t which, void *to,
                                              size_t bytes, size_t *written)
{
    return field_get(product_field(product, which), to, bytes, written);
}

static struct field preference_field(cublasLtMatmulPreference_t of,
                                     cublasLtMatmulPreferenceAttributes_t which)
{
    struct preference *p = (struct preference *)of;
    const struct field fields[] = {
        [CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES] = FIELD(p->workspace),
        [CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] = FIELD(p->schemes),
        [CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = FIELD(p->align[0]),
        [CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES] = FIELD(p->align[1]),
        [CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES] = FIELD(p->align[2]),
        [CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES] = FIELD(p->align[3]),
    };
    return (size_t)which < sizeof(fields) / sizeof(fields[0]) ? fields[which] : (struct field){0};
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void *from, size_t bytes)
{
    return field_set(preference_field(preference, which), from, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    void *to, size_t bytes, size_t *written)
{
    return field_get(preference_field(preference, which), to, bytes, written);
}

/* A product with all that it goes by; m, n and k as the library counts them. */
struct problem {
    struct product p;
    struct layout a, b, c, d;
    uint64_t m, n, k;
};

static size_t type_bytes(int32_t type)
{
    return type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

static bool is_sound_layout(const struct layout *l)
{
    bool apart = l->batch == 1 || l->offset == 0 ||
                 l->offset >= (int64_t)((l->cols - 1) * (uint64_t)l->ld + l->rows);
    return l->order == CUBLASLT_ORDER_COL && l->rows > 0 && l->cols > 0 && l->batch > 0 &&
           l->ld >= (int64_t)l->rows && l->rows <= INT32_MAX && l->cols <= INT32_MAX && apart;
}

static cublasStatus_t problem_read(struct problem *ret, const cublasLtMatmulDesc_t product,
                                   const cublasLtMatrixLayout_t layouts[4])
{
    struct problem q;
    struct layout *to[4] = {&q.a, &q.b, &q.c, &q.d};
    memcpy(&q.p, product, sizeof(q.p));
    for (int i = 0; i < 4; i++) {
        memcpy(to[i], layouts[i], sizeof(*to[i]));
        if (!is_sound_layout(to[i]) || to[i]->batch != q.a.batch)
            return CUBLAS_STATUS_INVALID_VALUE;
    }
    q.m = q.p.turn_a ? q.a.cols : q.a.rows;
    q.k = q.p.turn_a ? q.a.rows : q.a.cols;
    q.n = q.p.turn_b ? q.b.rows : q.b.cols;
    if ((q.p.turn_b ? q.b.cols : q.b.rows) != q.k || q.d.rows != q.m || q.d.cols != q.n ||
        q.c.rows != q.m || q.c.cols != q.n || (q.d.batch > 1 && q.d.offset == 0))
        return CUBLAS_STATUS_INVALID_VALUE;
    bool tf32 = q.p.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    bool floats = q.a.type == CUDA_R_32F;
    bool types = q.a.type == q.b.type && q.c.type == q.d.type && q.p.scale == CUDA_R_32F &&
                 (floats || q.a.type == CUDA_R_16BF || q.a.type == CUDA_R_16F) &&
                 (q.d.type == CUDA_R_32F || q.d.type == q.a.type) &&
                 (q.p.compute == CUBLAS_COMPUTE_32F || (tf32 && floats));
    bool bias = q.p.epilogue == CUBLASLT_EPILOGUE_BIAS &&
                (q.p.bias_type == -1 || q.p.bias_type == q.d.type);
    bool slopes = q.p.epilogue == CUBLASLT_EPILOGUE_DGELU && q.d.batch == 1;
    if (slopes && (q.p.aux_ld < (int64_t)q.m || q.p.aux_ld % AUX_STEP))
        return CUBLAS_STATUS_INVALID_VALUE;
    *ret = q;
    return types && (bias || slopes || q.p.epilogue == CUBLASLT_EPILOGUE_DEFAULT)
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_NOT_SUPPORTED;
}

static uint64_t hash_more(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x100000001b3u + (hash >> 29);
}

static uint64_t problem_hash(const struct problem *q)
{
    const struct layout *layouts[4] = {&q->a, &q->b, &q->c, &q->d};
    uint64_t hash = 1;
    for (int i = 0; i < 4; i++) {
        hash = hash_more(hash, layouts[i]->rows);
        hash = hash_more(hash, layouts[i]->cols);
        hash = hash_more(hash, (uint64_t)layouts[i]->ld);
        hash = hash_more(hash, (uint64_t)layouts[i]->offset);
        hash = hash_more(hash, (uint64_t)layouts[i]->batch);
        hash = hash_more(hash, (uint64_t)layouts[i]->type);
    }
    hash = hash_more(hash, (uint64_t)q->p.turn_a << 8 | (uint64_t)q->p.turn_b);
    hash = hash_more(hash, (uint64_t)q->p.aux_ld);
    return hash_more(hash, (uint64_t)q->p.epilogue << 32 | (uint64_t)q->p.compute);
}

/* Sums whose parts may be rounded to the result's type, or that go there in any order, would not be
 * those of the module's contract. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *ret_n)
{
    struct problem problem;
    struct preference p;
    cublasStatus_t status =
        problem_read(&problem, product, (const cublasLtMatrixLayout_t[]){a, b, c, d});
    *ret_n = 0;
    plans_asked++;
    if (!handle || wanted < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    memcpy(&p, preference, sizeof(p));
    if (p.schemes != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
        fake_found("a product whose parts of sums may be added in ways %u", p.schemes);
    struct algo algo = {problem_hash(&problem), p.workspace < WORKSPACE ? 0 : WORKSPACE, {0}};
    memcpy(algo.align, p.align, sizeof(algo.align));
    results[0] = (cublasLtMatmulHeuristicResult_t){.state = CUBLAS_STATUS_SUCCESS,
                                                   .workspaceSize = algo.workspace};
    memcpy(&results[0].algo, &algo, sizeof(algo));
    *ret_n = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* A product on its way. */
struct enqueued {
    struct problem q;
    const void *a, *b, *c;
    void *d, *workspace;
    float alpha, beta;
    const float *alpha_there, *beta_there;
    size_t workspace_bytes;
};

static double value_at(const void *x, int32_t type, size_t i)
{
    if (type == CUDA_R_32F)
        return (double)((const float *)x)[i];
    uint16_t half = ((const uint16_t *)x)[i];
    return (double)(type == CUDA_R_16BF ? f32_of_bf16(half) : f32_of_f16(half));
}

static void put(void *x, int32_t type, size_t i, double value)
{
    if (type == CUDA_R_32F)
        ((float *)x)[i] = (float)value;
    else
        ((uint16_t *)x)[i] =
            type == CUDA_R_16BF ? bf16_of_f32((float)value) : f16_of_f32((float)value);
}

/* To TF32's ten bits. */
static double rounded(double x, int32_t compute)
{
    uint32_t bits = bits_of_f32((float)x);
    if (compute != CUBLAS_COMPUTE_32F_FAST_TF32)
        return x;
    return (double)f32_of_bits((bits + 0xfff + ((bits >> 13) & 1)) & ~(uint32_t)0x1fff);
}

static size_t place_of(const struct layout *l, bool turned, size_t row, size_t col, int32_t batch)
{
    size_t ld = (size_t)l->ld, at = (size_t)l->offset * (size_t)batch;
    return at + (turned ? row * ld + col : col * ld + row);
}

static double sum_of(const struct enqueued *e, size_t row, size_t col, int32_t batch)
{
    const struct problem *q = &e->q;
    double sum = 0;
    for (size_t k = 0; k < q->k; k++)
        sum += rounded(value_at(e->a, q->a.type, place_of(&q->a, q->p.turn_a, row, k, batch)),
                       q->p.compute) *
               rounded(value_at(e->b, q->b.type, place_of(&q->b, q->p.turn_b, k, col, batch)),
                       q->p.compute);
    return sum;
}

/* d/dx of x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3). */
static double gelu_slope(double x)
{
    const double scale = 0.79788456080286535588, cubic = 0.044715;
    double u = scale * (x + cubic * x * x * x), tangent = tanh(u);
    return 0.5 * (1 + tangent) +
           0.5 * x * (1 - tangent * tangent) * scale * (1 + 3 * cubic * x * x);
}

static void run(void *arg)
{
    const struct enqueued *e = arg;
    const struct problem *q = &e->q;
    double alpha = (double)(e->alpha_there ? *e->alpha_there : e->alpha);
    double beta = (double)(e->beta_there ? *e->beta_there : e->beta);
    if (e->workspace_bytes)
        memset(e->workspace, 0xff, e->workspace_bytes);
    for (int32_t batch = 0; batch < q->d.batch; batch++) {
        for (size_t i = 0; i < q->m * q->n; i++) {
            size_t row = i % q->m, col = i / q->m;
            double x = alpha * sum_of(e, row, col, batch);
            if (beta != 0)
                x += beta * value_at(e->c, q->c.type, place_of(&q->c, false, row, col, batch));
            if (q->p.epilogue == CUBLASLT_EPILOGUE_BIAS)
                x += value_at(q->p.bias, q->d.type, row);
            if (q->p.epilogue == CUBLASLT_EPILOGUE_DGELU)
                x *= gelu_slope(value_at(q->p.aux, q->d.type, col * (size_t)q->p.aux_ld + row));
            put(e->d, q->d.type, place_of(&q->d, false, row, col, batch), x);
        }
    }
}

static size_t extent_of(const struct layout *l)
{
    size_t last = (size_t)l->offset * (size_t)(l->batch - 1) + (l->cols - 1) * (size_t)l->ld;
    return (last + l->rows) * type_bytes(l->type);
}

static void expect_device(const void *at, size_t bytes, const char *what)
{
    if (!fake_is_device(at, bytes))
        fake_found("a product's %s, %zu bytes at %p, are not all in device memory", what, bytes,
                   at);
}

static void expect_apart(const void *x, size_t x_bytes, const struct enqueued *e, const char *what)
{
    const char *first = x, *d = e->d;
    if (first < d + extent_of(&e->q.d) && d < first + x_bytes)
        fake_found("a product's result is where its %s is", what);
}

static bool is_aligned(const struct enqueued *e, const struct algo *algo)
{
    const void *at[4] = {e->a, e->b, e->c, e->d};
    bool aligned = true;
    for (int i = 0; i < 4; i++)
        aligned = aligned && (!at[i] || (uintptr_t)at[i] % algo->align[i] == 0);
    return aligned;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void *alpha, const void *A, cublasLtMatrixLayout_t a,
                              const void *B, cublasLtMatrixLayout_t b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c, void *D,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *plan,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    struct enqueued e = {.a = A, .b = B, .c = C, .d = D, .workspace = workspace};
    struct algo algo;
    cublasStatus_t status =
        problem_read(&e.q, product, (const cublasLtMatrixLayout_t[]){a, b, c, d});
    if (status != CUBLAS_STATUS_SUCCESS || !handle || !plan)
        return status != CUBLAS_STATUS_SUCCESS ? status : CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&algo, plan, sizeof(algo));
    e.workspace_bytes = algo.workspace;
    if (algo.problem != problem_hash(&e.q) || algo.workspace > workspace_bytes ||
        (uintptr_t)workspace % WORKSPACE_ALIGN || !is_aligned(&e, &algo) ||
        (C == D && memcmp(c, d, sizeof(struct layout)) != 0))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (e.q.p.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
        e.alpha_there = alpha;
        e.beta_there = beta;
        expect_device(alpha, sizeof(float), "alpha");
        expect_device(beta, sizeof(float), "beta");
    } else {
        e.alpha = *(const float *)alpha;
        e.beta = *(const float *)beta;
    }
    expect_device(A, extent_of(&e.q.a), "first factor");
    expect_device(B, extent_of(&e.q.b), "second factor");
    expect_device(D, extent_of(&e.q.d), "result");
    if (e.beta_there || e.beta != 0)
        expect_device(C, extent_of(&e.q.c), "addend");
    if (e.workspace_bytes)
        expect_device(workspace, e.workspace_bytes, "workspace");
    if (e.q.p.epilogue == CUBLASLT_EPILOGUE_BIAS)
        expect_device(e.q.p.bias, e.q.m * type_bytes(e.q.d.type), "bias");
    if (e.q.p.epilogue == CUBLASLT_EPILOGUE_DGELU) {
        size_t last = (e.q.n - 1) * (size_t)e.q.p.aux_ld;
        if ((uintptr_t)e.q.p.aux % AUX_ALIGN)
            return CUBLAS_STATUS_INVALID_VALUE;
        expect_device(e.q.p.aux, (last + e.q.m) * type_bytes(e.q.d.type), "GELU's input");
    }
    expect_apart(A, extent_of(&e.q.a), &e, "first factor");
    expect_apart(B, extent_of(&e.q.b), &e, "second factor");
    struct enqueued *kept = malloc(sizeof(*kept));
    insist(kept);
    *kept = e;
    const struct fake_work work = {"cublasLtMatmul", run, free, kept};
    bool enqueued = fake_enqueue(stream, &work) == cudaSuccess;
    /* cppcheck-suppress memleak ; the work frees it */
    return enqueued ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
