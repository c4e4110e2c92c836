#include "libworker/comm/wait.h"

#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/base/str.h"
#include "libworker/comm/clock.h"
#include "libworker/comm/control.h"
#include "libworker/comm/failure.h"
#include "libworker/comm/membarrier.h"
#include "libworker/comm/state.h"
#include "libworker/comm/status.h"

enum {
    CLOCK_TURNS = 8,   /* turns between two readings of the clock */
    LISTEN_TURNS = 16, /* turns between two reads of other hosts' sockets: an abort arrives there */
    LISTEN_MOVES = 8,  /* the same for turns that moved something */
    PAUSE_US = 4,      /* an answer that is about to arrive */
    SPIN_US = 200,
    YIELDS = 4,         /* when there are more ranks than cores */
    TAKEN_US = 400,     /* a longer yield gave the core to a process that computes */
    CROWDED_WAITS = 32, /* waits without yielding after that */
    EVENTS_MAX = 32,
    POLL_MS = 1, /* between checks of a rank that cannot be woken in time */
    NAMES_BYTES = 160,
    LEFT_GRACE_MS = 100, /* for a control socket to explain the end of a data socket */
};

enum source { SOURCE_BELL, SOURCE_DATA, SOURCE_CONTROL, SOURCE_PROCESS };

int comm_spin_us(const struct comm_options *options)
{
    /* Not our own affinity: ranks bound to a core each have a mask of one. */
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int here = 0;
    for (int r = 0; r < options->world; r++)
        if (options->hosts[r] == options->hosts[options->rank])
            here++;
    return here <= cores ? SPIN_US : 0;
}

