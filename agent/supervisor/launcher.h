/* Starts, ends and remembers worker processes. Real: supervisor/launcher_shim (one shim process per
 * worker, which outlives the agent); simulated: tests/sim. A launcher outlives the agents that use
 * it one after another: launcher.open binds it to the present one. Loop thread only; callbacks
 * never run inside the call that caused them, but for `found` inside open.
 *
 * Contract: a key is started at most once ever; after start returned 0 exactly one `exited` or
 * `start_failed` follows, in this agent or as `found` in a later one. All calls name a worker by
 * key; those for unknown keys do nothing (or E_NOT_FOUND where they can say so).
 */
#ifndef SUPERVISOR_LAUNCHER_H
#define SUPERVISOR_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/launch.h"
#include "common/base/error.h"

struct launcher_events {
    void *arg;
    void (*found)(void *arg, const struct worker_found *found);
    void (*started)(void *arg, const struct worker_key *key, int64_t pid);
    /* It will never run: no such program, port busy, ...; `code` of agent_start_code. */
    void (*start_failed)(void *arg, const struct worker_key *key, int code, const char *why);
    /* SIGKILL did not end all of it. Repeated when other processes are left; `exited` follows once
     * they have gone, whenever that is. */
    void (*stuck)(void *arg, const struct worker_key *key, const struct worker_stuck *stuck);
    /* It and all it left behind have ended; its output is complete. */
    void (*exited)(void *arg, const struct worker_key *key, const struct worker_exit *exit);
    /* There is output that read_output has not returned yet. */
    void (*output)(void *arg, const struct worker_key *key);
};

enum { OUTPUT_LINE_MAX_BYTES = 8192, OUTPUT_BATCH_LINES_MAX = 2048 };

struct output_line {
    int64_t wall_ms;
    bool is_stderr;
    const char *text; /* without its line end; valid UTF-8 */
};

struct output_batch {
    uint64_t first; /* number of lines[0] in this worker's output, from 0 */
    struct output_line *lines;
    int count;
    uint64_t generation; /* it was started in */
    uint32_t rank;       /* it was started with */
    bool complete;       /* the worker has ended and there is nothing after this batch */
};

struct launcher {
    void *self;
    /* Bind, then report every worker that earlier agents started and did not forget (`found`). */
    int (*open)(void *self, const struct launcher_events *events, struct error *err);
    /* The agent is gone: no callback from now on; the workers go on. */
    void (*close)(void *self);
    /* E_ALREADY_EXISTS if the key was ever started. On any failure no process is left. */
    int (*start)(void *self, const struct launch *launch, struct error *err);
    void (*terminate)(void *self, const struct worker_key *key); /* SIGTERM to its group */
    void (*kill)(void *self, const struct worker_key *key);      /* SIGKILL to its whole tree */
    void (*remember)(void *self, const struct worker_key *key, const struct worker_memory *memory);
    /* Lines after the acknowledged ones, at most `max_bytes` of text (but one line at least if
     * there is any). The same lines again until acknowledged. Free with output_batch_fini. */
    int (*read_output)(void *self, const struct worker_key *key, size_t max_bytes,
                       struct output_batch *ret, struct error *err);
    /* Lines before number `next` are safe elsewhere. Durable. */
    void (*acknowledge)(void *self, const struct worker_key *key, uint64_t next);
    void (*forget)(void *self, const struct worker_key *key); /* exited ones only */
    /* The uid it runs as; -1 where that is not known. May be NULL. */
    int64_t (*owner)(void *self, const struct worker_key *key);
};

/* lines is one allocation, texts included. */
void output_batch_fini(struct output_batch *batch);

#endif
