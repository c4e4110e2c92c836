/* Programs with one mistake each, which the fake runtime finds, by a sentence, a signal or another
 * result, and the same programs without it:
 *
 *     fake_mistakes [NAME SEED]
 *
 * The first ones are of host code that uses the device; the others are in the module's own order of
 * streams, where a function of the runtime does nothing or too little. */
#include <sys/wait.h>
#include <unistd.h>

#include "libworker/device/device_ops.h"
#include "tests/conformance/device/programs.h"
#include "tests/cuda/fake/gpu.h"

enum { SEEDS = 24, COUNT = 500, ROUNDS = 6, RIGHT = 0, WRONG = 7 };
#define BYTES (COUNT * sizeof(float))

enum mistake {
    NONE,
    HOST_TOUCHES_DEVICE_MEMORY,
    HOST_READS_TOO_EARLY,
    HOST_WRITES_TOO_EARLY,
    EVENT_IS_MISSING,
    MEMORY_IS_NOT_WRITTEN,
    MEMORY_IS_FREED_TWICE,
    MEMORY_IS_KEPT,
    QUEUE_IS_KEPT,
    COPY_IS_TOO_LONG,
    /* Of the module: */
    WAIT_DOES_NOTHING,
    RECORD_DOES_NOTHING,
    FINISH_DOES_NOTHING,
    TRANSFER_DOES_NOT_WAIT,
    FILL_IS_SHORT,
    COPY_IS_SHORT,
    SCRATCH_IS_NOT_CLEARED,
    MISTAKES
};

static const char *const names[MISTAKES] = {
    "none",
    "host_touches_device_memory",
    "host_reads_too_early",
    "host_writes_too_early",
    "event_is_missing",
    "memory_is_not_written",
    "memory_is_freed_twice",
    "memory_is_kept",
    "queue_is_kept",
    "copy_is_too_long",
    "wait_does_nothing",
    "record_does_nothing",
    "finish_does_nothing",
    "transfer_does_not_wait",
    "fill_is_short",
    "copy_is_short",
    "scratch_is_not_cleared",
};

static enum mistake mistake;

cudaError_t __real_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t __wrap_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t __wrap_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    return mistake == WAIT_DOES_NOTHING ? cudaSuccess
                                        : __real_cudaStreamWaitEvent(stream, event, flags);
}

cudaError_t __real_cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return mistake == RECORD_DOES_NOTHING ? cudaSuccess : __real_cudaEventRecord(event, stream);
}

cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event)
{
    return mistake == FINISH_DOES_NOTHING ? cudaSuccess : __real_cudaEventSynchronize(event);
}

cudaError_t __real_cudaStreamSynchronize(cudaStream_t stream);
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream);
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream)
{
    return mistake == TRANSFER_DOES_NOT_WAIT ? cudaSuccess : __real_cudaStreamSynchronize(stream);
}

cudaError_t __real_cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream);
cudaError_t __wrap_cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream);
cudaError_t __wrap_cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    if (mistake == SCRATCH_IS_NOT_CLEARED && bytes != BYTES)
        return cudaSuccess;
    return __real_cudaMemsetAsync(to, byte, mistake == FILL_IS_SHORT ? bytes - 1 : bytes, stream);
}

cudaError_t __real_cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return __real_cudaMemcpyAsync(to, from, mistake == COPY_IS_SHORT ? bytes - 1 : bytes, kind,
                                  stream);
}

/* Numbers go to the device on one queue, become others on a second one, and return, in two buffers
 * in turn. */
struct program {
    struct device *device;
    struct queue *in, *compute;
    float *x[2], *y, *to[2], *back;
    struct event used[2];
};

static void program_new(struct program *p, uint64_t seed)
{
    const struct fake_options options = gpu_options(seed);
    *p = (struct program){.device = gpu_hosted(&options)};
    p->in = a_queue(p->device);
    p->compute = a_queue(p->device);
    for (int i = 0; i < 2; i++) {
        p->x[i] = device_buffer(p->device, BYTES);
        p->to[i] = pinned_buffer(p->device, BYTES);
    }
    p->y = device_buffer(p->device, BYTES);
    p->back = pinned_buffer(p->device, BYTES);
    if (mistake != MEMORY_IS_NOT_WRITTEN)
        queue_fill(p->compute, p->y, 0, BYTES);
}

