#include "libworker/graph/add.h"

#include "libworker/graph/op.h"

/* What input `i` is read as: its own type, or what it is converted to. */
static enum wk_dtype wanted_type(const struct op_row *row, int i, enum wk_dtype type)
{
    bool index = row->index_input == 1 + i;
    switch (type) {
    case WK_U8:
    case WK_BOOL:
        return index ? WK_I32 : WK_F32;
    case WK_I64:
        return index ? WK_I32 : type;
    case WK_F64:
    case WK_F16:
    case WK_BF16:
        return index ? type : WK_F32;
    case WK_F32:
    case WK_I32:
        return type;
    }
    return type;
}

struct wk_tensor *graph_add(const struct node_request *request)
{
    struct node_request converted = *request;
    bool converts = !request->row->view && !request->row->any_type;
    int n = request->n_in <= NODE_INPUTS_MAX ? request->n_in : 0; /* too many are refused below */
    for (int i = 0; i < n && converts; i++) {
        struct wk_tensor *x = request->in[i];
        if (x && wanted_type(request->row, i, x->type) != x->type)
            converted.in[i] = wk_op_convert(x, wanted_type(request->row, i, x->type));
        if (x && !converted.in[i])
            return NULL;
    }
    return graph_add_exact(&converted);
}
