/* Passes of the program's own that compute on a GPU (worker/parallel.h has those on the CPU).
 *
 *       struct wk_model *model = wk_custom_in(ctx, &own);
 *       wk_passes_on(model, "cuda");
 *       while (wk_next(loader, &batch)) {
 *           cudaStream_t stream = (cudaStream_t)wk_model_place(model).stream;
 *           struct wk_batch there;
 *           wk_send_batch(model, &batch, &there);
 *           my_forward<<<grid, block, 0, stream>>>(wk_parameter_data(model, 0), there.tokens,
 *                                                  loss);
 *           wk_set_loss_at(model, loss);
 *           my_backward<<<grid, block, 0, stream>>>(wk_parameter_grad(model, 0), …);
 *           wk_grad_ready(model, 0);
 *           wk_backward(model);
 *           wk_step(adamw);
 *       }
 *
 * Parameters, gradients, their narrow forms and the batch are memory of the GPU. A pass enqueues
 * kernels on the stream and waits for nothing: what libworker enqueues there before and after them
 * is ordered by the stream. Sums over the ranks begin at wk_grad_ready, or when a block is left
 * (wk_enter_block), and run beside the kernels that follow. What worker/parallel.h has about
 * strategies, precisions and accumulation applies. The program's other memory is its own:
 * cudaMalloc on the same GPU.
 *
 * Kernels on other streams are ordered by the program. They wait for an event of this stream before
 * they touch such memory. This stream waits for theirs before the next call of libworker.
 *
 * An error of a kernel that fails ends the training at the next wait, which is in wk_step. The
 * result of a launch itself is the program's to check (cudaGetLastError).
 *
 * No header of CUDA is needed here. One thread per context.
 */
#ifndef WORKER_DEVICE_H
#define WORKER_DEVICE_H

#include <worker/export.h>
#include <worker/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_model;

enum { WK_PASSES_DEVICES_MAX = 4, WK_DEVICE_NAME_MAX = 15 };

/* Declare before wk_prepare that a custom model's passes compute on this kind of device: "cuda" or
 * "cpu". Without a call it is the CPU. A program with passes for both calls it for each, and finds
 * out by wk_model_place which one it is on. wk_prepare refuses a device that was not declared
 * (WK_EUNSUPPORTED, with the reason why a GPU is not used).
 *
 * WK_EINVAL for a model of ours, a name that is empty or above WK_DEVICE_NAME_MAX bytes, and more
 * than WK_PASSES_DEVICES_MAX of them. WK_ESTATE after wk_prepare. */
WK_API int wk_passes_on(struct wk_model *model, const char *device);

/* Where a prepared model computes. On "cuda" its GPU is the calling thread's current one from then
 * on. The stream may change in wk_next and wk_join, so ask in each pass. */
struct wk_place {
    const char *device; /* "cuda", "cpu"; NULL before wk_prepare */
    int gpu;            /* its number in this process, for cudaSetDevice; else -1 */
    void *stream;       /* a cudaStream_t; NULL on the CPU */
};
WK_API struct wk_place wk_model_place(struct wk_model *model);

/* Copy a batch to the model's device. ret_batch is the batch with the addresses there, for what is
 * enqueued before the next call. The batch may be freed at once. Nothing waits but for the copy of
 * the batch before the last. On the CPU ret_batch is the batch.
 *
 * WK_EINVAL for a model of ours, for a tensor with 0 `elements` and for more than
 * WK_FIELDS_MAX tensors. WK_ESTATE before wk_prepare, WK_ENOMEM, or the device's failure. After an
 * error ret_batch has no samples. */
WK_API int wk_send_batch(struct wk_model *model, const struct wk_batch *batch,
                         struct wk_batch *ret_batch);

/* wk_set_loss of a number that is in memory of the model's device: *loss is read when the stream
 * gets there. So no pass waits for its loss. Called after the kernel that writes it was enqueued,
 * and before wk_backward. With several ranks, and devices without collectives of their own, the
 * last wk_backward of a window waits for it. WK_EINVAL for a model of ours and for NULL, WK_ESTATE
 * as wk_set_loss. */
WK_API int wk_set_loss_at(struct wk_model *model, const double *loss);

#ifdef __cplusplus
}
#endif

#endif
