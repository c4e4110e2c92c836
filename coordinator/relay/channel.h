/* One channel: a terminal, a program or a connection beside a running worker, between the client
 * that opened it and the agent of the worker's node.
 *
 *       client ── in ──────────► agent ──► the process
 *       client ◄── out, errors ─ agent ◄──
 *
 *       open ──► over ──► forgotten (relay.h)
 *
 * A channel is over when its program ended, or was ended with a sentence. What it wrote before can
 * still be read then. Pure; owned by the relay; loop thread only.
 */
#ifndef RELAY_CHANNEL_H
#define RELAY_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/list.h"
#include "common/base/name.h"
#include "coordinator/relay/pipe.h"

enum {
    CHANNEL_ID_BYTES = 16, /* random; an id has twice as many hex digits */
    CHANNEL_WORDS_MAX = 96,
    CHANNEL_TERM_MAX = 63,
    CHANNEL_TEXT_MAX = 511,
    CHANNEL_ARGS_MAX = 256,
    CHANNEL_ARGS_MAX_BYTES = 32 << 10, /* with their NULs */
    CHANNEL_SIDE_MAX = 4096,           /* rows, columns */
};

enum channel_stream { CHANNEL_IN, CHANNEL_OUT, CHANNEL_ERRORS, CHANNEL_STREAMS };

struct channel_wish {         /* texts are copied */
    const char *owner, *user; /* token: its id and its name */
    const char *tenant, *job, *node;
    uint64_t incarnation; /* of the node's agent */
    uint64_t uid;         /* of the worker, */
    int rank;             /* which has this rank now */
    char *const *argv;    /* argc of them; 0 = a shell */
    size_t argc;
    bool terminal;
    const char *term; /* TERM of the terminal */
    uint32_t rows, columns;
    uint16_t port; /* not 0: a connection to it */
};

struct channel_end {
    bool exited; /* the program ended by itself: with `code`, or by `signal` if that is not 0 */
    int code, signal;
    char text[CHANNEL_TEXT_MAX + 1]; /* why it is over, for people; may be "" after an exit */
};

struct channel {
    char id[2 * CHANNEL_ID_BYTES + 1];
    char owner[NAME_LENGTH_MAX + 1], user[NAME_LENGTH_MAX + 1];
    char tenant[NAME_LENGTH_MAX + 1], job[NAME_LENGTH_MAX + 1], node[NAME_LENGTH_MAX + 1];
    uint64_t incarnation, uid;
    int rank;
    char **argv; /* argc of them, in one allocation */
    size_t argc;
    char words[CHANNEL_WORDS_MAX]; /* for people: "a shell", "`ls -l`", "port 6006" */
    bool terminal;
    char term[CHANNEL_TERM_MAX + 1];
    uint32_t rows, columns; /* of the client's window now */
    uint16_t port;
    uint64_t request; /* the call that opened it, 0 after its answer */
    bool announced;   /* it is on record, so its agent may know of it */
    bool taken;       /* its agent has called */
    bool over, told;  /* told: its end is on record */
    bool left;        /* its client closed it and reads no more */
    struct channel_end end;
    int64_t opened_ms, over_ms;
    int64_t client_ms, used_ms; /* of the client's last call, and of the last byte */
    struct relay_pipe pipes[CHANNEL_STREAMS];
    struct list link; /* in the relay */
};

/* E_INVALID_ARGUMENT: what a client wishes is beyond a limit of this header. */
int channel_check(const struct channel_wish *wish, struct error *err);

/* `id` has CHANNEL_ID_BYTES. E_RESOURCE_EXHAUSTED without memory. */
int channel_new(const struct channel_wish *wish, const uint8_t *id, int64_t now_ms,
                struct channel **ret, struct error *err);
void channel_free(struct channel *channel);

/* Over from now on. False if it was over: the first end stays. */
bool channel_finish(struct channel *channel, const struct channel_end *end, int64_t now_ms);
/* The same for an end that is not the program's own. */
bool channel_stop(struct channel *channel, int64_t now_ms, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* How it ended: "exit code 0", "signal 9", or the sentence. */
void channel_end_text(const struct channel_end *end, char ret[CHANNEL_TEXT_MAX + 1]);

#endif