static void program_free(struct program *p)
{
    for (int i = 0; i < 2; i++) {
        device_memory_free(p->device, p->x[i], BYTES);
        device_pinned_free(p->device, p->to[i], BYTES);
    }
    if (mistake != MEMORY_IS_KEPT)
        device_memory_free(p->device, p->y, BYTES);
    if (mistake == MEMORY_IS_FREED_TWICE)
        device_memory_free(p->device, p->y, BYTES);
    device_pinned_free(p->device, p->back, BYTES);
    queue_free(p->in);
    if (mistake != QUEUE_IS_KEPT)
        queue_free(p->compute);
    device_free(p->device);
}

static void round_of(struct program *p, int round)
{
    float *x = p->x[round % 2], *to = p->to[round % 2];
    if (mistake != HOST_WRITES_TOO_EARLY)
        CHECK(event_wait(p->used[round % 2], NULL) == 0);
    for (int i = 0; i < COUNT; i++)
        to[i] = (float)(round + i);
    queue_wait(p->in, p->used[round % 2]);
    queue_send(p->in, x, to, mistake == COPY_IS_TOO_LONG ? BYTES + 256 : BYTES);
    if (mistake != EVENT_IS_MISSING)
        queue_wait(p->compute, event_record(p->in));
    affine(p->compute, "add", (struct affine){p->y, x, COUNT, 1, 0, true});
    p->used[round % 2] = event_record(p->compute);
    if (mistake == HOST_TOUCHES_DEVICE_MEMORY)
        x[0] = 1;
}

/* The scratch memory of a queue is zeros at first. */
static bool scratch_is_zero(struct program *p)
{
    unsigned char got[64] = {1};
    CHECK(queue_read(p->compute, got, gpu_scratch(p->compute), sizeof(got), NULL) == 0);
    for (size_t i = 0; i < sizeof(got); i++) {
        if (got[i])
            return false;
    }
    return true;
}

static bool is_right(struct program *p)
{
    float want[COUNT] = {0};
    bool right = scratch_is_zero(p);
    for (int round = 0; round < ROUNDS; round++)
        round_of(p, round);
    queue_fetch(p->compute, p->back, p->y, BYTES);
    if (mistake != HOST_READS_TOO_EARLY)
        CHECK(queue_finish(p->compute, NULL) == 0);
    for (int i = 0; i < COUNT; i++) {
        for (int round = 0; round < ROUNDS; round++)
            want[i] += (float)(round + i);
        right = right && p->back[i] == want[i];
    }
    CHECK(queue_finish(p->compute, NULL) == 0);
    affine(p->compute, "add", (struct affine){p->y, p->x[0], COUNT, 0, 1, true});
    CHECK(queue_read(p->compute, p->back, p->y, BYTES, NULL) == 0);
    for (int i = 0; i < COUNT; i++)
        right = right && p->back[i] == want[i] + 1;
    return right;
}

static int run_program(uint64_t seed)
{
    struct program program;
    program_new(&program, seed);
    bool right = is_right(&program);
    program_free(&program);
    return right ? RIGHT : WRONG;
}

/* True: it ended well, with the right numbers. */
static bool passes(enum mistake which, uint64_t seed)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        CHECK(freopen("/dev/null", "w", stderr));
        mistake = which;
        _exit(run_program(seed));
    }
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == RIGHT;
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        for (int m = 0; m < MISTAKES; m++)
            mistake = strcmp(argv[1], names[m]) == 0 ? (enum mistake)m : mistake;
        return run_program(strtoull(argv[2], NULL, 10));
    }
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        CHECK(passes(NONE, seed));
    for (int m = NONE + 1; m < MISTAKES; m++) {
        int found = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++)
            found += !passes((enum mistake)m, seed);
        if (!found)
            fprintf(stderr, "%s: not found\n", names[m]);
        CHECK(found > 0);
        printf("ok %s, with %d of %d seeds\n", names[m], found, SEEDS);
    }
    return 0;
}
