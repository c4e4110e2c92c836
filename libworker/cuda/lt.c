#include "libworker/cuda/lt.h"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/device/device.h"

enum {
    PLACES = 2 * LT_PLANS_MAX, /* of the table: a power of 2 */
    ALIGN_MAX = 256,
    PARTS_WORTH = 8,
    WORKSPACE_ALIGN = 256,
};

/* All that a plan depends on. Compared by bytes, so it has no gaps. */
struct key {
    int64_t m, n, k, batch;
    int64_t a_stride, b_stride, d_stride, a_each, b_each, c_each, d_each;
    int64_t slopes_stride, slopes_align; /* 0: there are none */
    uint64_t workspace;
    int32_t type, result, a_turned, b_turned, has_bias, factors_there, adds, other_c;
    int32_t a_align, b_align, c_align, d_align;
};

struct plan {
    struct key key;
    bool used;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c, d; /* as cuBLASLt has them: a is our b */
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
};

struct lt {
    cublasLtHandle_t handle;
    bool tf32;
    int n, oldest;
    struct plan plans[LT_PLANS_MAX];
    uint16_t places[PLACES]; /* 1 + number of the plan; 0: free */
};

static const char *status_text(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "no memory";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "invalid value";
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return "not for this GPU";
    case CUBLAS_STATUS_MAPPING_ERROR:
        return "memory cannot be mapped";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "execution failed";
    case CUBLAS_STATUS_INTERNAL_ERROR:
        return "internal error";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "not supported";
    case CUBLAS_STATUS_LICENSE_ERROR:
        return "license error";
    default:
        return "unknown status";
    }
}

static void plan_release(struct plan *plan)
{
    if (plan->product)
        (void)cublasLtMatmulDescDestroy(plan->product);
    cublasLtMatrixLayout_t layouts[] = {plan->a, plan->b, plan->c, plan->d};
    for (int i = 0; i < 4; i++) {
        if (layouts[i])
            (void)cublasLtMatrixLayoutDestroy(layouts[i]);
    }
    *plan = (struct plan){.used = false};
}

static void lt_close(struct cuda_device *device)
{
    struct lt *lt = device->lt;
    if (!lt)
        return;
    for (int i = 0; i < lt->n; i++)
        plan_release(&lt->plans[i]);
    if (lt->handle)
        (void)cublasLtDestroy(lt->handle);
    free(lt);
    device->lt = NULL;
}

static struct lt *lt_open(struct cuda_queue *queue)
{
    struct cuda_device *device = queue->device;
    const char *tf32 = getenv(LT_TF32_VARIABLE);
    if (device->lt || device->base.code)
        return device->base.code ? NULL : device->lt;
    struct lt *lt = calloc(1, sizeof(*lt));
    if (!lt) {
        queue_fail(&queue->base, WK_ENOMEM, "no memory for plans of products");
        return NULL;
    }
    device->lt = lt;
    device->lt_close = lt_close;
    lt->tf32 = tf32 && strcmp(tf32, "1") == 0;
    cublasStatus_t status = cublasLtCreate(&lt->handle);
    if (status != CUBLAS_STATUS_SUCCESS)
        queue_fail(&queue->base, WK_EIO, "cuBLASLt cannot be used: %s", status_text(status));
    return device->base.code ? NULL : lt;
}

