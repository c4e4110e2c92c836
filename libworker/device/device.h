/* A device: memory of a place, and queues of work on it. Code above this seam never touches device
 * memory; it allocates, lists launches and waits.
 *
 *     launch, copy, fill ──► queue ──► run in the order of the calls
 *                              └─ event_record ──► event ──► queue_wait: another queue waits
 *                                                        └─► event_wait: the host waits
 *
 * Order: work of one queue runs in its order. Only events order two queues. What the host has
 * waited for is before all that it enqueues later.
 * Blocking: queue_finish, event_wait, queue_read and queue_write wait. No other function does.
 * Threads: a device, its memory and its queues are used by one thread at a time.
 * Ownership: the caller frees memory and queues, then the device. Work that uses memory or a queue
 * must have been waited for before either is freed.
 * Failure: a device that fails stays failed. It keeps its first sentence and runs no more work;
 * functions that wait return the code from then on. Functions without a result report nothing.
 *
 * cpu.h has the CPU: work runs at once, on the caller's thread. rehearsal/rehearsal.h has a device
 * for tests that finds violations of these rules.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

enum {
    DEVICE_ALIGN_BYTES = 64,
    DEVICE_QUEUES_MAX = 16, /* at a time */
    LAUNCH_ARGS_MAX_BYTES = 4096,
    LAUNCH_RANGES_MAX = 32,
};

struct device;
struct queue;

/* A point in a queue: everything enqueued before it. A value without an owner, valid until its
 * queue is freed. A zeroed event has happened. */
struct event {
    struct queue *queue;
    uint64_t at;
};

/* How a launch uses a range of device memory. Bits: one that reads and writes is an update. */
enum device_use {
    DEVICE_READ = 1,
    DEVICE_WRITE = 2,   /* alone: all bytes are written, no earlier content is read */
    DEVICE_UPDATE = 3,  /* read, and all or some of it written */
    DEVICE_SCRATCH = 4, /* content is undefined before and after */
};

struct device_range {
    const void *at;
    size_t bytes; /* 0 is allowed: no range */
    enum device_use use;
};

/* A kernel and what it works on. queue_launch copies all of it, args included. Host memory that
 * args point to stays unchanged until the launch has been waited for. `run` touches no device
 * memory outside the ranges, never waits, and enqueues nothing on a queue. */
struct device_launch {
    const char *name; /* one for each meaning: devices find kernels of their own by it */
    void (*run)(struct queue *queue, const void *args);
    const void *args;
    size_t args_bytes; /* <= LAUNCH_ARGS_MAX_BYTES */
    const struct device_range *ranges;
    int n_ranges; /* <= LAUNCH_RANGES_MAX; may overlap */
};

void device_free(struct device *device); /* NULL is fine */
const char *device_name(const struct device *device);
const char *device_kernels(const struct device *device); /* whose it runs: "cpu" */
/* Host code may read and write device memory between launches, as on the CPU. */
bool device_host_reads(const struct device *device);
int device_failure(const struct device *device, struct error *err); /* its code, or 0 */

/* Device memory of undefined content, or of zeros, aligned to DEVICE_ALIGN_BYTES; 0 bytes are
 * allowed. WK_ENOMEM leaves the device usable. Free with the same `bytes`; NULL is fine. */
int device_memory_new(struct device *device, size_t bytes, void **ret_memory, struct error *err);
int device_zeros_new(struct queue *queue, size_t bytes, void **ret_memory, struct error *err);
void device_memory_free(struct device *device, void *memory, size_t bytes);

/* Host memory that the device copies from and to: the same rules. The host leaves the source of a
 * queue_send unwritten, and the target of a queue_fetch untouched, until the copy has been waited
 * for. */
int device_pinned_new(struct device *device, size_t bytes, void **ret_memory, struct error *err);
void device_pinned_free(struct device *device, void *memory, size_t bytes);

int queue_new(struct device *device, struct queue **ret_queue, struct error *err); /* WK_ENOMEM */
void queue_free(struct queue *queue); /* NULL is fine */
struct device *queue_device(const struct queue *queue);

struct event event_record(struct queue *queue);
/* What is enqueued on `queue` from now on runs after the event, of any queue of the same device. */
void queue_wait(struct queue *queue, struct event event);

/* The host waits for an event / for all work of the queue. Returns the device's failure, if any. */
int event_wait(struct event event, struct error *err);
int queue_finish(struct queue *queue, struct error *err);

/* Copies: pinned memory to device memory, device to pinned, device to device. No overlap. */
void queue_send(struct queue *queue, void *to, const void *from, size_t bytes);
void queue_fetch(struct queue *queue, void *to, const void *from, size_t bytes);
void queue_copy(struct queue *queue, void *to, const void *from, size_t bytes);
void queue_fill(struct queue *queue, void *to, unsigned char byte, size_t bytes);
void queue_launch(struct queue *queue, const struct device_launch *launch);

/* Copies between device memory and any host memory, after all earlier work of the queue; they wait.
 * For checkpoints and tests. Return the device's failure; `to` of a failed read is undefined. */
int queue_read(struct queue *queue, void *to, const void *from, size_t bytes, struct error *err);
int queue_write(struct queue *queue, void *to, const void *from, size_t bytes, struct error *err);

/* For a launch's run: the device has failed; the first sentence is kept. `code` is a WK_ code. */
void queue_fail(struct queue *queue, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
