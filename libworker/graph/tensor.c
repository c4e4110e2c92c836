/* Shape and type of a tensor, as they are compared, printed and returned to the program. */
#include <stdio.h>

#include "libworker/graph/build.h"

bool tensor_same_shape(const struct wk_tensor *a, const struct wk_tensor *b)
{
    bool same = a->dims == b->dims;
    for (int i = 0; i < a->dims && same; i++)
        same = dim_equal(a->shape[i], b->shape[i]);
    return same;
}

const char *tensor_text(const struct wk_tensor *tensor, char ret[TENSOR_TEXT_MAX])
{
    const char *name = tensor->name ? tensor->name : "";
    size_t used = (size_t)snprintf(ret, TENSOR_TEXT_MAX, "%s%s[", name, *name ? " " : "");
    for (int i = 0; i < tensor->dims && used < TENSOR_TEXT_MAX; i++) {
        char text[DIM_TEXT_MAX];
        used += (size_t)snprintf(ret + used, TENSOR_TEXT_MAX - used, "%s%s", i ? ", " : "",
                                 dim_text(tensor->shape[i], text));
    }
    if (used < TENSOR_TEXT_MAX)
        snprintf(ret + used, TENSOR_TEXT_MAX - used, "] %s", wk_dtype_name(tensor->type));
    return ret;
}

struct wk_shape wk_tensor_shape(const struct wk_tensor *tensor)
{
    struct wk_shape shape = {0};
    for (int i = 0; tensor && i < tensor->dims; i++) {
        struct dim d = tensor->shape[i];
        shape.size[shape.dims++] = dim_is_fixed(d)                    ? d.fixed
                                   : dim_equal(d, dim_of(WK_SAMPLES)) ? WK_SAMPLES
                                   : dim_equal(d, dim_of(WK_LENGTH))  ? WK_LENGTH
                                   : dim_equal(d, dim_of(WK_RANKS))   ? WK_RANKS
                                                                      : WK_REST;
    }
    return shape;
}

enum wk_dtype wk_tensor_type(const struct wk_tensor *tensor)
{
    return tensor ? tensor->type : WK_F32;
}
