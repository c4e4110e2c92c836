/* Making communicators: a listener per process, one communicator per generation.
 *
 * The listener lives as long as the process and serves one generation after the other. Ranks of the
 * same host number talk through shared memory (a memfd handed over an abstract unix socket: nothing
 * has a name, so a SIGKILL leaks nothing), others through TCP. Every connection proves that it
 * knows the generation's secret (handshake.h); other generations are refused.
 *
 * A listener belongs to whoever made it and is used by one comm_connect at a time.
 */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/comm.h>

#include "common/base/error.h"
#include "common/settings/mesh.h"

enum {
    COMM_WORLD_MAX = SETTINGS_WORLD_MAX, /* so jobs of more are refused at submit */
    COMM_ENDPOINT_BYTES = 128,           /* with the final 0 */
    COMM_SECRET_BYTES = 32,
    COMM_RUN_BYTES = 64, /* with the final 0 */
};

struct comm_listener;

/* Listen on a free port of `bind_host` (a name or address that peers can reach: not 0.0.0.0) and
 * on an abstract unix socket. WK_EINVAL, WK_EUNAVAILABLE. */
int comm_listen(const char *bind_host, struct comm_listener **ret, struct error *err);

/* "tcp://127.0.0.1:41234#muster-5f0c…", below COMM_ENDPOINT_BYTES; the listener's. */
const char *comm_listener_endpoint(const struct comm_listener *listener);

/* NULL is fine. Communicators made with it live on. */
void comm_listener_close(struct comm_listener *listener);

struct comm_options {
    int rank;
    int world;
    const char *const *endpoints; /* [world] */
    const int *hosts;             /* [world]; equal numbers share memory */
    uint8_t secret[COMM_SECRET_BYTES];
    uint64_t generation;
    int connect_timeout_ms; /* to have every rank connected; 0 = 30 s */
    int timeout_ms;         /* of one operation from its start; 0 = no limit */
    int tcp_connections; /* for the data of a pair; 0 = as measured (ways.c), at most 4; where the
                          * two want different numbers, the lesser */
    /* How all-reduces go that are not done in place, "direct:8K sliced:1M chain": each way up to so
     * many bytes, the last without limit. NULL or "" = as measured (ways.c). The same on all
     * ranks: WK_EMISMATCH otherwise. Groups take the measured ways. */
    const char *ways;
    /* Asked every few milliseconds while connecting; true ends it with WK_EABORT. May be NULL. */
    bool (*cancelled)(void *arg);
    void *cancelled_arg;
    /* Told as often who has not connected yet, as comm_longest_wait tells of an operation: its name
     * is "connect", its number 0. On the connecting thread; may be NULL. */
    void (*waits)(void *arg, const struct wk_comm_status *status);
    void *waits_arg;
};

/* Connect to every other rank; returns when all are connected to all. `options` and its arrays are
 * only read during the call; `listener` may be NULL for a world of 1. WK_EABORT: cancelled, or
 * peers are in a later generation. WK_ETIMEOUT: names the missing ranks. WK_EPEER: one died
 * meanwhile. WK_EUNAVAILABLE: refused for a wrong secret. WK_EINVAL. */
int comm_connect(struct comm_listener *listener, const struct comm_options *options,
                 struct wk_comm **ret, struct error *err);

/* Finding each other without a coordinator (torchrun, mpirun, plain env://): every rank tells rank
 * 0 its endpoint through `master_addr:master_port` and gets the whole table back. Rank 0 takes the
 * first free port from master_port on (torchrun's own store may hold that one), the others find it.
 * With `secret` NULL rank 0 draws one and sends it: as open to the network as torch's own store.
 *
 * Trainings with one master_port never mix: ranks of another world or `run` pass each other by, and
 * where two trainings are alike in both (two rank 0s at a time, two processes of one rank) all that
 * have come are refused with WK_EINVAL. Details: two trainings without a `run` of which one's rank
 * 0 comes only after the other has gone on cannot be seen here. */
struct comm_bootstrap_options {
    int rank;
    int world;
    const char *master_addr;
    int master_port;
    const char *endpoint; /* of this rank's listener */
    const char *host;     /* what tells machines apart; NULL = boot id and network namespace */
    const uint8_t *secret;
    const char *run;     /* names this training: equal on all its ranks; NULL: nothing does */
    bool port_is_shared; /* the launcher itself holds master_port, which is no news */
    int timeout_ms;      /* 0 = 60 s */
    /* Told at once that master_port is taken. On the calling thread; may be NULL. */
    void (*remark)(void *arg, const char *text);
    void *remark_arg;
    /* Asked every few milliseconds: true ends it with WK_EABORT. NULL: never. */
    bool (*cancelled)(void *arg);
    void *cancelled_arg;
};

struct comm_table {
    int world;
    char (*endpoints)[COMM_ENDPOINT_BYTES]; /* [world] */
    const char **endpoint_list;             /* [world], into endpoints: for comm_options */
    int *hosts;                             /* [world] */
    uint8_t secret[COMM_SECRET_BYTES];
    uint64_t
        generation; /* drawn by rank 0 with the secret, so a late rank of an old run is refused */
};

int comm_bootstrap(const struct comm_bootstrap_options *options, struct comm_table *ret,
                   struct error *err);
void comm_table_fini(struct comm_table *table);

/* Of this communicator and its groups, the one that has waited longest, and for whom: as ranks of
 * `comm`, which is no group itself. Any thread; not while `comm` is closed. */
void comm_longest_wait(struct wk_comm *comm, struct wk_comm_status *ret);

#endif
