/* libworker-cuda.so without a GPU, for jobs of a real cluster: the module's own host code and
 * emulated kernels over the fake runtime, with the fake NCCL between processes. A worker opens it
 * as it opens the real one, by MUSTER_CUDA_MODULE. Its GPUs are those of CUDA_VISIBLE_DEVICES. Two
 * processes with the same first one have the same GPU.
 *
 *     MUSTER_NCCL          the fake's library; without it there is no NCCL
 *     FAKE_NCCL_FOLDER     what its communicators have in common; the caller removes it
 *     FAKE_CUDA_SEED       the order of the streams (fake.h)
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/assert.h"
#include "libworker/cuda/cuda.h"
#include "libworker/cuda/nccl.h"
#include "tests/cuda/fake/fake.h"
#include "tests/cuda/fake_nccl.h"

/* The module's table (libworker/cuda/module.c) has these in the place of its own. */
__typeof__(cuda_count) __real_cuda_count, __wrap_cuda_count;
__typeof__(cuda_device_new) __real_cuda_device_new, __wrap_cuda_device_new;
struct cudnn_api;
int __wrap_cudnn_api_open(struct cudnn_api *ret, struct error *err);

/* The process's. */
static bool begun;
static struct device_ops ops;
static struct wire_ops wires;
static struct fake_nccl_work works[2]; /* of the call under way */
static int n_works;

static const char *value_of(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static int gpus(void)
{
    const char *at = value_of("CUDA_VISIBLE_DEVICES", "");
    int count = *at ? 1 : 0;
    for (; *at; at++)
        count += *at == ',';
    return count;
}

/* FNV-1a of the first UUID. */
static uint64_t first_gpu(void)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const char *at = value_of("CUDA_VISIBLE_DEVICES", "");
    for (; *at && *at != ','; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    return hash;
}

static void keep_work(void *stream, const struct fake_nccl_work *work)
{
    (void)stream;
    insist(n_works < 2);
    works[n_works++] = *work;
}

static void *new_memory(size_t bytes)
{
    void *memory = NULL;
    return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : NULL;
}

static void free_memory(void *memory)
{
    insist(cudaFree(memory) == cudaSuccess);
}

static void begin_nccl(void)
{
    static const struct fake_nccl_streams streams = {first_gpu, keep_work, new_memory, free_memory};
    const char *path = value_of("MUSTER_NCCL", NULL);
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *call = library ? dlsym(library, "fake_nccl_begin") : NULL;
    fake_nccl_begin_fn *begin;
    if (!call)
        return;
    memcpy(&begin, &call, sizeof(begin));
    begin(&streams, value_of("FAKE_NCCL_FOLDER", "/tmp"));
}

int __wrap_cuda_count(int *ret_count, struct error *err)
{
    if (!begun) {
        fake_begin(
            &(struct fake_options){.seed = strtoull(value_of("FAKE_CUDA_SEED", "2"), NULL, 10),
                                   .devices = gpus(),
                                   .driver = 13000});
        begin_nccl();
    }
    begun = true;
    return __real_cuda_count(ret_count, err);
}

static void run_work(struct queue *queue, const struct fake_nccl_work *work)
{
    const struct fake_work own = {.name = work->name, .run = work->run, .arg = work->arg};
    struct cuda_queue *at = cuda_queue_of(queue);
    (void)cuda_check(at, fake_enqueue(at->stream, &own), work->name);
}

/* NCCL's calls run nothing: what the fake may run at once is enqueued after them. What this rank
 * contributes is there for the others though nobody waits here. */
static int enqueue_message(struct device_wire *wire, struct queue *queue,
                           const struct wire_message *message, struct error *err)
{
    n_works = 0;
    int rc = nccl_wires.enqueue(wire, queue, message, err);
    if (rc)
        return rc;
    insist(n_works == 2);
    run_work(queue, &works[0]);
    queue->device->ops->finish(event_record(queue));
    run_work(queue, &works[1]);
    return 0;
}

/* That of a machine would run on the machine's GPU. */
int __wrap_cudnn_api_open(struct cudnn_api *ret, struct error *err)
{
    (void)ret;
    return error_set(err, WK_EUNAVAILABLE, "no cuDNN for attention, as there is no GPU");
}

int __wrap_cuda_device_new(int number, struct device **ret_device, struct error *err)
{
    int rc = __real_cuda_device_new(number, ret_device, err);
    if (rc)
        return rc;
    wires = nccl_wires;
    wires.enqueue = enqueue_message;
    ops = *(*ret_device)->ops;
    ops.wires = &wires;
    (*ret_device)->ops = &ops;
    return 0;
}
