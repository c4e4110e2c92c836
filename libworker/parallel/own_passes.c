#include <stdlib.h>
#include <string.h>

#include <worker/parallel.h>

#include "libworker/device/device.h"
#include "libworker/nn/model.h"
#include "libworker/parallel/custom.h"
#include "libworker/parallel/elements.h"
#include "libworker/parallel/own_passes.h"

enum {
    ALIGN = 16, /* elements: views start on cache lines */
    ROOM_BYTES = ELEMENTS_PIECE * sizeof(float),
};

static bool reads_wide(const struct own_passes *own, const struct param *param)
{
    return model_reads_low(param) && !custom_takes(param, own->type);
}

static bool gives_narrow(const struct own_passes *own, const struct param *param)
{
    return custom_takes(param, own->type) && !(param->narrow & WK_GIVES_FLOAT);
}

static size_t aligned(size_t count)
{
    return (count + ALIGN - 1) / ALIGN * ALIGN;
}

/* The floats that a parameter has in each arena; narrow ones are half as long. */
struct room {
    size_t wide, given;
};

static struct room room_of(const struct own_passes *own, const struct param *param)
{
    return (struct room){reads_wide(own, param) ? aligned(param->count) : 0,
                         gives_narrow(own, param) ? aligned(param->count) / 2 : 0};
}

static int allocate(struct own_passes *own)
{
    const struct wk_model *model = own->model;
    struct room all = {0, 0};
    for (int i = 0; i < model->n_params; i++) {
        struct room room = room_of(own, &model->params[i]);
        all.wide += room.wide;
        all.given += room.given;
    }
    void *room = NULL;
    int rc = pages_place(&own->wide_pages, model->queue, all.wide, PAGES_PRIVATE);
    if (!rc)
        rc = pages_place(&own->given_pages, model->queue, all.given, PAGES_PRIVATE);
    if (!rc)
        rc = device_memory_new(queue_device(model->queue), ROOM_BYTES, &room, NULL);
    own->room = room;
    own->taken = calloc((size_t)model->n_params, sizeof(*own->taken));
    return own->room && own->taken ? rc : WK_ENOMEM;
}

int own_passes_init(struct own_passes *own, struct wk_model *model, enum wk_dtype type,
                    bool gives_back, struct error *err)
{
    *own = (struct own_passes){0};
    if (type == WK_F32 || !model_is_custom(model))
        return 0;
    *own = (struct own_passes){.model = model, .type = type, .gives_back = gives_back};
    if (allocate(own)) {
        own_passes_fini(own);
        return error_set(err, WK_ENOMEM, "no memory for the program's own passes");
    }
    uint16_t *given = (uint16_t *)own->given_pages.data;
    for (int i = 0; i < model->n_params; i++) {
        struct param *param = &model->params[i];
        param->low_grad = gives_narrow(own, param) ? given : NULL;
        given += param->low_grad ? aligned(param->count) : 0;
    }
    return 0;
}

void own_passes_fini(struct own_passes *own)
{
    for (int i = 0; own->model && i < own->model->n_params; i++) {
        own->model->params[i].wide = NULL;
        own->model->params[i].low_grad = NULL;
    }
    if (own->model)
        (void)queue_finish(own->model->queue, NULL);
    if (own->room)
        device_memory_free(queue_device(own->model->queue), own->room, ROOM_BYTES);
    pages_fini(&own->wide_pages);
    pages_fini(&own->given_pages);
    free(own->taken);
    *own = (struct own_passes){0};
}

static void widen_param(const struct own_passes *own, const struct param *param, float *wide)
{
    elements_widen(own->model, own->type, wide, (uint16_t *)(uintptr_t)param->low, param->count);
}

/* Memory that is never given back keeps what is overwritten in full before it is read again. */
static void give_back(const struct own_passes *own, size_t first, size_t count)
{
    if (own->gives_back && !own->wide_pages.queue && count)
        pages_drop(&own->wide_pages, first, count);
}

void own_passes_show(struct own_passes *own)
{
    float *wide = own->wide_pages.data;
    for (int i = 0; own->model && i < own->model->n_params; i++) {
        struct param *param = &own->model->params[i];
        if (!reads_wide(own, param))
            continue;
        if (!own->shown)
            widen_param(own, param, wide);
        param->wide = wide;
        wide += aligned(param->count);
    }
    own->shown = true;
}

void own_passes_hide(struct own_passes *own)
{
    for (int i = 0; own->model && i < own->model->n_params; i++)
        own->model->params[i].wide = NULL;
    if (own->shown)
        give_back(own, 0, own->wide_pages.count);
    own->shown = false;
}

/* Parameters of the block that passes read widened: widen them, or give their memory back. */
static void turn_block(struct own_passes *own, int block, bool shows)
{
    size_t at = 0;
    for (int i = 0; own->model && i < own->model->n_params; i++) {
        struct param *param = &own->model->params[i];
        size_t count = room_of(own, param).wide;
        if (param->block == block && count && shows) {
            param->wide = own->wide_pages.data + at;
            widen_param(own, param, param->wide);
        } else if (param->block == block && count) {
            param->wide = NULL;
            give_back(own, at, count);
        }
        at += count;
    }
}

void own_passes_show_block(struct own_passes *own, int block)
{
    turn_block(own, block, true);
    own->shown = true;
}

void own_passes_hide_block(struct own_passes *own, int block)
{
    turn_block(own, block, false);
}

void own_passes_begin(struct own_passes *own)
{
    if (own->model)
        memset(own->taken, 0, (size_t)own->model->n_params * sizeof(*own->taken));
}

static void empty(struct own_passes *own, const struct param *param)
{
    size_t first = (size_t)((float *)(void *)param->low_grad - own->given_pages.data);
    if (own->gives_back)
        pages_drop(&own->given_pages, first, aligned(param->count) / 2);
    else
        queue_fill(own->model->queue, param->low_grad, 0, param->count * sizeof(*param->low_grad));
}

void own_passes_take(struct own_passes *own, int index)
{
    if (!own->model || !own->model->params[index].low_grad)
        return;
    const struct param *param = &own->model->params[index];
    const struct elements_pieces how = {.type = own->type, .wide = own->room};
    elements_add_widened(own->model, &how, param->grad, param->low_grad, param->count);
    empty(own, param);
    own->taken[index] = true;
}

void own_passes_take_rest(struct own_passes *own)
{
    for (int i = 0; own->model && i < own->model->n_params; i++)
        if (!own->taken[i])
            own_passes_take(own, i);
}

void own_passes_forget(struct own_passes *own)
{
    for (int i = 0; own->model && i < own->model->n_params; i++)
        if (own->model->params[i].low_grad)
            empty(own, &own->model->params[i]);
}
