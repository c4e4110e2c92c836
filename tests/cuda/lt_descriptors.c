/* What the fake of cuBLASLt takes for granted, asked of whichever library is linked: the real one
 * says it without a GPU, too. */
#include <cublasLt.h>
#include <stdint.h>

#include "tests/lib/check.h"

#define OK(call) CHECK((call) == CUBLAS_STATUS_SUCCESS)

static void layouts_are_columns_once(void)
{
    static const cudaDataType_t types[] = {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F};
    for (int i = 0; i < 3; i++) {
        cublasLtMatrixLayout_t layout;
        uint64_t rows = 0;
        int64_t ld = 0, offset = -1;
        int32_t order = -1, batch = -1;
        uint32_t type = 0;
        size_t bytes = 0;
        OK(cublasLtMatrixLayoutCreate(&layout, types[i], 5, 7, 11));
        OK(cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &type,
                                            sizeof(type), &bytes));
        OK(cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows,
                                            sizeof(rows), &bytes));
        CHECK(bytes == sizeof(rows));
        OK(cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof(ld),
                                            &bytes));
        OK(cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order,
                                            sizeof(order), &bytes));
        OK(cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                            sizeof(batch), &bytes));
        OK(cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                            &offset, sizeof(offset), &bytes));
        CHECK(type == (uint32_t)types[i] && rows == 5 && ld == 11);
        CHECK(order == CUBLASLT_ORDER_COL && batch == 1 && offset == 0);
        OK(cublasLtMatrixLayoutDestroy(layout));
    }
}

static void attributes_have_their_size(void)
{
    cublasLtMatrixLayout_t layout;
    cublasLtMatmulDesc_t product;
    int64_t wide = 3;
    int32_t narrow = 3;
    OK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 5, 7, 11));
    CHECK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &wide,
                                           sizeof(wide)) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_LD, &narrow,
                                           sizeof(narrow)) == CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &narrow,
                                        sizeof(narrow)));
    OK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &wide,
                                        sizeof(wide)));
    OK(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &wide,
                                         sizeof(wide)) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &narrow,
                                         sizeof(narrow)) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &narrow,
                                         sizeof(narrow)) == CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &wide,
                                      sizeof(wide)));
    CHECK(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                         &narrow, sizeof(narrow)) == CUBLAS_STATUS_INVALID_VALUE);
    narrow = CUBLASLT_EPILOGUE_DGELU;
    OK(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &narrow,
                                      sizeof(narrow)));
    OK(cublasLtMatmulDescDestroy(product));
    OK(cublasLtMatrixLayoutDestroy(layout));
}

static int32_t setting_of(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t which)
{
    int32_t value = -99;
    size_t bytes = 0;
    OK(cublasLtMatmulDescGetAttribute(product, which, &value, sizeof(value), &bytes));
    CHECK(bytes == sizeof(value));
    return value;
}

static void products_begin_plain(void)
{
    cublasLtMatmulDesc_t product;
    const void *bias = &product, *got = NULL;
    size_t bytes = 0;
    OK(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK(setting_of(product, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE) == CUBLAS_COMPUTE_32F);
    CHECK(setting_of(product, CUBLASLT_MATMUL_DESC_SCALE_TYPE) == CUDA_R_32F);
    CHECK(setting_of(product, CUBLASLT_MATMUL_DESC_POINTER_MODE) == CUBLASLT_POINTER_MODE_HOST);
    CHECK(setting_of(product, CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_N);
    CHECK(setting_of(product, CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_N);
    CHECK(setting_of(product, CUBLASLT_MATMUL_DESC_EPILOGUE) == CUBLASLT_EPILOGUE_DEFAULT);
    CHECK(setting_of(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE) == -1);
    OK(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                      sizeof(bias)));
    OK(cublasLtMatmulDescGetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &got, sizeof(got),
                                      &bytes));
    CHECK(got == bias);
    OK(cublasLtMatmulDescDestroy(product));
}

/* Memory is taken to be aligned to 256 bytes unless the caller says less. */
static void preferences_begin_strict(void)
{
    static const cublasLtMatmulPreferenceAttributes_t aligns[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasLtMatmulPreference_t preference;
    uint64_t workspace = 1;
    uint32_t value = 1;
    size_t bytes = 0;
    OK(cublasLtMatmulPreferenceCreate(&preference));
    for (int i = 0; i < 4; i++) {
        OK(cublasLtMatmulPreferenceGetAttribute(preference, aligns[i], &value, sizeof(value),
                                                &bytes));
        CHECK(value == 256);
    }
    OK(cublasLtMatmulPreferenceGetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &workspace, sizeof(workspace), &bytes));
    CHECK(workspace == 0);
    OK(cublasLtMatmulPreferenceGetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                            &value, sizeof(value), &bytes));
    CHECK(value == CUBLASLT_REDUCTION_SCHEME_MASK);
    CHECK(cublasLtMatmulPreferenceSetAttribute(
              preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &workspace,
              sizeof(workspace)) == CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatmulPreferenceDestroy(preference));
}

/* A handle that the library refuses leaves 192 bytes of its own. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libcublasLt\n";
}

/* No driver, no handle: products are refused before anything is asked of a GPU. */
static void no_gpu_no_handle(void)
{
    cublasLtHandle_t handle = NULL;
    cublasStatus_t status = cublasLtCreate(&handle);
    if (status == CUBLAS_STATUS_SUCCESS)
        OK(cublasLtDestroy(handle));
    else
        CHECK(status == CUBLAS_STATUS_NOT_INITIALIZED);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(layouts_are_columns_once), CHECK_CASE(attributes_have_their_size),
        CHECK_CASE(products_begin_plain),     CHECK_CASE(preferences_begin_strict),
        CHECK_CASE(no_gpu_no_handle),         {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
