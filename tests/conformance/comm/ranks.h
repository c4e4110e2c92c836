/* N ranks of one communicator for tests: as forked processes (the real thing, and they can be
 * killed) or as threads (so that ThreadSanitizer sees them). Test code, one at a time.
 */
#ifndef COMM_RANKS_H
#define COMM_RANKS_H

#include <sys/types.h>

#include "libworker/comm/comm.h"

enum ranks_kind { RANKS_PROCESSES, RANKS_THREADS };
enum ranks_hosts { HOSTS_SHARED, HOSTS_APART, HOSTS_MIXED };

struct ranks {
    enum ranks_kind kind;
    enum ranks_hosts hosts;
    int world;
    int timeout_ms;
    int connect_timeout_ms; /* 0 = 10 s */
    int tcp_connections;    /* of a pair; 0 = 1; -1 = each rank wants another number */
    const char *ways;       /* NULL = as measured */
    const char *other_ways; /* of rank 1, if not NULL */
    uint64_t generation;
    int wrong_secret_of; /* rank that has another secret, or -1 */
    void *arg;
};

#define RANKS_MAX 64

/* What a rank does; returns 0 if all is well. `rc` is comm_connect's, `comm` NULL if it failed. */
typedef int (*rank_fn)(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks);

/* Run them all; returns how many did not end with 0. */
int ranks_run(const struct ranks *ranks, rank_fn fn);

/* Processes only: start them, and wait for them later (killed ones count as not 0). */
struct ranks_started {
    pid_t pids[RANKS_MAX];
    int world;
};
void ranks_start(const struct ranks *ranks, rank_fn fn, struct ranks_started *ret);
int ranks_join(const struct ranks_started *started);

/* Zeroed memory that forked ranks and the test share. */
void *ranks_shared(size_t bytes);

const char *ranks_hosts_name(enum ranks_hosts hosts);
double ranks_now_ms(void);

#endif
