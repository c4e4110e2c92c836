/* The inside of a communicator, for the files of this folder and their tests.
 *
 *   making it
 *     bootstrap*.c   rank 0 collects the ranks' endpoints where Muster does not
 *     endpoint.c     where a rank can be reached; handshake.c proves the generation's secret
 *     meeting*.c     dials the lower ranks, accepts the higher ones
 *     connect.c      makes links (link_shm.c, link_tcp.c) and a segment (segment.c) of the sockets
 *     group.c        communicators of some of the ranks
 *   running an operation
 *     calls.c        the public calls, which become a request; object.c, rows.c: unequal lengths
 *     work.c         queue and progress thread
 *     collective.c   where a request runs: shared.c, two_level.c or by_links.c (ways.c: the table)
 *     shared.c       in place, where all ranks share a host (board.c: posts, arena.c: memory)
 *     two_level.c    all-reduce along a chain of hosts
 *     by_links.c     plans: what each rank sends, reduces and receives
 *     transfer.c     carries out a plan over the links; reduce.c adds
 *   watching it
 *     wait.c         spins, then sleeps
 *     control.c      which ranks died, failed or said goodbye
 *     status.c       what others may see of the operation in progress
 *
 * Threads: one at a time runs an operation (the one through the gate of work.c). Only that thread
 * uses links, plans and the epoll. Any thread may fail the communicator: `failure` is set once,
 * under fail_lock. Lock order: lock, control_lock, fail_lock, a child's locks.
 */
#ifndef COMM_COMM_INTERNAL_H
#define COMM_COMM_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "libworker/comm/comm.h"
#include "libworker/comm/link.h"
#include "libworker/comm/reduce.h"
#include "libworker/comm/segment.h"
#include "libworker/comm/ways.h"

enum {
    CONTROL_BYTES = 512,
    COMM_TEXT_BYTES = CONTROL_BYTES - 16,
    COMM_NAME_BYTES = 32,
    COMM_OUTS_MAX = 3,
    COMM_INS_MAX = 2,
    COMM_QUEUE_MAX = 4096,
    COMM_ARENAS_MAX = 64,
    COMM_TCP_MAX = 4,    /* data connections of a pair */
    LEFT_GRACE_MS = 100, /* for a control socket to explain the end of a data socket */
    DESCRIPTION_BYTES = 128,
    SLICE_ELEMENTS = 64, /* slices are whole cache lines, whatever the type */
};

/* kind, name */
#define KIND_LIST(X)                                                                               \
    X(ALL_REDUCE, "all_reduce")                                                                    \
    X(BROADCAST, "broadcast")                                                                      \
    X(ALL_GATHER, "all_gather")                                                                    \
    X(REDUCE_SCATTER, "reduce_scatter")                                                            \
    X(BARRIER, "barrier")                                                                          \
    X(REDUCE, "reduce")                                                                            \
    X(GATHER, "gather")                                                                            \
    X(SCATTER, "scatter")                                                                          \
    X(ALL_TO_ALL, "all_to_all")                                                                    \
    X(ALL_TO_ALL_V, "all_to_all_v")                                                                \
    X(ALL_GATHER_V, "all_gather_v")                                                                \
    X(REDUCE_SCATTER_V, "reduce_scatter_v")                                                        \
    X(SEND, "send")                                                                                \
    X(RECV, "recv")                                                                                \
    X(SEND_RECV, "send_recv")

enum kind {
#define X(name, text) KIND_##name,
    KIND_LIST(X)
#undef X
};

#define X(name, text) +1
enum { KINDS = 0 KIND_LIST(X) };
#undef X

/* The arguments of a call. */
struct request {
    enum kind kind;
    enum wk_dtype dtype;
    enum wk_op op;
    int root;
    size_t count;
    const void *in; /* this rank's input as others see it; broadcast: as `out` */
    void *out;
    int to, from; /* send, recv, send_recv */
    bool finishes;
    struct wk_reduce_options finish;
    struct wk_rows rows; /* of rows_kind */
    size_t *row_space;   /* memory of the arrays in `rows`, or NULL; freed with the request */
};

