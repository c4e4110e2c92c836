/* Making communicators: one listener per process, one communicator per generation.
 *
 * The listener lives as long as the process and serves the generations one after the other. It
 * belongs to its creator; one comm_connect uses it at a time.
 *
 * Ranks with the same host number use shared memory: a memfd sent over an abstract unix socket.
 * Nothing has a name, so a SIGKILL leaks nothing. Other ranks use TCP. Every connection proves
 * knowledge of the generation's secret (handshake.h); other generations are refused.
 *
 * The files of this folder. Each calls only those below it:
 *
 *     public calls   calls, calls_rows, object   arguments become a request
 *                    group                       communicators of some of the ranks
 *     connecting     connect                     makes links and a segment of the sockets
 *                    meeting, _dial, _accept     dials the lower ranks, accepts the higher ones
 *                    endpoint, handshake         where a rank is reached; proof of the secret
 *                    bootstrap                   rank 0 collects endpoints where Muster does not
 *     the whole      communicator                allocates, registers arenas, closes
 *     running        work                        queue and progress thread
 *                    collective                  picks the way of a request (ways: the table)
 *     ways           two_level                   all-reduce along a chain of hosts
 *                    shared                      in place, where all ranks share a host
 *                    by_links, rows              each rank sends directly to each other
 *     moving data    transfer, plan              what a rank sends, reduces (reduce) and receives
 *                    views, board                buffers in arenas; meetings of a host's ranks
 *     waiting        wait                        spins, then sleeps
 *                    control                     which ranks died, failed or said goodbye
 *                    failure, control_send       the first failure counts; every rank hears of it
 *                    status                      what others may see of the operation
 *     ground         operation, request, header  the operation in progress
 *                    state, peer                 struct wk_comm
 *                    link, segment, arena, rights, membarrier, clock
 */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/comm.h>

#include "common/base/error.h"
#include "common/settings/mesh.h"

enum {
    COMM_WORLD_MAX = SETTINGS_WORLD_MAX, /* larger jobs are refused at submit */
    COMM_ENDPOINT_BYTES = 128,           /* with the final 0 */
    COMM_SECRET_BYTES = 32,
};

struct comm_listener;

/* Listen on a free port of `bind_host` and on an abstract unix socket. `bind_host` is a name or
 * address that peers can reach, so not 0.0.0.0. WK_EINVAL, WK_EUNAVAILABLE. */
int comm_listen(const char *bind_host, struct comm_listener **ret, struct error *err);

/* "tcp://127.0.0.1:41234#muster-5f0c…", below COMM_ENDPOINT_BYTES; owned by the listener. */
const char *comm_listener_endpoint(const struct comm_listener *listener);

/* NULL is allowed. Communicators made with it live on. */
void comm_listener_close(struct comm_listener *listener);

struct comm_options {
    int rank;
    int world;
    const char *const *endpoints; /* [world] */
    const int *hosts;             /* [world]; equal numbers share memory */
    uint8_t secret[COMM_SECRET_BYTES];
    uint64_t generation;
    int connect_timeout_ms; /* to have every rank connected; 0 = 30 s */
    int timeout_ms;         /* for one operation from its start; 0 = no limit */
    int tcp_connections; /* for the data of a pair, at most 4; 0 = as measured (ways.c). If the two
                          * ranks differ, the smaller number */
    /* Ways of all-reduces that cannot run in place, "direct:8K sliced:1M chain": each way up to its
     * number of bytes, the last without limit. NULL or "" = as measured (ways.c). All ranks must
     * pass the same (WK_EMISMATCH). Groups use the measured ways. */
    const char *ways;
    /* Called every few milliseconds while connecting; true ends it with WK_EABORT. May be NULL. */
    bool (*cancelled)(void *arg);
    void *cancelled_arg;
    /* Called as often with the ranks that have not connected yet, in the form of comm_longest_wait:
     * the name is "connect", the number 0. On the connecting thread; may be NULL. */
    void (*waits)(void *arg, const struct wk_comm_status *status);
    void *waits_arg;
};

/* Connect to every other rank. Returns when all are connected to all. `options` and its arrays are
 * read only during the call; `listener` may be NULL for a world of 1.
 *
 * WK_EABORT: cancelled, or peers are in a later generation. WK_ETIMEOUT: names the missing ranks.
 * WK_EPEER: one died meanwhile. WK_EUNAVAILABLE: refused for a wrong secret. WK_EINVAL.
 */
int comm_connect(struct comm_listener *listener, const struct comm_options *options,
                 struct wk_comm **ret, struct error *err);

/* The longest present wait in this communicator and its groups, with the awaited ranks as ranks of
 * `comm`, which is not a group itself. Any thread; not while `comm` is closed. */
void comm_longest_wait(struct wk_comm *comm, struct wk_comm_status *ret);

#endif
