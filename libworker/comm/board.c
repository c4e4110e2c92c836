#include "libworker/comm/board.h"

#include <string.h>
#include <time.h>

#include "libworker/comm/clock.h"
#include "libworker/comm/control.h"
#include "libworker/comm/failure.h"
#include "libworker/comm/state.h"
#include "libworker/comm/wait.h"

enum {
    FIRST_POLLS = 8000, /* an answer that is about to arrive */
    QUIESCE_MS = 50,
    NAP_US = 100,
};

_Static_assert(sizeof(struct header) == sizeof(uint64_t[POST_HEAD_WORDS]), "a header fits a post");

/* Set `word` to the present sequence for the others, and wake ranks that fell asleep before they
 * could see it. */
static void publish_sequence(struct wk_comm *comm, _Atomic uint64_t *word)
{
    if (comm->fences)
        atomic_store(word, comm->board_sequence);
    else
        atomic_store_explicit(word, comm->board_sequence, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    for (int i = 0; i < comm->locals; i++) {
        struct peer *peer = &comm->peers[comm->local_ranks[i]];
        if (peer->head && atomic_load(&peer->head->asleep))
            segment_ring_bell(peer->head, peer->handles.bell_fd);
    }
}

void board_post(struct wk_comm *comm, const void *data, size_t bytes)
{
    struct post *post = &comm->segment.head->posts[++comm->board_sequence % 2];
    uint64_t tail[POST_TAIL_BYTES / sizeof(uint64_t)] = {0};
    size_t first = bytes < POST_TAIL_BYTES ? bytes : POST_TAIL_BYTES;
    if (bytes > first)
        memcpy(post->data + first, (const char *)data + first, bytes - first);
    if (first > 0)
        memcpy(tail, data, first);
    memcpy(post->data, tail, sizeof(tail));
    memcpy(post->header, &comm->header, sizeof(comm->header));
    publish_sequence(comm, &post->sequence);
}

const struct post *board_post_of(const struct wk_comm *comm, int rank)
{
    const struct segment_head *head =
        rank == comm->rank ? comm->segment.head : comm->peers[rank].head;
    return &head->posts[comm->board_sequence % 2];
}

typedef const _Atomic uint64_t *word_of(const struct wk_comm *comm, int rank);

static const _Atomic uint64_t *post_word(const struct wk_comm *comm, int rank)
{
    return &board_post_of(comm, rank)->sequence;
}

static const _Atomic uint64_t *done_word(const struct wk_comm *comm, int rank)
{
    return &comm->peers[rank].head->done.sequence;
}

/* True if all ranks are here. Notes the missing ones, for the sleeper and for observers. */
static bool all_here(struct wk_comm *comm, word_of *word)
{
    bool all = true;
    for (int i = 0; i < comm->locals; i++) {
        int p = comm->local_ranks[i];
        if (p == comm->rank)
            continue;
        bool here =
            atomic_load_explicit(word(comm, p), memory_order_acquire) >= comm->board_sequence;
        atomic_store_explicit(&comm->peers[p].wanted, !here, memory_order_relaxed);
        all &= here;
    }
    return all;
}

static int wait_slowly(struct wk_comm *comm, word_of *word)
{
    struct wait wait;
    int rc = 0;
    wait_begin(comm, &wait);
    while (!rc && !all_here(comm, word))
        rc = wait_more(comm, &wait);
    wait_moved(comm, &wait);
    wait_end(comm, &wait);
    return rc;
}

static int await_all(struct wk_comm *comm, word_of *word)
{
    uint64_t sequence = comm->board_sequence;
    int polls = comm->spin_us > 0 ? FIRST_POLLS : 1;
    for (int i = 0; i < comm->locals; i++) {
        int p = comm->local_ranks[i];
        if (p == comm->rank)
            continue;
        const _Atomic uint64_t *at = word(comm, p);
        while (atomic_load_explicit(at, memory_order_acquire) < sequence)
            if (polls-- <= 0)
                return wait_slowly(comm, word);
    }
    return 0;
}

/* The others have read the cache line of our next post two posts ago and still have it. A store now
 * requests it back while the caller is busy with this post, so writing the next one needs one trip
 * between the cores less. (A prefetch for writing took longer than it saved where the cores are
 * close.) */
static void expect_to_post(struct wk_comm *comm)
{
    comm->segment.head->posts[(comm->board_sequence + 1) % 2].header[0] = 0;
}

int board_gather(struct wk_comm *comm)
{
    int rc = await_all(comm, post_word);
    comm->arrived = !rc;
    if (!rc)
        expect_to_post(comm);
    for (int i = 0; !rc && i < comm->locals; i++) {
        int p = comm->local_ranks[i];
        struct header theirs;
        if (p == comm->rank)
            continue;
        memcpy(&theirs, board_post_of(comm, p)->header, sizeof(theirs));
        if (!header_agrees(&comm->header, &theirs))
            rc = comm_fail_mismatch(comm, p, &comm->header, &theirs);
    }
    return rc;
}

int board_finish(struct wk_comm *comm, const struct share *share)
{
    struct done *done = &comm->segment.head->done;
    if (share) {
        done->squares = share->squares;
        done->nonfinite = share->nonfinite;
    }
    publish_sequence(comm, &done->sequence);
    return await_all(comm, done_word);
}

static bool has_let_go(struct peer *peer)
{
    return atomic_load(&peer->head->done.quiet) || atomic_load(&peer->dead) ||
           atomic_load(&peer->left);
}

bool board_quiesce(struct wk_comm *comm)
{
    const struct timespec nap = {.tv_nsec = NAP_US * 1000};
    int64_t until_us = comm_now_us() + QUIESCE_MS * 1000;
    for (;;) {
        bool all = true;
        for (int i = 0; i < comm->locals; i++) {
            int p = comm->local_ranks[i];
            if (p != comm->rank && !has_let_go(&comm->peers[p])) {
                control_read(comm, p);
                all &= has_let_go(&comm->peers[p]);
            }
        }
        if (all || comm_now_us() > until_us)
            return all;
        nanosleep(&nap, NULL);
    }
}