static cudaDataType_t data_type(int32_t type)
{
    return type == WK_BF16 ? CUDA_R_16BF : type == WK_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static size_t type_bytes(int32_t type)
{
    return type == WK_F32 ? sizeof(float) : sizeof(uint16_t);
}

static int32_t align_of(const void *at)
{
    uintptr_t address = (uintptr_t)at | ALIGN_MAX;
    return (int32_t)(address & -address);
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static const void *c_of(const struct lt_product *p)
{
    return p->c.at ? p->c.at : p->d;
}

/* cuBLASLt reads a bias as it writes d. */
static struct key key_of(const struct lt_product *p, size_t workspace_bytes)
{
    bool adds = p->factors_there || p->beta != 0;
    bool other_c = adds && p->c.at && p->c.at != p->d;
    struct key key = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .batch = p->batch,
        .a_stride = p->a.stride,
        .b_stride = p->b.stride,
        .d_stride = p->d_stride,
        .a_each = p->a.each,
        .b_each = p->b.each,
        .c_each = other_c ? p->c.each : p->d_each,
        .d_each = p->d_each,
        .slopes_stride = p->slopes_at ? p->slopes_stride : 0,
        .slopes_align = p->slopes_at ? align_of(p->slopes_at) : 0,
        .workspace = workspace_bytes,
        .type = (int32_t)p->type,
        .result = (int32_t)p->result,
        .a_turned = p->a.turned,
        .b_turned = p->b.turned,
        .has_bias = p->bias != NULL,
        .factors_there = p->factors_there != NULL,
        .adds = adds,
        .other_c = other_c,
        .a_align = align_of(p->a.at),
        .b_align = align_of(p->b.at),
        .c_align = align_of(adds ? c_of(p) : p->d),
        .d_align = align_of(p->d),
    };
    if (p->bias)
        key.d_align = least(key.d_align, align_of(p->bias));
    return key;
}

static uint64_t key_hash(const struct key *key)
{
    const uint8_t *bytes = (const uint8_t *)key;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < sizeof(*key); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

/* rows and cols as cuBLASLt counts them: a row of ours is its column. */
static cublasStatus_t layout_make(cublasLtMatrixLayout_t *ret, int32_t type, const int64_t size[2],
                                  int64_t stride, const int64_t batch[2])
{
    int32_t count = (int32_t)batch[0];
    cublasStatus_t status = cublasLtMatrixLayoutCreate(ret, data_type(type), (uint64_t)size[1],
                                                       (uint64_t)size[0], stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutSetAttribute(*ret, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                  sizeof(count));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutSetAttribute(*ret, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                  &batch[1], sizeof(batch[1]));
    return status;
}

static cublasStatus_t layouts_make(struct plan *plan)
{
    const struct key *k = &plan->key;
    int64_t a[2] = {k->a_turned ? k->k : k->m, k->a_turned ? k->m : k->k};
    int64_t b[2] = {k->b_turned ? k->n : k->k, k->b_turned ? k->k : k->n};
    int64_t d[2] = {k->m, k->n};
    cublasStatus_t status =
        layout_make(&plan->a, k->type, b, k->b_stride, (int64_t[]){k->batch, k->b_each});
    if (status == CUBLAS_STATUS_SUCCESS)
        status = layout_make(&plan->b, k->type, a, k->a_stride, (int64_t[]){k->batch, k->a_each});
    if (status == CUBLAS_STATUS_SUCCESS)
        status = layout_make(&plan->c, k->result, d, k->d_stride, (int64_t[]){k->batch, k->c_each});
    if (status == CUBLAS_STATUS_SUCCESS)
        status = layout_make(&plan->d, k->result, d, k->d_stride, (int64_t[]){k->batch, k->d_each});
    return status;
}

/* A setting of 32 bits, of which all are that the product has. */
static cublasStatus_t product_set(const struct plan *plan, cublasLtMatmulDescAttributes_t which,
                                  int32_t value)
{
    return cublasLtMatmulDescSetAttribute(plan->product, which, &value, sizeof(value));
}

static cublasStatus_t bias_set(const struct plan *plan, const void *bias)
{
    cublasStatus_t status =
        product_set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = product_set(plan, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                             (int32_t)data_type(plan->key.result));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                &bias, sizeof(bias));
    return status;
}

/* They are in the result's type unless another is set. */
static cublasStatus_t slopes_set(const struct plan *plan, const void *slopes_at)
{
    cublasStatus_t status =
        product_set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DGELU);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                                                &plan->key.slopes_stride, sizeof(int64_t));
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                           &slopes_at, sizeof(slopes_at));
    return status;
}