static int watch_fd(struct wk_comm *comm, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event event = {.events = events, .data.u64 = tag};
    if (fd < 0)
        return 0;
    return epoll_ctl(comm->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : WK_ENOMEM;
}

static uint64_t tag_of(enum source source, int peer)
{
    return (uint64_t)source << 32 | (uint32_t)peer;
}

/* Edge triggered: unwanted bytes, or an end already noticed, must not wake again. A sleep follows
 * only a turn in which every wanted call returned "not now". */
int wait_watch_data(struct wk_comm *comm, int p, int data_fd)
{
    return watch_fd(comm, data_fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                    tag_of(SOURCE_DATA, p));
}

int wait_watch(struct wk_comm *comm, int p)
{
    struct peer *peer = &comm->peers[p];
    if (p == comm->rank)
        return watch_fd(comm, comm->bell_fd, EPOLLIN, tag_of(SOURCE_BELL, p));
    int rc =
        watch_fd(comm, peer->control_fd, EPOLLIN | EPOLLRDHUP | EPOLLET, tag_of(SOURCE_CONTROL, p));
    if (!rc)
        rc = watch_fd(comm, peer->handles.process_fd, EPOLLIN | EPOLLET, tag_of(SOURCE_PROCESS, p));
    return rc;
}

void wait_begin(struct wk_comm *comm, struct wait *wait)
{
    int64_t now_us = comm_now_us();
    *wait = (struct wait){.started_us = now_us};
    if (comm->timeout_ms > 0)
        wait->deadline_ms = now_us / 1000 + comm->timeout_ms;
}

static void handle_event(struct wk_comm *comm, uint64_t tag)
{
    int peer = (int)(uint32_t)tag;
    uint64_t count;
    switch ((enum source)(tag >> 32)) {
    case SOURCE_BELL:
        (void)!read(comm->bell_fd, &count, sizeof(count));
        return;
    case SOURCE_DATA:
        return;
    case SOURCE_CONTROL:
        control_read(comm, peer);
        return;
    case SOURCE_PROCESS:
        control_process_ended(comm, peer);
        return;
    }
}

static void handle_events(struct wk_comm *comm, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(comm->epoll_fd, events, EVENTS_MAX, timeout_ms);
    for (int i = 0; i < n; i++)
        handle_event(comm, events[i].data.u64);
}

/* True if a rank of this host has failed and announced it. */
static bool is_alerted(const struct wk_comm *comm)
{
    return comm->has_segment && atomic_load(&comm->segment.head->alert);
}

static void disarm(struct wk_comm *comm, struct wait *wait)
{
    if (wait->armed && comm->has_segment)
        atomic_store(&comm->segment.head->asleep, 0);
    wait->armed = false;
}

/* A rank that still moves data would otherwise notice a failure only when it runs out of work. */
void wait_moved(struct wk_comm *comm, struct wait *wait)
{
    disarm(comm, wait);
    if (is_alerted(comm) || (comm->has_remote && ++wait->moves % LISTEN_MOVES == 0))
        handle_events(comm, 0);
    if (wait->waiting_since_us != 0) {
        atomic_fetch_add_explicit(&comm->counters[comm->header.kind].wait_us,
                                  (uint64_t)(comm_now_us() - wait->waiting_since_us),
                                  memory_order_relaxed);
        atomic_store_explicit(&comm->snapshot.waiting_since_us, 0, memory_order_relaxed);
        wait->waiting_since_us = 0;
    }
    wait->turns = 0;
    wait->yields = wait->mismatched = false;
    wait->spin_start_us = 0;
}

void wait_end(struct wk_comm *comm, struct wait *wait)
{
    disarm(comm, wait);
}

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* For statistics and observers: from the first reading of the clock without progress. */
static void note_wait_begun(struct wk_comm *comm, struct wait *wait, int64_t now_us)
{
    if (wait->waiting_since_us == 0) {
        wait->waiting_since_us = now_us;
        atomic_store_explicit(&comm->snapshot.waiting_since_us, now_us, memory_order_relaxed);
    }
}

/* Yield the core. The rank we wait for can run if it was put on this core; as both stay runnable,
 * the scheduler moves one. If other processes compute on the core, each yield lasts their whole
 * time slice, while a sleeper runs as soon as it is woken: then the result is false. */
static bool yield_core(struct wk_comm *comm)
{
    if (comm->crowded > 0) {
        comm->crowded--;
        return false;
    }
    int64_t from_us = comm_now_us();
    sched_yield();
    if (comm_now_us() - from_us > TAKEN_US)
        comm->crowded = CROWDED_WAITS;
    return true;
}

/* True while polling again is better than sleeping. */
static bool poll_again(struct wk_comm *comm, struct wait *wait)
{
    wait->turns++;
    if (comm->spin_us == 0)
        return wait->turns <= YIELDS && yield_core(comm);
    if (wait->turns % CLOCK_TURNS == 1 || wait->yields) {
        int64_t now_us = comm_now_us();
        if (wait->spin_start_us == 0)
            wait->spin_start_us = now_us;
        note_wait_begun(comm, wait, now_us);
        if (now_us - wait->spin_start_us >= comm->spin_us)
            return false;
        wait->yields = now_us - wait->spin_start_us >= PAUSE_US;
    }
    if (wait->yields)
        return yield_core(comm);
    pause_cpu();
    return true;
}

static int fail_timeout(struct wk_comm *comm, const struct wait *wait)
{
    char names[NAMES_BYTES], what[DESCRIPTION_BYTES];
    int late = status_missing(comm, names, sizeof(names));
    header_describe(&comm->header, what, sizeof(what));
    return comm_fail(comm, WK_ETIMEOUT, -1, "%s: %s: rank%s %s %s in %lld ms (seen by rank %d)",
                     comm->name, what, str_plural(late), names,
                     comm->arrived ? "arrived but stopped moving data" : "did not arrive",
                     (long long)((comm_now_us() - wait->started_us) / 1000), comm->rank);
}

/* A needed peer has left, or its stream ended without an explanation on its control socket.
 * Returns the milliseconds to wait for one, -1 for no such peer, or fails. */
static int check_ended_peers(struct wk_comm *comm, int64_t now_ms)
{
    int grace_ms = -1;
    for (int p = 0; p < comm->world; p++) {
        struct peer *peer = &comm->peers[p];
        bool needed = peer->wanted || peer->out_at < peer->out_count;
        if (p == comm->rank || !needed)
            continue;
        bool left = atomic_load(&peer->left) && (!peer->remote || peer->ended);
        if (!left && !peer->ended)
            continue;
        /* It may have left because another rank failed; that failure has precedence. Over TCP it
         * may still be in transit. */
        control_sweep(comm);
        if (peer->ended && now_ms - peer->ended_ms < LEFT_GRACE_MS) {
            grace_ms = LEFT_GRACE_MS;
            continue;
        }
        char what[DESCRIPTION_BYTES];
        header_describe(&comm->header, what, sizeof(what));
        comm_fail(comm, WK_EPEER, left ? -1 : p,
                  left ? "%s: %s: rank %d has left the communicator"
                       : "%s: %s: the connection to rank %d broke",
                  comm->name, what, p);
    }
    return grace_ms;
}

/* True if `rank` of this host waits for us in a meeting (board.h) that we have not reached. It
 * continues only after we have posted. */
static bool awaits_us(const struct wk_comm *comm, int rank, struct header *ret_header)
{
    uint64_t next = comm->board_sequence + 1;
    const struct segment_head *head = comm->peers[rank].head;
    const struct post *post = head ? &head->posts[next % 2] : NULL;
    if (!post || atomic_load_explicit(&post->sequence, memory_order_acquire) != next)
        return false;
    memcpy(ret_header, post->header, sizeof(*ret_header));
    return true;
}

/* A needed rank of this host waits for us in a meeting. Data it sent before has arrived. If another
 * turn moves nothing the two have called different operations: one uses links, the other meets, and
 * neither would see the other's header. True: look again, or it has failed. */
static bool check_mismatched(struct wk_comm *comm, struct wait *wait)
{
    struct header theirs;
    for (int i = 0; i < comm->locals; i++) {
        int p = comm->local_ranks[i];
        struct peer *peer = &comm->peers[p];
        bool needed = peer->wanted || peer->out_at < peer->out_count;
        if (p == comm->rank || !needed || !awaits_us(comm, p, &theirs))
            continue;
        if (wait->mismatched)
            comm_fail_mismatch(comm, p, &comm->header, &theirs);
        wait->mismatched = true;
        return true;
    }
    return false;
}

int wait_check_alert(struct wk_comm *comm)
{
    if (is_alerted(comm))
        handle_events(comm, 0);
    return atomic_load(&comm->failure);
}

int wait_handle_messages(struct wk_comm *comm)
{
    if (is_alerted(comm) || comm->has_remote)
        handle_events(comm, 0);
    return atomic_load(&comm->failure);
}

static int sleep_once(struct wk_comm *comm, struct wait *wait)
{
    int64_t now_us = comm_now_us(), now_ms = now_us / 1000;
    note_wait_begun(comm, wait, now_us);
    if (wait->deadline_ms > 0 && now_ms >= wait->deadline_ms)
        return fail_timeout(comm, wait);
    int64_t limit_ms = wait->deadline_ms > 0 ? wait->deadline_ms - now_ms : -1;
    int grace_ms = check_ended_peers(comm, now_ms);
    if (grace_ms >= 0 && (limit_ms < 0 || grace_ms < limit_ms))
        limit_ms = grace_ms;
    if (comm->fences && comm->has_segment && (limit_ms < 0 || limit_ms > POLL_MS))
        limit_ms = POLL_MS;
    if (atomic_load(&comm->failure) != 0 || check_mismatched(comm, wait))
        return atomic_load(&comm->failure);
    handle_events(comm, (int)limit_ms);
    return atomic_load(&comm->failure);
}

/* See board.h. */
static void fall_asleep(struct wk_comm *comm)
{
    if (!comm->has_segment)
        return;
    atomic_store(&comm->segment.head->asleep, 1);
    if (!comm->fences)
        membarrier_others();
}

int wait_more(struct wk_comm *comm, struct wait *wait)
{
    if (wait->armed) {
        int rc = sleep_once(comm, wait);
        disarm(comm, wait);
        wait->turns = 0;
        wait->yields = false;
        wait->spin_start_us = 0;
        return rc;
    }
    if (poll_again(comm, wait)) {
        if (comm->has_remote && wait->turns % LISTEN_TURNS == 0)
            handle_events(comm, 0);
        return wait_check_alert(comm);
    }
    fall_asleep(comm);
    wait->armed = true;
    return 0;
}
