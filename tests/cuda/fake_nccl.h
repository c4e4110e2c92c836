/* A library with NCCL's names for tests without a GPU, between real processes of one host: built as
 * libnccl.so.2 and opened as the real one is. What it demands of its caller is a line each in
 * docs/nccl.md, for a check on the real library. A broken demand ends the process with
 * a sentence.
 *
 * It knows nothing of streams. Who has some gives it functions, before the first other call.
 */
#ifndef CUDA_FAKE_NCCL_H
#define CUDA_FAKE_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A collective of a stream: device memory that it reads, or writes in full. */
struct fake_nccl_work {
    const char *name;
    void (*run)(void *arg);
    void *arg; /* lives until the process ends */
    const void *in;
    size_t in_bytes;
    void *out;
    size_t out_bytes;
};

struct fake_nccl_streams {
    uint64_t (*device)(void); /* the present one; the same number of another process is the same */
    /* After the stream's earlier work. It may run twice. Work with an `in` must run soon, though
     * nobody waits for it: other ranks do. Work with an `out` may wait long. */
    void (*enqueue)(void *stream, const struct fake_nccl_work *work);
    /* Device memory for ncclMemAlloc. NULL slots: there is none. */
    void *(*memory_new)(size_t bytes);
    void (*memory_free)(void *memory);
};

/* Of the library: found by dlsym. Folder of the communicators' memory, which the caller removes. */
typedef void fake_nccl_begin_fn(const struct fake_nccl_streams *streams, const char *folder);
void fake_nccl_begin(const struct fake_nccl_streams *streams, const char *folder);

/* A captured graph that has collectives of this process's communicators: they cannot be aborted
 * while there is one. */
typedef void fake_nccl_graphs_fn(int change);
void fake_nccl_graphs(int change);

#endif