/* Sent before every operation from each rank to each other. Little endian, like all supported
 * machines. */
struct header {
    uint16_t magic;
    uint8_t place; /* of `in` and `out`; may differ between ranks */
    uint8_t finish;
    uint8_t kind;
    uint8_t op;
    uint8_t dtype;
    uint8_t out_dtype;
    int32_t root;
    float scale;
    uint64_t sequence;
    uint64_t count;
};

enum { PLACE_IN = 1, PLACE_OUT = 2 };
/* The bits above these have the way + 1 if it was forced. Ranks that force different ways would
 * otherwise wait for ever. */
enum {
    FINISH_ACTIVE = 1,
    FINISH_CONVERTS = 2,
    FINISH_SQUARES = 4,
    FINISH_NONFINITE = 8,
    FINISH_WAY_SHIFT = 4
};

/* Bytes to send. If `ready` is set, only *ready of them exist so far. */
struct out {
    const char *data;
    size_t bytes;
    size_t sent;
    const size_t *ready;
};

struct in {
    char *data;
    size_t bytes;
    size_t got;
};

enum control_kind { CONTROL_BYE = 1, CONTROL_FAIL = 2, CONTROL_ARENA = 3 };

struct control_message {
    uint32_t kind;
    int32_t code;
    int32_t lost;   /* rank, or -1 */
    uint32_t arena; /* its number from 1; its memory is sent along */
    char text[COMM_TEXT_BYTES];
};

struct mapping {
    size_t bytes;
    char *_Atomic data; /* set last */
};

struct peer {
    struct link *link;
    bool remote; /* over TCP: a goodbye may overtake data */
    int control_fd;
    struct segment_handles handles;
    struct segment_head *head; /* of a rank on this host, else NULL */
    /* Its arenas by its numbers; set once, under control_lock, by the thread that receives one */
    struct mapping arenas[COMM_ARENAS_MAX + 1];
    uint64_t messages_out, messages_in; /* send and recv with this peer */

    /* of the operation in progress */
    struct header ours, expected, header;
    bool expects; /* still expects its header */
    size_t header_bytes;
    struct out outs[COMM_OUTS_MAX];
    int out_count, out_at;
    struct in ins[COMM_INS_MAX];
    int in_count, in_at;
    bool ended; /* its stream has ended */
    int64_t ended_ms;
    _Atomic bool wanted; /* the operation is blocked until its bytes arrive */

    /* under control_lock; all threads read the flags */
    size_t control_got;
    int control_memory_fd;
    struct control_message control;
    _Atomic bool left;
    _Atomic bool dead;
};

/* A snapshot of the operation in progress for other threads: `version` is odd during a change. */
struct present {
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
    struct present present;
    struct counter counters[KINDS];
    _Atomic uint64_t in_place;

    struct wk_comm *parent;
    struct wk_comm *first_child, *next_sibling; /* under the parent's fail_lock */
    struct wk_comm_status connecting; /* under fail_lock: the ranks missing in a group; or zeroed */
    uint64_t splits;

    _Atomic int failure; /* WK_E..., 0 while it works */
    pthread_mutex_t fail_lock;
    char failure_text[COMM_TEXT_BYTES];
    char argument_text[COMM_TEXT_BYTES];

    pthread_mutex_t control_lock;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    _Atomic bool running, waiting; /* the gate, see work.c */
    bool closing, has_thread;
    pthread_t thread;
    struct wk_work *first, *last;
    int queued;
};

/* --- comm lifecycle (connect.c) */
struct wk_comm *comm_alloc(const struct comm_options *options);
void comm_release(struct wk_comm *comm);

/* --- control.c */

/* Fail the communicator unless it has failed already, inform the others, wake the runner. Returns
 * the code that counts: the first. `lost` is the failed rank, or -1. Any thread. */
