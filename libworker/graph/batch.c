#include "libworker/graph/batch.h"

#include <stdio.h>
#include <string.h>

#include <worker/error.h>
#include <worker/nn.h>

#include "libworker/graph/element.h"
#include "libworker/graph/op.h"

static const struct wk_batch_tensor *tensor_named(const struct wk_batch *batch, const char *name)
{
    for (int i = 0; i < batch->n_tensors; i++) {
        if (batch->tensors[i].name && !strcmp(batch->tensors[i].name, name))
            return &batch->tensors[i];
    }
    return NULL;
}

/* The program's own arrays are preferred to the loader's. */
struct wk_batch_tensor batch_find(const struct wk_graph *graph, const struct wk_batch *batch,
                                  int index)
{
    const char *name = graph->inputs[index]->name;
    const struct wk_batch_tensor *own = tensor_named(batch, name);
    struct wk_batch_tensor found = {.name = name, .type = WK_I32};
    if (own)
        return *own;
    if (!strcmp(name, "tokens"))
        found.data = batch->tokens;
    else if (!strcmp(name, "targets"))
        found.data = batch->targets;
    return found;
}

const void *batch_input(const struct wk_graph *graph, const struct wk_batch *batch, int index)
{
    return batch_find(graph, batch, index).data;
}

bool batch_has_inputs(const struct wk_graph *graph, const struct wk_batch *batch, uint64_t inputs)
{
    bool has = true;
    for (int i = 0; i < graph->n_inputs; i++)
        has &= !(inputs >> i & 1) || batch_input(graph, batch, i);
    return has;
}

int64_t batch_elements(const struct wk_tensor *tensor, const struct sizes *sizes)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->dims; i++)
        count *= dim_size(tensor->shape[i], sizes);
    return count;
}

/* Where documents begin: kernels rely on it. */
static int check_starts(const struct wk_tensor *input, const void *data, const struct sizes *sizes,
                        struct error *err)
{
    int64_t length = dim_size(input->shape[1], sizes), last = 0;
    int64_t count = batch_elements(input, sizes);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i % length, start = element_whole(data, input->type, i);
        last = at ? last : 0;
        if (start != last && start != at)
            return error_set(err, WK_EINVAL,
                             "input %s: %lld at position %lld of sample %lld; a document begins "
                             "there or at %lld",
                             input->name, (long long)start, (long long)at, (long long)(i / length),
                             (long long)last);
        last = start;
    }
    return 0;
}

/* The indices that a node reads are in its table. */
static int check_indices(const struct wk_graph *graph, const struct wk_batch *batch,
                         const struct node *node, const struct sizes *sizes, struct error *err)
{
    const struct op_row *row = node->row;
    const struct wk_tensor *read = node->in[row->index_input - 1];
    const struct wk_tensor *input = read ? tensor_input(read) : NULL;
    const void *data = input ? batch_input(graph, batch, input->index) : NULL;
    if (!data)
        return 0;
    if (row->index_starts)
        return check_starts(input, data, sizes, err);
    int64_t bound = row->index_bound(node), count = batch_elements(input, sizes);
    for (int64_t i = 0; i < count; i++) {
        int64_t index = element_whole(data, input->type, i);
        if ((index >= 0 && index < bound) || (row->index_ignores && index == WK_IGNORED))
            continue;
        return error_set(err, WK_EINVAL, "input %s: %lld at element %lld is outside 0 to %lld (%s)",
                         input->name, (long long)index, (long long)i, (long long)bound - 1,
                         row->name);
    }
    return 0;
}

/* The number of a sample's elements, where the batch has it. */
static int check_size(const struct wk_tensor *input, const struct wk_batch_tensor *found,
                      int64_t length, struct error *err)
{
    int64_t wanted = batch_elements(input, &(struct sizes){1, length});
    if (!found->elements || found->elements == wanted)
        return 0;
    return error_set(err, WK_EINVAL,
                     "input %s has %lld elements a sample in the batch and %lld in the graph",
                     found->name, (long long)found->elements, (long long)wanted);
}

/* "the batch has no input pixel; it has pixels, label" */
static int refuse_missing(const struct wk_batch *batch, const char *name, struct error *err)
{
    char has[512] = "";
    for (int i = 0; i < batch->n_tensors; i++) {
        size_t used = strlen(has);
        if (batch->tensors[i].name)
            (void)snprintf(has + used, sizeof(has) - used, "%s%s", used ? ", " : "; it has ",
                           batch->tensors[i].name);
    }
    return error_set(err, WK_EINVAL, "the batch has no input %s%s", name, has);
}

static int check_input(const struct wk_graph *graph, const struct wk_batch *batch, int index,
                       bool needed, struct error *err)
{
    struct wk_batch_tensor found = batch_find(graph, batch, index);
    enum wk_dtype type = graph->inputs[index]->type;
    if (!found.data)
        return needed ? refuse_missing(batch, found.name, err) : 0;
    if (found.type != type)
        return error_set(err, WK_EINVAL, "input %s is %s in the batch and %s in the graph",
                         found.name, wk_dtype_name(found.type), wk_dtype_name(type));
    return check_size(graph->inputs[index], &found, batch->length > 0 ? batch->length : 1, err);
}

int batch_check(const struct wk_graph *graph, const struct wk_batch *batch,
                const struct sizes *sizes, bool losses, struct error *err)
{
    uint64_t needed = graph->output_inputs | (losses ? graph->loss_inputs : 0);
    int rc = 0;
    for (int i = 0; i < graph->n_inputs && !rc; i++)
        rc = check_input(graph, batch, i, needed >> i & 1, err);
    for (int i = 0; i < graph->n_nodes && !rc; i++) {
        if (graph->nodes[i]->row->index_input)
            rc = check_indices(graph, batch, graph->nodes[i], sizes, err);
    }
    return rc;
}
