/* The inside of a communicator, for the files of this folder and their tests.
 *
 *     collective.c   what each operation sends, reduces and receives (plans)
 *     transfer.c     carries a plan out over the links
 *     wait.c         spins, then sleeps; control.c  who died, who failed, goodbye
 *     work.c         queue, progress thread, the public calls
 *     connect.c      makes all of it from endpoints (handshake.c, segment.c, link_*.c)
 *
 * One thread at a time runs an operation (`running` under `lock`); it alone uses links, plans and
 * the epoll. Failing is open to all: `failure` is set once, under fail_lock.
 * Lock order: lock, control_lock, fail_lock.
 */
#ifndef COMM_COMM_INTERNAL_H
#define COMM_COMM_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "libworker/comm/comm.h"
#include "libworker/comm/link.h"
#include "libworker/comm/segment.h"

enum {
    CONTROL_BYTES = 512,
    COMM_TEXT_BYTES = CONTROL_BYTES - 16,
    COMM_OUTS_MAX = 3,
    COMM_INS_MAX = 2,
    COMM_QUEUE_MAX = 4096,
    LEFT_GRACE_MS = 100, /* for a control socket to say why a data socket ended */
    DESCRIPTION_BYTES = 128,
};

enum kind { KIND_ALL_REDUCE, KIND_BROADCAST, KIND_ALL_GATHER, KIND_REDUCE_SCATTER, KIND_BARRIER };

/* What a caller asked for. */
struct request {
    enum kind kind;
    enum wk_dtype dtype;
    enum wk_op op;
    int root;
    size_t count;
    const void *in;
    void *out;
};

/* Goes ahead of every operation from each rank to each other. Little endian, as is all we run on.
 */
struct header {
    uint32_t magic;
    uint8_t kind;
    uint8_t op;
    uint8_t dtype;
    uint8_t zero;
    int32_t root;
    uint32_t zero2;
    uint64_t sequence;
    uint64_t count;
};

/* Bytes to send: as far as *ready when that is given, since they are still being made. */
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

enum control_kind { CONTROL_BYE = 1, CONTROL_FAIL = 2 };

struct control_message {
    uint32_t kind;
    int32_t code;
    int32_t lost; /* rank, or -1 */
    uint32_t zero;
    char text[COMM_TEXT_BYTES];
};

struct peer {
    struct link *link;
    bool remote; /* over TCP: goodbye may overtake data */
    int control_fd;
    struct segment_handles handles;

    /* of the operation in progress */
    struct header header;
    size_t header_bytes;
    struct out outs[COMM_OUTS_MAX];
    int out_count, out_at;
    struct in ins[COMM_INS_MAX];
    int in_count, in_at;
    bool wanted; /* the operation stands still for want of its bytes */
    bool ended;  /* its stream has ended */
    int64_t ended_ms;

    /* under control_lock; the flags are read by all */
    size_t control_got;
    struct control_message control;
    _Atomic bool left;
    _Atomic bool dead;
};

struct wk_comm {
    int rank, world;
    uint64_t generation;
    int timeout_ms;
    int spin_us;
    struct peer *peers; /* [world]; the own one unused */
    struct segment segment;
    bool has_segment;
    bool has_remote; /* some peer is reached over TCP */
    int bell_fd, epoll_fd;
    char *scratch;
    const void **sources; /* [world] */

    uint64_t sequence;
    struct request request;
    struct header header;

    _Atomic int failure; /* WK_E..., 0 while it works */
    pthread_mutex_t fail_lock;
    char failure_text[COMM_TEXT_BYTES];
    char argument_text[COMM_TEXT_BYTES];

    pthread_mutex_t control_lock;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running, closing, has_thread;
    pthread_t thread;
    struct wk_work *first, *last;
    int queued;
};

/* --- comm lifecycle (connect.c) */
struct wk_comm *comm_alloc(const struct comm_options *options);
void comm_release(struct wk_comm *comm);

/* --- control.c */

/* Fail the communicator unless it has failed already, tell the others, wake the runner. Returns the
 * code that stands. `lost` is the rank at fault, or -1. Any thread. */
int comm_fail(struct wk_comm *comm, int code, int lost, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Read what rank `peer` says on its control socket; marks it left or dead, may fail the
 * communicator. Any thread. */
void control_read(struct wk_comm *comm, int peer);

/* As a look at its pidfd: its process has ended. Any thread. */
void control_process_ended(struct wk_comm *comm, int peer);
void control_goodbye(struct wk_comm *comm);
void control_sweep(struct wk_comm *comm);

/* --- wait.c */

struct wait {
    int64_t started_us, deadline_ms;
    int64_t spin_start_us; /* 0: not yet */
    unsigned turns;        /* looks since something moved */
    bool yields;           /* spinning has come to letting others run */
    bool armed;            /* asleep is set: one more look, then sleep */
};

int64_t comm_now_us(void);
int comm_spin_us(const struct comm_options *options);

/* Add what a peer can be heard through to the epoll; once, when connected. 0 or WK_E... */
int wait_watch(struct wk_comm *comm, int peer, int data_fd);

/* Hear what was said since the last operation; returns the failure, 0 if there is none. */
int wait_look(struct wk_comm *comm);
void wait_begin(struct wk_comm *comm, struct wait *wait);

/* The last turn moved something. */
void wait_moved(struct wk_comm *comm, struct wait *wait);

/* Nothing moved: spin, or sleep till something may. 0, or the code of the failure. */
int wait_more(struct wk_comm *comm, struct wait *wait);
void wait_end(struct wk_comm *comm, struct wait *wait);

/* --- transfer.c */

struct reduce_plan {
    const void *own;
    void *dst;
    size_t count, done;
    size_t ready; /* bytes of dst that are final: what gated outs follow */
};

void plan_clear(struct wk_comm *comm);
void plan_send(struct wk_comm *comm, int peer, const void *data, size_t bytes);
void plan_send_gated(struct wk_comm *comm, int peer, struct out out);
struct in *plan_receive(struct wk_comm *comm, int peer, void *data, size_t bytes);

/* Headers, then the reduction (may be NULL), then what is to be received, while sending. */
int transfer_run(struct wk_comm *comm, struct reduce_plan *reduction);

/* --- collective.c */
int collective_run(struct wk_comm *comm, const struct request *rq);

/* "all_reduce #7 (sum of 1000 f32)" */
void request_describe(const struct header *header, char *ret_text, size_t bytes);

#endif
