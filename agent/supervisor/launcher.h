/* Starts and ends worker processes and remembers them. Real: supervisor/launcher_shim (one shim
 * process per worker, which outlives the agent); simulated: tests/sim. A launcher outlives the
 * agents that use it one after another: launcher.open binds it to the present one. Loop thread
 * only. Callbacks never run inside the call that caused them, except `found` inside open.
 *
 * Contract: a key is started at most once ever. After start returned 0 exactly one `exited` or
 * `start_failed` follows, in this agent or as `found` in a later one. All calls name a worker by
 * key. A call for an unknown key does nothing (or returns E_NOT_FOUND if it can).
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
    /* It will never run: no such program, port in use, ...; `code` as agent_start_code. */
    void (*start_failed)(void *arg, const struct worker_key *key, int code, const char *why);
    /* SIGKILL did not end all its processes. Called again when the set of remaining processes
     * changes; `exited` follows when all have ended, without a time limit. */
    void (*stuck)(void *arg, const struct worker_key *key, const struct worker_stuck *stuck);
    /* It and all its descendants have ended; its output is complete. */
    void (*exited)(void *arg, const struct worker_key *key, const struct worker_exit *exit);
    /* There is new output for read_output. */
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
    bool complete;       /* the worker has ended and nothing follows this batch */
};

struct terminal;
struct terminal_wish;
struct terminal_events;

struct launcher {
    void *self;
    /* Bind, then report (`found`) every worker that earlier agents started and did not forget. */
    int (*open)(void *self, const struct launcher_events *events, struct error *err);
    /* The agent ends: no callbacks follow; the workers continue. */
    void (*close)(void *self);
    /* E_ALREADY_EXISTS if the key was ever started. After any failure no process is left. */
    int (*start)(void *self, const struct launch *launch, struct error *err);
    void (*terminate)(void *self,
                      const struct worker_key *key); /* launch.stop_signal to its group */
    /* launch.early_signal to its group, if it runs. */
    void (*signal_early)(void *self, const struct worker_key *key);
    void (*kill)(void *self, const struct worker_key *key); /* SIGKILL to its whole tree */
    void (*remember)(void *self, const struct worker_key *key, const struct worker_memory *memory);
    /* Lines after the acknowledged ones: at most `max_bytes` of text, but at least one line if
     * there is any. The same lines again until acknowledged. Free with output_batch_fini. */
    int (*read_output)(void *self, const struct worker_key *key, size_t max_bytes,
                       struct output_batch *ret, struct error *err);
    /* Lines before number `next` are stored elsewhere. Durable. */
    void (*acknowledge)(void *self, const struct worker_key *key, uint64_t next);
    void (*forget)(void *self, const struct worker_key *key); /* exited ones only */
    /* The uid it runs as; -1 if unknown. May be NULL. */
    int64_t (*owner)(void *self, const struct worker_key *key);
    /* Open a process beside a running worker (terminal.h), which the caller frees. May be NULL.
     * E_NOT_FOUND: no such worker; E_FAILED_PRECONDITION: it has not started, or has ended;
     * E_RESOURCE_EXHAUSTED: TERMINALS_*_MAX; E_INVALID_ARGUMENT, E_OUT_OF_RANGE: the wish. A
     * program that cannot be executed has a terminal that ends: TERMINAL_NOT_STARTED. `close` frees
     * the terminals that are left, without a callback. */
    int (*open_terminal)(void *self, const struct worker_key *key, const struct terminal_wish *wish,
                         const struct terminal_events *events, struct terminal **ret,
                         struct error *err);
    /* The same for a TCP connection to 127.0.0.1:port. */
    int (*open_connection)(void *self, const struct worker_key *key, uint16_t port,
                           const struct terminal_events *events, struct terminal **ret,
                           struct error *err);
};

/* lines is one allocation, texts included. */
void output_batch_fini(struct output_batch *batch);

#endif
