/* The inside of a communicator, for the files of this folder and their tests (comm.h has the map).
 *
 * Threads: one at a time runs an operation (the one through the gate of work.c). Only that thread
 * uses links, plans and the epoll. Any thread may fail the communicator: `failure` is set once,
 * under fail_lock. Lock order: queue.lock, control_lock, fail_lock, a child's locks.
 */
#ifndef COMM_STATE_H
#define COMM_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "libworker/comm/comm.h"
#include "libworker/comm/header.h"
#include "libworker/comm/peer.h"
#include "libworker/comm/segment.h"
#include "libworker/comm/ways.h"

enum { COMM_NAME_BYTES = 32 };

/* The operation in progress, for other threads. `version` is odd during a change (status.c). */
struct snapshot {
    _Atomic uint64_t version;
    _Atomic uint64_t words[sizeof(struct header) / 8];
    _Atomic uint64_t bytes;
    _Atomic bool active;
    _Atomic int64_t waiting_since_us;
};

struct counter {
    _Atomic uint64_t calls, bytes, wait_us;
};

/* An arena that this communicator knows. */
struct registered {
    struct wk_arena *arena;
    uint64_t version; /* of its memory when announced */
    uint32_t number;  /* 0: not announced yet */
};

/* Requests that wait for their turn, and the thread that runs them (work.c). */
struct work_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    _Atomic bool running, waiting; /* the gate */
    bool closing, has_thread;
    pthread_t thread;
    struct wk_work *first, *last;
    int count;
};

struct summand;

struct wk_comm {
    int rank, world;
    uint64_t generation;
    char name[COMM_NAME_BYTES];
    uint8_t secret[COMM_SECRET_BYTES];
    char bind_host[80]; /* for the listeners of groups */
    int *hosts;         /* [world] */
    int *origins;       /* of a group: [world] ranks in the communicator above all groups */
    int timeout_ms;
    int tcp_connections;
    int spin_us;
    int crowded;        /* number of next waits without yielding, because others compute on this
                         * core (wait.c) */
    struct peer *peers; /* [world]; the own one unused */
    struct segment segment;
    bool has_segment;
    bool has_remote; /* at least one peer is reached over TCP */
    bool fences;     /* membarrier is unavailable: see board.h */
    int locals, local_index;
    int *local_ranks; /* [locals], ascending, with this one */
    struct ways ways;
    uint64_t board_sequence;
    struct registered arenas[COMM_ARENAS_MAX];
    int arena_count;
    uint32_t arenas_announced;
    int bell_fd, epoll_fd;
    char *scratch;
    char *direct_copy;        /* WAY_DIRECT_BYTES_MAX, once needed */
    const void **sources;     /* [world + 1] */
    struct summand *summands; /* [world + 1] */

    uint64_t sequence;
    struct header header;
    bool arrived; /* all ranks have arrived at the operation in progress */
    struct snapshot snapshot;
    struct counter counters[KINDS];
    _Atomic uint64_t in_place;

    struct wk_comm *parent;
    struct wk_comm *first_child, *next_sibling; /* under the parent's fail_lock */
    struct wk_comm_status connecting; /* under fail_lock: the ranks missing in a group; or zeroed */
    uint64_t splits;

    _Atomic int failure; /* WK_E..., 0 while it works */
    pthread_mutex_t fail_lock;
    char failure_text[COMM_TEXT_BYTES];
    int failure_lost; /* rank, or -1 */
    char argument_text[COMM_TEXT_BYTES];

    pthread_mutex_t control_lock;

    struct work_queue queue;
};

#endif