static cublasStatus_t product_make(const struct lt *lt, struct plan *plan,
                                   const struct lt_product *p)
{
    const struct key *k = &plan->key;
    bool rounds = k->type == WK_F32 && lt->tf32;
    cublasStatus_t status = cublasLtMatmulDescCreate(
        &plan->product, rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS && k->b_turned)
        status = product_set(plan, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (status == CUBLAS_STATUS_SUCCESS && k->a_turned)
        status = product_set(plan, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_T);
    if (status == CUBLAS_STATUS_SUCCESS && k->has_bias)
        status = bias_set(plan, p->bias);
    if (status == CUBLAS_STATUS_SUCCESS && k->slopes_stride)
        status = slopes_set(plan, p->slopes_at);
    if (status == CUBLAS_STATUS_SUCCESS && k->factors_there)
        status = product_set(plan, CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
    return status;
}

static cublasStatus_t preference_fill(cublasLtMatmulPreference_t preference, const struct key *k)
{
    const struct {
        cublasLtMatmulPreferenceAttributes_t which;
        uint32_t value;
    } settings[] = {
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)k->b_align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)k->a_align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)k->c_align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)k->d_align},
    };
    uint64_t workspace = k->workspace;
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace));
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (status == CUBLAS_STATUS_SUCCESS)
            status = cublasLtMatmulPreferenceSetAttribute(
                preference, settings[i].which, &settings[i].value, sizeof(settings[i].value));
    }
    return status;
}

static cublasStatus_t choose(const struct lt *lt, struct plan *plan)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
    int n = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = preference_fill(preference, &plan->key);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic(lt->handle, plan->product, plan->a, plan->b,
                                                plan->c, plan->d, preference, 1, &found, &n);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = n > 0 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED;
    plan->algo = found.algo;
    plan->workspace = found.workspaceSize;
    if (preference)
        (void)cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* Places follow each other from that of the hash on until a free one, so all are set again where a
 * plan goes. */
static void places_set(struct lt *lt)
{
    memset(lt->places, 0, sizeof(lt->places));
    for (int i = 0; i < lt->n; i++) {
        uint64_t at = key_hash(&lt->plans[i].key) % PLACES;
        while (lt->plans[i].used && lt->places[at])
            at = (at + 1) % PLACES;
        if (lt->plans[i].used)
            lt->places[at] = (uint16_t)(1 + i);
    }
}

static struct plan *plan_find(struct lt *lt, const struct key *key, uint64_t *ret_place)
{
    uint64_t at = key_hash(key) % PLACES;
    for (; lt->places[at]; at = (at + 1) % PLACES) {
        struct plan *plan = &lt->plans[lt->places[at] - 1];
        if (memcmp(&plan->key, key, sizeof(*key)) == 0)
            return plan;
    }
    *ret_place = at;
    return NULL;
}

static void product_refuse(struct cuda_queue *queue, const struct key *k, cublasStatus_t status)
{
    queue_fail(&queue->base, status == CUBLAS_STATUS_ALLOC_FAILED ? WK_ENOMEM : WK_EIO,
               "cuBLASLt refuses the product [%lld, %lld] [%lld, %lld] of %s into %s, %lld times: "
               "%s",
               (long long)k->m, (long long)k->k, (long long)k->k, (long long)k->n,
               wk_dtype_name((enum wk_dtype)k->type), wk_dtype_name((enum wk_dtype)k->result),
               (long long)k->batch, status_text(status));
}

