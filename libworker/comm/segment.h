/* The shared memory a rank offers to the ranks of its host: a doorbell word, what it posts
 * (board.h) and one incoming ring per rank. It is a sealed memfd without a name, handed over a unix
 * socket: when the last process that maps it ends, it is gone.
 *
 *     owner maps the head and the rings it reads; a peer maps the head and the one ring it writes
 *     head: asleep | alert | done | posts | ring_ends[world]
 *     then, page aligned: ring 0, ring 1, ... ring world-1
 *
 * Sleeping (Dekker's way, all accesses sequentially consistent): the owner sets `asleep`, looks at
 * its rings once more, then waits for its bell (an eventfd the peers hold too). A peer publishes,
 * then rings if `asleep` was set. The same with `starved` for a writer that found a ring full.
 */
#ifndef COMM_SEGMENT_H
#define COMM_SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* One direction of a pair. Positions only grow; the ring index is position % ring_bytes. */
struct ring_ends {
    _Alignas(64) _Atomic uint64_t head;    /* written by the writer */
    _Alignas(64) _Atomic uint64_t tail;    /* written by the reader */
    _Alignas(64) _Atomic uint32_t starved; /* the writer waits for room */
};

enum { POST_HEAD_WORDS = 4, POST_TAIL_BYTES = 24, POST_MORE_BYTES = 8192 - 64 };

/* What a rank brings to an operation; `sequence` is written last. The first line holds what small
 * operations need. */
struct post {
    _Alignas(64) _Atomic uint64_t sequence;
    uint64_t header[POST_HEAD_WORDS];
    char data[POST_TAIL_BYTES + POST_MORE_BYTES];
};

/* That a rank is through with everybody's buffers, and its part of the tally. */
struct done {
    _Alignas(64) _Atomic uint64_t sequence;
    double squares;
    uint64_t nonfinite;
    _Atomic uint32_t quiet; /* it has failed and touches nobody's memory any more */
};

struct segment_head {
    uint64_t magic;
    uint32_t world;
    uint32_t ring_bytes; /* power of two, whole pages; for whoever attaches to compare */
    struct done done;
    struct post posts[2]; /* the second while others still read the first */
    _Alignas(64) _Atomic uint32_t asleep;
    _Alignas(64) _Atomic uint32_t alert; /* the owner should look at its control sockets */
    struct ring_ends rings[];            /* [world], by the writer's rank */
};

struct segment {
    struct segment_head *head;
    size_t head_bytes, ring_bytes; /* not to be read from the head: peers can write there */
    int memory_fd;
};

/* What a peer needs of a rank of its host. */
struct segment_handles {
    int memory_fd;
    int bell_fd;
    int process_fd; /* pidfd, readable once the process has ended; -1 if the kernel has none */
};

int segment_new(struct segment *segment, int world, struct error *err);

/* Map another rank's. The descriptor stays the caller's. WK_EIO when it is not what it should be.
 */
int segment_attach(struct segment *segment, int memory_fd, int world, struct error *err);
void segment_fini(struct segment *segment);

/* The ring written by `writer`, mapped twice in a row so that any ring_bytes of it are contiguous;
 * NULL when there is no room. */
char *segment_map_ring(const struct segment *segment, int memory_fd, int writer);
void segment_unmap_ring(const struct segment *segment, char *ring);

/* Wake the owner of `head` if it sleeps. */
void segment_ring_bell(struct segment_head *head, int bell_fd);

#endif
