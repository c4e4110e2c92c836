/* Another rank of the same communicator: its link, its shared memory, the operation in progress
 * with it, its control socket. Owned by the communicator. Only the thread that runs an operation
 * uses it, except the last part. */
#ifndef COMM_PEER_H
#define COMM_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libworker/comm/header.h"
#include "libworker/comm/link.h"
#include "libworker/comm/segment.h"

enum {
    CONTROL_BYTES = 512,
    COMM_TEXT_BYTES = CONTROL_BYTES - 16,
    COMM_OUTS_MAX = LINK_PARTS_MAX,
    COMM_INS_MAX = 2,
    COMM_ARENAS_MAX = 64,
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

#endif
