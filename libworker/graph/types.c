#include "libworker/graph/types.h"

#include <stdlib.h>

#include <worker/error.h>

#include "libworker/graph/op.h"

enum reader { READ_AS_FACTOR, READ_AS_VALUE, READ_AS_RESULT };

static void note_reader(enum reader *readers, const struct wk_tensor *tensor, enum reader reader)
{
    enum reader *most = &readers[tensor_base(tensor)->id];
    *most = reader > *most ? reader : *most;
}

/* How each value is read: the most demanding of its readers. */
static void note_readers(const struct wk_graph *graph, const struct trace *trace,
                         enum reader *readers)
{
    for (int i = 0; i < trace->n; i++) {
        const struct work *work = &trace->works[i];
        for (int k = 0; k < NODE_INPUTS_MAX; k++) {
            bool factor = (work->node->row->factors & OP_IN(k)) && !work->node->wide;
            if (work->in[k] && !factor && !work->node->row->view)
                note_reader(readers, work->in[k],
                            work->node->row->meets ? READ_AS_RESULT : READ_AS_VALUE);
        }
    }
    for (int i = 0; i < graph->n_losses; i++)
        note_reader(readers, trace->same[graph->losses[i].losses->id], READ_AS_RESULT);
    for (int i = 0; i < graph->n_outputs; i++)
        note_reader(readers, trace->same[graph->outputs[i].value->id], READ_AS_RESULT);
    for (int i = 0; i < graph->n_buffers; i++) {
        if (graph->buffers[i].next)
            note_reader(readers, trace->same[graph->buffers[i].next->id], READ_AS_RESULT);
    }
}

/* All values that the work reads are narrow: not indices, inputs and parameters. */
static bool reads_narrow(const struct work *work, const enum wk_dtype *types)
{
    bool narrow = true;
    for (int k = 0; k < NODE_INPUTS_MAX && narrow; k++) {
        const struct wk_tensor *base = work->in[k] ? tensor_base(work->in[k]) : NULL;
        narrow = !base || base->kind != TENSOR_VALUE || types[base->id] != WK_F32;
    }
    return narrow;
}

static bool is_narrow(const struct work *work, const enum wk_dtype *types)
{
    const struct wk_tensor *residual = work->in[LINEAR_RESIDUAL];
    switch (work->node->row->result) {
    case RESULT_WIDE:
        return false;
    case RESULT_LIKE:
        return tensor_base(work->in[0])->kind == TENSOR_VALUE && reads_narrow(work, types);
    case RESULT_NARROW:
        return work->node->row != &op_linear || !residual ||
               types[tensor_base(residual)->id] != WK_F32;
    }
    return false;
}

static enum wk_dtype type_of(const struct work *work, enum reader reader, enum wk_dtype compute,
                             const enum wk_dtype *types)
{
    if (reader == READ_AS_RESULT || work->node->wide || work->node->row->meets)
        return WK_F32;
    bool narrow = reader == READ_AS_FACTOR || is_narrow(work, types);
    return narrow ? compute : WK_F32;
}

int types_choose(const struct wk_graph *graph, const struct trace *trace, enum wk_dtype compute,
                 enum wk_dtype *ret_types)
{
    enum reader *readers = calloc((size_t)graph->n_tensors + 1, sizeof(*readers));
    if (!readers)
        return WK_ENOMEM;
    for (int i = 0; i < graph->n_tensors; i++)
        ret_types[i] = graph->tensors[i]->type;
    note_readers(graph, trace, readers);
    for (int i = 0; i < trace->n && compute != WK_F32; i++) {
        const struct work *work = &trace->works[i];
        const struct wk_tensor *out = work->out[0], *base = tensor_base(out);
        if (base->kind != TENSOR_VALUE || out->type != WK_F32)
            continue;
        ret_types[out->id] =
            base != out ? ret_types[base->id] : type_of(work, readers[out->id], compute, ret_types);
    }
    free(readers);
    return 0;
}