/* A new plan takes the place of the oldest where all are taken. */
static struct plan *plan_make(struct cuda_queue *queue, struct lt *lt, const struct key *key,
                              const struct lt_product *p)
{
    uint64_t place = 0;
    struct plan *plan = plan_find(lt, key, &place);
    if (plan)
        return plan;
    int number = lt->n < LT_PLANS_MAX ? lt->n++ : lt->oldest;
    bool replaces = lt->plans[number].used;
    lt->oldest = (number + 1) % LT_PLANS_MAX;
    plan = &lt->plans[number];
    plan_release(plan);
    plan->key = *key;
    cublasStatus_t status = layouts_make(plan);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = product_make(lt, plan, p);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = choose(lt, plan);
    plan->used = status == CUBLAS_STATUS_SUCCESS;
    if (replaces)
        places_set(lt);
    else if (plan->used)
        lt->places[place] = (uint16_t)(1 + number);
    if (plan->used)
        return plan;
    product_refuse(queue, key, status);
    return NULL;
}

/* What the library would read wrong in silence. */
static bool is_sound(struct cuda_queue *queue, const struct lt_product *p, const void *workspace)
{
    uintptr_t addresses = (uintptr_t)p->a.at | (uintptr_t)p->b.at;
    uintptr_t results = (uintptr_t)p->d | (uintptr_t)p->c.at | (uintptr_t)p->bias;
    bool fits = p->m <= LT_SIZE_MAX && p->n <= LT_SIZE_MAX && p->k <= LT_SIZE_MAX &&
                p->batch <= LT_SIZE_MAX;
    bool aligned = addresses % type_bytes((int32_t)p->type) == 0 &&
                   results % type_bytes((int32_t)p->result) == 0 &&
                   (uintptr_t)workspace % WORKSPACE_ALIGN == 0 &&
                   (uintptr_t)p->slopes_at % LT_SLOPES_ALIGN == 0 &&
                   (!p->slopes_at || p->slopes_stride % LT_SLOPES_STEP == 0);
    if (!fits)
        queue_fail(&queue->base, WK_EINVAL,
                   "a product of %lld rows, %lld columns and %lld terms, %lld times; each is at "
                   "most %d",
                   (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->batch,
                   LT_SIZE_MAX);
    else if (!aligned)
        queue_fail(
            &queue->base, WK_EINVAL,
            "a product of memory that is not aligned to its elements, of a workspace that is "
            "not to %d bytes, or of slopes that are not to %d",
            WORKSPACE_ALIGN, LT_SLOPES_ALIGN);
    return fits && aligned;
}

void lt_product(struct cuda_queue *queue, const struct lt_product *p, void *workspace,
                size_t workspace_bytes)
{
    struct lt *lt = lt_open(queue);
    if (!lt || !is_sound(queue, p, workspace))
        return;
    struct key key = key_of(p, workspace_bytes);
    struct plan *plan = plan_make(queue, lt, &key, p);
    const float *alpha = p->factors_there ? p->factors_there : &p->alpha;
    const float *beta = p->factors_there ? p->factors_there + 1 : &p->beta;
    if (!plan)
        return;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (p->bias)
        status = cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                &p->bias, sizeof(p->bias));
    if (p->slopes_at)
        status =
            cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                           &p->slopes_at, sizeof(p->slopes_at));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmul(lt->handle, plan->product, alpha, p->b.at, plan->a, p->a.at,
                                plan->b, beta, c_of(p), plan->c, p->d, plan->d, &plan->algo,
                                workspace, workspace_bytes, queue->stream);
    if (status != CUBLAS_STATUS_SUCCESS)
        product_refuse(queue, &key, status);
}

size_t lt_workspace_bytes(int64_t m, int64_t n, int64_t batch)
{
    double bytes = (double)m * (double)n * (double)batch * PARTS_WORTH * sizeof(float);
    size_t whole = bytes < LT_WORKSPACE_MAX ? (size_t)bytes : LT_WORKSPACE_MAX;
    return (whole + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN;
}

int lt_plans(const struct cuda_device *device)
{
    const struct lt *lt = device->lt;
    return lt ? lt->n : 0;
}
