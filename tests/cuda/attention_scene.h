/* One call of the operation attention on a GPU, or the fake runtime's, by the device's own kernels,
 * as a plan makes it: laid out, run forward and backward, read back. The host's row is beside it.
 *
 * A scene belongs to its test; one thread. Memory that is short ends the test.
 */
#ifndef CUDA_ATTENTION_SCENE_H
#define CUDA_ATTENTION_SCENE_H

#include <stdbool.h>
#include <stddef.h>

#include "libworker/device/device.h"
#include "libworker/device/kernels.h"
#include "libworker/graph/launches.h"

struct scene_shape {
    int64_t samples, length;
    int heads, kv_heads;
    int64_t size;
    bool full, adds; /* adds: gradients are added to what is there */
    int64_t window;
    double scale; /* 0: 1 / sqrt(size) */
};

enum scene_result { SCENE_OUT, SCENE_LSE, SCENE_DQKV, SCENE_RESULTS };

struct scene;

/* Numbers of about 1, the same for each of a shape and type. */
struct scene *scene_new(const struct scene_shape *shape, enum wk_dtype type);
void scene_free(struct scene *scene);

/* Run both passes on the device, `shift` bytes beside an aligned address; or by the host's row. */
void scene_run(struct scene *scene, struct queue *queue, size_t shift);
void scene_run_host(struct scene *scene);

/* What a plan of a pass asks the device for, as it asks: without addresses. */
size_t scene_scratch(const struct scene *scene, const struct device *device, bool backward);

/* What the device says of its choice, once the scratch memory was asked for. */
void scene_chosen(const struct scene *scene, const struct device *device, bool backward,
                  char ret[DEVICE_CHOSEN_BYTES]);

/* The largest difference of two scenes' results, beside the second's largest value. */
double scene_off(const struct scene *scene, const struct scene *other, enum scene_result result);

#endif
