/* A line of a program that reports (docs/report.md has the protocol), read into plain data: pure.
 * Texts are in the caller's arena. */
#ifndef LINK_REPORT_LINE_H
#define LINK_REPORT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/name.h"

enum {
    REPORT_SAMPLES_MAX = 64,
    REPORT_RANKS_MAX = 1024,
    REPORT_PATH_MAX = 4095,
    REPORT_KEY_MAX = 256,
    REPORT_VALUE_MAX = 16 << 10,
    REPORT_TEXT_MAX = 255, /* of `client` and `why` */
    REPORT_SECONDS_MAX = 86400,
};

/* enum word, "do" */
#define REPORT_KINDS(X)                                                                            \
    X(HELLO, hello)                                                                                \
    X(STEP, step)                                                                                  \
    X(METRIC, metric)                                                                              \
    X(PAUSE, pause)                                                                                \
    X(CHECKPOINT, checkpoint)                                                                      \
    X(LATEST, latest)                                                                              \
    X(SHOULD_STOP, should_stop)                                                                    \
    X(PUT, put)                                                                                    \
    X(GET, get)                                                                                    \
    X(DONE, done)                                                                                  \
    X(STACKS, stacks)                                                                              \
    X(JOIN, join)                                                                                  \
    X(LOST, lost)

enum report_kind {
#define X(upper, lower) REPORT_##upper,
    REPORT_KINDS(X)
#undef X
        REPORT_KINDS_COUNT
};

enum report_phase { REPORT_BEGIN, REPORT_WHOLE, REPORT_FAILED }; /* of a checkpoint */

struct report_sample {
    const char *name; /* METRIC_NAME_MAX bytes at most */
    double value;
};

struct report_line {
    enum report_kind kind;
    bool has_id, has_step, has_total, elastic;
    int64_t id;
    uint64_t generation; /* 0 = not given */
    uint64_t step, total_steps, bytes, protocol;
    double for_s, wait_s, waited_s; /* waited_s NAN = not given */
    enum report_phase phase;
    int signal;                                               /* of stacks */
    bool pipe;                                                /* stacks are written to one */
    const char *client, *why, *path, *key, *value, *endpoint; /* "" if not given */
    struct report_sample samples[REPORT_SAMPLES_MAX];
    int samples_count;
    uint32_t ranks[REPORT_RANKS_MAX];
    int ranks_count;
};

/* E_INVALID_ARGUMENT with a sentence; then has_id and id are still set if the line has them.
 * E_RESOURCE_EXHAUSTED without memory. */
int report_line_parse(const char *text, size_t size, struct arena *arena, struct report_line *ret,
                      struct error *err);

const char *report_kind_name(enum report_kind kind);

/* Quick guesses about a line that is not parsed: the id with which it asks for an answer (-1: it
 * asks for none), and whether it has a step. */
int64_t report_line_asks(const char *text, size_t size);
bool report_line_steps(const char *text, size_t size);

#endif
