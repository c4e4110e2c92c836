/* A CUDA runtime without a GPU, for tests: the functions of cuda_runtime_api.h that the module
 * calls, and what tests and other fakes do with it.
 *
 *     cudart.c   the runtime's functions            stream.c   streams, events, what is before what
 *     memory.c   device and pinned memory           hook.c     launches of emulated kernels
 *     space.c    the driver's calls that map memory
 *     capture.c  streams that are captured, graphs  watch.c    pages that work touches
 *
 * Work of a stream runs in its order; else as early or as late as events permit, drawn by seed, on
 * the calling thread and in calls. So a missing event gives other results, or NaN, with some
 * seed, and is a race to ThreadSanitizer with every one: each stream is a thread to it.
 *
 *     device memory      closed to the host: a touch is SIGSEGV. Its content is 0xff at first.
 *                        Under ASan what is around and what was freed is poisoned.
 *     target of a copy   0xa5, and poisoned under ASan, until the host has waited for the copy
 *     source of a copy   must be unchanged when the copy runs
 *     an error           stays until cudaGetLastError; of work that failed, for good
 *
 * A mistake is a sentence on stderr and the end of the program. Not seen: kernels that touch memory
 * of the host. One thread at a time.
 */
#ifndef FAKE_FAKE_H
#define FAKE_FAKE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_options {
    uint64_t seed;
    int devices;         /* of sm_90; 0: as without a GPU */
    int driver;          /* CUDA version of the driver: 13000; 0: there is none */
    bool unmapped;       /* the driver cannot map memory */
    size_t memory_bytes; /* of each device; 0: as much as there is */
    long scarce_at;      /* this allocation, stream or event fails, counted from 1; 0: none */
    long fail_at;        /* this work fails with an illegal address, counted from 1; 0: none */
};

/* From now on. Before it there is no driver. fake_end: everything must have been freed. */
void fake_begin(const struct fake_options *options);
void fake_end(void);

/* Of a program whose other fakes are libraries, which find these in it. */
#define FAKE_SHARED __attribute__((visibility("default")))

/* Work for a stream: run(arg) in its turn, then drop(arg), if not NULL, also without run. `name` is
 * for sentences. `run` may touch device memory. For other fakes. */
struct fake_work {
    const char *name;
    void (*run)(void *arg);
    void (*drop)(void *arg);
    void *arg;
};
FAKE_SHARED cudaError_t fake_enqueue(cudaStream_t stream, const struct fake_work *work);

/* What the program has done since fake_begin. */
struct fake_counts {
    long allocations; /* of memory, streams and events: scarce_at counts these */
    long works;       /* fail_at counts these */
    long waits;       /* calls in which the host waited */
    long calls;       /* that enqueue work on a stream: a graph is one */
};
struct fake_counts fake_counted(void);

/* What a piece of work has touched of device memory, in whole pages: each once for reading, and
 * once for writing. A page that was written first counts as written only. */
enum { FAKE_PAGE = 4096 };
struct fake_touched {
    const char *name; /* of the work */
    size_t read, written;
};

/* Call it after each work from now on; NULL: no more. Slow. fake_can_watch: not under sanitizers,
 * and only where the processor says what a fault was for. */
void fake_watch(void (*call)(void *arg, const struct fake_touched *touched), void *arg);
bool fake_can_watch(void);

/* How often the fake of cuBLASLt (cublaslt.c) was asked for a plan. */
long fake_plans_asked(void);

/* For other fakes: true if the bytes are all in one allocation of device memory. */
FAKE_SHARED bool fake_is_device(const void *at, size_t bytes);

/* A mistake of the program. */
FAKE_SHARED void fake_found(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