int comm_fail(struct wk_comm *comm, int code, int lost, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Read the message of rank `peer` on its control socket. Marks it left or dead; may fail the
 * communicator. Any thread. */
void control_read(struct wk_comm *comm, int peer);

/* As if its pidfd had reported it: the peer's process has ended. Any thread. */
void control_process_ended(struct wk_comm *comm, int peer);
void control_goodbye(struct wk_comm *comm);
void control_sweep(struct wk_comm *comm);

/* Send an arena's memory to the ranks of this host. 0 or WK_E... */
int control_announce(struct wk_comm *comm, uint32_t number, int memory_fd);

/* --- wait.c */

struct wait {
    int64_t started_us, deadline_ms;
    int64_t spin_start_us;    /* 0: not yet */
    int64_t waiting_since_us; /* the same, but sleeping does not reset it */
    unsigned turns;           /* turns since something moved */
    unsigned moves;           /* turns that moved something */
    bool yields;              /* spinning has turned into yielding the core */
    bool astray;              /* a needed rank waits in another operation: one more turn */
    bool armed;               /* `asleep` is set: one more turn, then sleep */
};

int64_t comm_now_us(void);
int comm_spin_us(const struct comm_options *options);

/* Add a peer's descriptors to the epoll, once, when it is connected. 0 or WK_E... */
int wait_watch(struct wk_comm *comm, int peer);
int wait_watch_data(struct wk_comm *comm, int peer, int data_fd);

/* Handle all messages since the last operation; returns the failure, or 0. */
int wait_look(struct wk_comm *comm);

/* The same within long work: only messages of ranks on this host, in a few nanoseconds. */
int wait_glance(struct wk_comm *comm);
void wait_begin(struct wk_comm *comm, struct wait *wait);

/* The last turn moved something. */
void wait_moved(struct wk_comm *comm, struct wait *wait);

/* Nothing moved: spin, or sleep until something can move. 0, or the code of the failure. */
int wait_more(struct wk_comm *comm, struct wait *wait);
void wait_end(struct wk_comm *comm, struct wait *wait);

/* --- transfer.c */

/* One operand of a sum, in order: at `data`, or the next bytes from `peer`. */
struct summand {
    const char *data;
    int peer;
};

struct reduce_plan {
    const struct summand *summands;
    const struct reduction *reduction; /* its `sources` is their number */
    char *dst;
    size_t dst_size; /* bytes of an element there */
    size_t count, done;
    size_t ready;    /* bytes of dst that are final: gated outs may send them */
    bool rest_apart; /* the remaining receives are from other peers than the summands */
};

/* Start a plan: headers to and from all others. Every operation over links begins with it. */
void plan_begin(struct wk_comm *comm);

/* An empty plan: this rank sends and expects nothing, not even headers. */
void plan_clear(struct wk_comm *comm);
void plan_send(struct wk_comm *comm, int peer, const void *data, size_t bytes);
void plan_send_gated(struct wk_comm *comm, int peer, struct out out);
struct in *plan_receive(struct wk_comm *comm, int peer, void *data, size_t bytes);

/* The sum of all ranks' data in rank order, this rank's from memory. */
struct reduce_plan plan_sum_of_all(struct wk_comm *comm, const struct reduction *reduction,
                                   const void *own);

/* Carry out the plan: headers, then the reduction (may be NULL), then the receives, while sending.
 */
int transfer_run(struct wk_comm *comm, struct reduce_plan *reduction);
int transfer_mismatch(struct wk_comm *comm, int peer, const struct header *theirs);

/* --- collective.c */

struct slice {
    size_t first, count; /* elements */
};

/* Share `part` of `count` elements among `parts`: equal shares of whole cache lines. The last share
 * may be smaller or empty. */
struct slice slice_of(size_t count, int parts, int part);

int collective_run(struct wk_comm *comm, const struct request *rq);

/* The way of an all-reduce that cannot run in place: the same on every rank. */
enum way collective_way(const struct wk_comm *comm, const struct request *rq);

/* The header of this rank's next operation; uses up its sequence number. */
void collective_head(struct wk_comm *comm, const struct request *rq);
bool header_agrees(const struct header *a, const struct header *b);

/* Inline: small operations call it several times, and their whole budget is 0.1 us. */
static inline size_t dtype_bytes(enum wk_dtype dtype)
{
    static const uint8_t bytes[] = {
#define X(name, size, text) size,
        WK_DTYPE_LIST(X)
#undef X
    };
    return bytes[dtype];
}

static inline size_t request_out_size(const struct request *rq)
{
    bool converts = rq->finishes && rq->finish.converts;
    return dtype_bytes(converts ? rq->finish.out_dtype : rq->dtype);
}

/* Bytes of `in`, of `out`, of the larger. */
static inline size_t request_in_bytes(const struct request *rq, int world)
{
    size_t bytes = rq->count * dtype_bytes(rq->dtype);
    bool rows =
        rq->kind == KIND_REDUCE_SCATTER || rq->kind == KIND_ALL_TO_ALL || rq->kind == KIND_SCATTER;
    return rows ? bytes * (size_t)world : bytes;
}

static inline size_t request_out_bytes(const struct request *rq, int world)
{
    size_t bytes = rq->count * request_out_size(rq);
    bool rows =
        rq->kind == KIND_ALL_GATHER || rq->kind == KIND_ALL_TO_ALL || rq->kind == KIND_GATHER;
    return rows ? bytes * (size_t)world : bytes;
}

static inline size_t request_bytes(const struct request *rq, int world)
{
    size_t in = request_in_bytes(rq, world), out = request_out_bytes(rq, world);
    return in > out ? in : out;
}

static inline bool request_tallies(const struct request *rq)
{
    return rq->finishes && (rq->finish.ret_squares || rq->finish.ret_nonfinite);
}

struct reduction request_reduction(const struct wk_comm *comm, const struct request *rq,
                                   struct tally *tally);

/* The sum of all ranks' shares of the tally, in rank order, stored where the caller asked. */
struct share {
    double squares;
    uint64_t nonfinite;
};
void request_tell(const struct request *rq, const struct share *shares, int count);

/* "all_reduce #7 (sum of 1000 f32, 4000 bytes)" */
void request_describe(const struct header *header, char *ret_text, size_t bytes);

/* --- the ways: 0 or the failure */
int by_links_run(struct wk_comm *comm, const struct request *rq);
int shared_run(struct wk_comm *comm, const struct request *rq);
int two_level_run(struct wk_comm *comm, const struct request *rq);
int chain_run(struct wk_comm *comm, const struct request *rq);

/* rows.c: kinds with rows of different lengths; headers are planned. */
bool rows_kind(enum kind kind);
int rows_run(struct wk_comm *comm, const struct request *rq);
int rows_alone(struct wk_comm *comm, const struct request *rq);

/* --- calls.c: 0, or the error in the arguments. */
int request_check(struct wk_comm *comm, const struct request *rq);

/* --- work.c */
int work_submit(struct wk_comm *comm, struct request *request, struct wk_work **ret_work);
int comm_argument_error(struct wk_comm *comm, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The result of a call on NULL, which wk_communicator returns in a broken generation. The sentence
 * is stored for the thread. */
int comm_missing(void);

/* --- group.c */

/* The facts each rank sends the others at a split. */
struct group_seat {
    int32_t color, key, rank, host;
    char endpoint[COMM_ENDPOINT_BYTES];
};

/* Remove this group from the parent's list and detach its own groups. */
void group_leave(struct wk_comm *comm);

/* --- status.c */
void present_set(struct wk_comm *comm, const struct request *rq);
void present_clear(struct wk_comm *comm);

/* Names of a few peers whose `wanted` is set; returns the number of such peers. */
int present_missing(struct wk_comm *comm, char *ret_names, size_t bytes);

#endif
