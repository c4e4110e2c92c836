/* Passes of a program's own on its model's device: the squared error of a bigram table, as launches
 * that declare what they touch. So the rehearsal device finds where their order is wrong. One
 * thread. */
#ifndef TRAIN_OWN_DEVICE_H
#define TRAIN_OWN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include <worker/types.h>

struct queue;
struct wk_model;

enum { OWN_WIDTH = 128 };

struct own_device {
    bool by_block; /* the weight is block 0, the bias block 1 */
    struct queue *queue;
    void *apart; /* [bytes], the differences of a pass, after its loss */
    size_t bytes;
};

/* Declare the devices, before the model is prepared. */
void own_device_declare(struct wk_model *model);

/* Forward and backward of a batch with announcements, up to wk_backward. Waits for nothing. */
void own_device_passes(struct own_device *own, struct wk_model *model,
                       const struct wk_batch *batch);

/* Before the context is closed. */
void own_device_fini(struct own_device *own);

#endif
