/* A communicator fails once and for all. The first failure counts, every rank learns of it, and
 * every later call returns it. Errors in arguments fail only their call. Any thread. */
#ifndef COMM_FAILURE_H
#define COMM_FAILURE_H

#include "libworker/comm/header.h"

struct wk_comm;
struct control_message;

/* Fail the communicator unless it has failed already, inform the others, wake the runner. Returns
 * the code that counts: the first. `lost` is the failed rank, or -1. */
int comm_fail(struct wk_comm *comm, int code, int lost, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for a failure of which its rank has already informed all. */
int comm_fail_heard(struct wk_comm *comm, struct control_message *message);

/* WK_EMISMATCH: this rank called `ours`, rank `peer` called `theirs`. */
int comm_fail_mismatch(struct wk_comm *comm, int peer, const struct header *ours,
                       const struct header *theirs);

/* Store the sentence for wk_comm_error and return `code`; the communicator works on. */
int comm_argument_error(struct wk_comm *comm, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The result of a call on NULL, which wk_communicator returns in a broken generation. The sentence
 * is stored for the thread. */
int comm_missing(void);

#endif
