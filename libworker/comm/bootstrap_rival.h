/* Rank 0 examines the processes on the ports before its own: one may be another rank 0 that waits
 * for the same ranks. Their connections are handled together with those of its callers, so a slow
 * answer costs nothing. Rank 0's thread. */
#ifndef COMM_BOOTSTRAP_RIVAL_H
#define COMM_BOOTSTRAP_RIVAL_H

#include "libworker/comm/bootstrap_protocol.h"

/* A connection to a port that rank 0 found in use. */
struct bootstrap_rival {
    int fd; /* -1: nothing more to learn */
    int port;
    int64_t since_ms;
    struct bootstrap_greeting greeting;
    size_t got;
};
struct bootstrap_rivals {
    struct bootstrap_rival list[BOOTSTRAP_PORTS];
    int count;
};

/* Start to connect to `port`. */
void bootstrap_rival_dial(struct bootstrap_rivals *rivals,
                          const struct comm_bootstrap_options *options, int port);

/* Read what has arrived. WK_EINVAL if one is a rank 0 that cannot be distinguished from this one;
 * it is informed. *ret_waiting: true if one may still answer as fast as a rank 0 does. */
int bootstrap_rivals_read(struct bootstrap_rivals *rivals,
                          const struct comm_bootstrap_options *options, bool *ret_waiting,
                          struct error *err);
void bootstrap_rivals_fini(struct bootstrap_rivals *rivals);

/* The refusal for two rank 0s that cannot be distinguished. */
int bootstrap_refuse_rival(const struct comm_bootstrap_options *options, struct error *err);

#endif
