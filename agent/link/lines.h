/* A Unix stream socket for lines: what one worker's programs write to their agent. Each
 * connection is always read, so a writer never waits for long; answers that a client does not read
 * are dropped. Owned by the reporting socket; loop thread of a real loop only.
 *
 * A line ends with '\n'. A connection may be turned into one of text: then its bytes are passed on
 * as they arrive.
 */
#ifndef LINK_LINES_H
#define LINK_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/loop/loop.h"

enum {
    LINES_BYTES = 32 << 10,        /* of one line; a longer one is skipped */
    LINES_UNSENT_BYTES = 64 << 10, /* of answers that a client does not read */
    LINES_PEERS_MAX = 32,          /* connections of one socket */
    LINES_READ_BYTES = 64 << 10,   /* at a time */
    LINES_READS = 4,               /* of one connection before others have their turn */
};

struct lines;
struct lines_peer;

/* A peer stays valid until `gone`. None of these may free the socket. */
struct lines_events {
    void *arg;
    /* `line` has no line end, and a NUL after its `size` bytes; it may have NULs inside. */
    void (*line)(void *arg, struct lines_peer *peer, char *line, size_t size);
    void (*too_long)(void *arg, struct lines_peer *peer); /* called once, when it is over */
    void (*text)(void *arg, struct lines_peer *peer, const char *bytes, size_t size);
    void (*gone)(void *arg, struct lines_peer *peer);
};

struct lines_options { /* `path` is copied */
    const char *path;  /* a socket that an earlier agent left there is replaced */
    int64_t owner;     /* this user's processes may connect, and root's; -1 = the agent's user */
    struct lines_events events;
};

int lines_new(const struct lines_options *options, struct loop *loop, struct lines **ret,
              struct error *err);
/* Hang up and remove the socket, without calling `gone`. Accepts NULL. */
void lines_free(struct lines *lines);
/* The same, but the socket's file stays for the next agent. */
void lines_leave(struct lines *lines);

/* `text` and a line end. False if it was dropped, whole: the client does not read. */
bool lines_send(struct lines_peer *peer, const char *text, size_t size);
/* The same for a few bytes and a descriptor, of which the client gets its own (SCM_RIGHTS). False
 * also while earlier answers wait. `fd` stays the caller's. */
bool lines_send_descriptor(struct lines_peer *peer, const char *text, size_t size, int fd);
/* From the next byte on this is text. */
void lines_begin_text(struct lines_peer *peer);
/* Of the process that connected. It may have ended, and its number be another's; 0 = unknown. */
pid_t lines_pid(const struct lines_peer *peer);
uid_t lines_user(const struct lines_peer *peer); /* the user it connected as */

/* Connections, in the order they were made; NULL after the last. */
struct lines_peer *lines_first(const struct lines *lines);
struct lines_peer *lines_next(const struct lines_peer *peer);
void **lines_data(struct lines_peer *peer); /* a pointer of the user's; NULL at first */

#endif
