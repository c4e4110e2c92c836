/* What the files of the fake runtime have of each other. */
#ifndef FAKE_INSIDE_H
#define FAKE_INSIDE_H

#include "tests/cuda/fake/fake.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1 /* clang's way to say it */
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FAKE_POISON(at, bytes)   __asan_poison_memory_region(at, bytes)
#define FAKE_UNPOISON(at, bytes) __asan_unpoison_memory_region(at, bytes)
#else
#define FAKE_POISON(at, bytes)   ((void)(at), (void)(bytes))
#define FAKE_UNPOISON(at, bytes) ((void)(at), (void)(bytes))
#endif

enum { FAKE_DEVICES_MAX = 8, FAKE_STREAMS_MAX = 64 };

struct fake_state {
    struct fake_options options;
    struct fake_counts counts;
    bool begun;
    int device;         /* the current one */
    cudaError_t last;   /* what cudaGetLastError returns */
    cudaError_t sticky; /* of work that failed; 0: none */
    uint64_t random;
};
extern struct fake_state fake;

uint64_t fake_random(uint64_t below);

/* Remember and return an error of a call. */
cudaError_t fake_error(cudaError_t rc);

/* The beginning of every call that needs a driver and a device: what it fails with, or 0. */
cudaError_t fake_enter(void);

/* True: this allocation is to fail. */
bool fake_is_scarce(void);

/* Memory. Device memory is open while work runs; fake_memory_close at the end of each call. */
void *fake_memory_new(bool pinned, size_t bytes);
bool fake_memory_free(bool pinned, void *memory); /* false: there is no such memory */
bool fake_is_pinned(const void *at, size_t bytes);
void fake_memory_open(void);
void fake_memory_close(void);
bool fake_memory_is_device(const void *at); /* an address of it, allocated or not */
size_t fake_memory_used(int device);
bool fake_memory_count(int device, size_t bytes); /* of a piece (space.h); false: there is none */
void fake_memory_uncount(int device, size_t bytes);
int fake_memory_live(void); /* allocations that are not freed */
void fake_memory_end(void);

/* Streams. Each has a clock: of every stream, how much of its work is before what comes next. */
struct fake_clock {
    uint64_t at[FAKE_STREAMS_MAX];
};
void fake_run_some(void);                     /* as the seed wants */
bool fake_stream_knows(cudaStream_t stream);  /* it exists */
void fake_finish_stream(cudaStream_t stream); /* the host has waited for all of it */
void fake_finish_all(void);
int fake_streams_live(void);

/* Copies: those from and to pinned memory are watched until the host has waited for them. */
void fake_copy(cudaStream_t stream, void *to, const void *from, size_t bytes);
void fake_copies_known(const struct fake_clock *host);

#endif
