/* Launches of plain_gpu.h, and attention's kernels, on this machine's GPU in the program's own
 * memory: each has run to its end when it returns. */
#include <stdio.h>

#include "libworker/cuda/cuda.h"
#include "libworker/cuda/kernels/attention.h"
#include "libworker/cuda/launch.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/cuda/real/pinned.h"
#include "tests/lib/check.h"
#include "tests/numeric/cuda/plain_gpu.h"

static struct queue *queue; /* to the program's end */

static struct cuda_queue *begin(void)
{
    const struct fake_options options = gpu_options(1);
    pinned_begin();
    if (!queue)
        CHECK(!queue_new(gpu_new(&options), &queue, NULL));
    return cuda_queue_of(queue);
}

static void end(const char *name)
{
    struct error err = {0};
    (void)cuda_check(cuda_queue_of(queue), cudaGetLastError(), name);
    if (queue_finish(queue, &err)) {
        fprintf(stderr, "not so: %s runs: %s\n", name, err.text);
        exit(1);
    }
}

void plain_gpu_run(const struct cuda_launch *launch, const void *args)
{
    struct cuda_queue *own = begin();
    queue_fill(queue, own->scratch, 0xff, CUDA_SCRATCH_BYTES);
    launch->run(args, own);
    end(launch->name);
}

/* The linker has attention's test call these (--wrap). */
void __real_attention_device_forward(const struct attention_call *call, cudaStream_t stream);
void __wrap_attention_device_forward(const struct attention_call *call, cudaStream_t stream);
void __real_attention_device_backward(const struct attention_call *call, cudaStream_t stream);
void __wrap_attention_device_backward(const struct attention_call *call, cudaStream_t stream);

void __wrap_attention_device_forward(const struct attention_call *call, cudaStream_t stream)
{
    (void)stream;
    __real_attention_device_forward(call, begin()->stream);
    end("attention");
}

void __wrap_attention_device_backward(const struct attention_call *call, cudaStream_t stream)
{
    (void)stream;
    __real_attention_device_backward(call, begin()->stream);
    end("attention's gradients");
}
