/* Inside view of custom models (worker/parallel.h). */
#ifndef PARALLEL_CUSTOM_H
#define PARALLEL_CUSTOM_H

#include <stdbool.h>

#include <worker/types.h>

#include "libworker/nn/hooks.h"

struct custom_device;
struct param;
struct wk_model;

bool model_is_custom(const struct wk_model *model);

/* What it has to do with devices (custom_device.h); the model is custom. */
struct custom_device *custom_device_of(struct wk_model *model);

/* Whether passes read this parameter's bits in `type`; and whether they multiply their loss with
 * the loss scale, because they take some parameter in f16. */
bool custom_takes(const struct param *param, enum wk_dtype type);
bool custom_carries_scale(const struct wk_model *model);

/* Where the passes of a model by blocks are (wk_enter_block). `block` is -1 between passes. */
struct custom_place {
    int block;
    enum model_pass pass;
    bool whole; /* all parameters are readable: they were gathered for the program */
};

/* Buffers name more than one block. Other models are at block -1 and readable at any time. */
bool custom_by_block(const struct wk_model *model);
struct custom_place custom_place(const struct wk_model *model);

/* Whether this block and pass may follow; if not, `ret_next` is a block that may, and its pass. */
bool custom_follows(const struct wk_model *model, struct custom_place to,
                    struct custom_place *ret_next);

/* Be there. For a model without blocks it does nothing. */
void custom_go(struct wk_model *model, struct custom_place to);

/* Addresses may have changed: write them into the arrays that the program bound. */
void custom_show_bound(struct wk_model *model);

#endif
