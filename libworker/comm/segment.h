/* The shared memory that a rank offers to the ranks of its host: a doorbell word, its posts
 * (board.h) and one incoming ring per rank. It is a sealed memfd without a name, sent over a unix
 * socket. It disappears when the last process that maps it ends.
 *
 *     head: asleep | alert | done | posts | ring_ends[world]
 *     then, page aligned: ring 0, ring 1, ... ring world-1
 *
 * The owner maps the head and the rings it reads. A peer maps the head and the one ring it writes.
 *
 * Sleeping (Dekker's algorithm, all accesses sequentially consistent): the owner sets `asleep`,
 * reads its rings once more, then waits for its bell, an eventfd that the peers have too. A peer
 * publishes, then rings if `asleep` was set. A writer that finds a ring full uses `starved` in the
 * same way.
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
    _Alignas(64) _Atomic uint32_t starved; /* the writer waits for space */
};

enum { POST_HEAD_WORDS = 4, POST_TAIL_BYTES = 24, POST_MORE_BYTES = 8192 - 64 };

/* A rank's post for an operation; `sequence` is written last. The first line is enough for small
 * operations. */
struct post {
    _Alignas(64) _Atomic uint64_t sequence;
    uint64_t header[POST_HEAD_WORDS];
    char data[POST_TAIL_BYTES + POST_MORE_BYTES];
};

/* A rank no longer uses others' buffers; with its share of the tally. */
struct done {
    _Alignas(64) _Atomic uint64_t sequence;
    double squares;
    uint64_t nonfinite;
    _Atomic uint32_t quiet; /* after a failure: it touches no other rank's memory any more */
};

struct segment_head {
    uint64_t magic;
    uint32_t world;
    uint32_t ring_bytes; /* power of two, whole pages; compared when attaching */
    struct done done;
    struct post posts[2]; /* the second is used while others still read the first */
    _Alignas(64) _Atomic uint32_t asleep;
    _Alignas(64) _Atomic uint32_t alert; /* the owner should read its control sockets */
    struct ring_ends rings[];            /* [world], by the writer's rank */
};

struct segment {
    struct segment_head *head;
    size_t head_bytes, ring_bytes; /* never read these from the head: peers can write there */
    int memory_fd;
};

/* The descriptors that a peer on the same host needs. */
struct segment_handles {
    int memory_fd;
    int bell_fd;
    int process_fd; /* pidfd, readable once the process has ended; -1 if the kernel has none */
};

/* Of a rank's segment on a host of `world` ranks. */
size_t segment_bytes(int world);

int segment_new(struct segment *segment, int world, struct error *err);

/* Map another rank's segment. The caller keeps the descriptor. WK_EIO if it is invalid. */
int segment_attach(struct segment *segment, int memory_fd, int world, struct error *err);
void segment_fini(struct segment *segment);

/* The ring written by `writer`, mapped twice in a row so that any ring_bytes of it are contiguous.
 * NULL if address space or memory is out. */
char *segment_map_ring(const struct segment *segment, int memory_fd, int writer);
void segment_unmap_ring(const struct segment *segment, char *ring);

/* Wake the owner of `head` if it sleeps. */
void segment_ring_bell(struct segment_head *head, int bell_fd);

#endif
