/* A byte stream between this rank and one other: reliable, ordered, in both directions, never
 * blocking. Two implementations: a ring in shared memory (link_shm) and TCP connections (link_tcp).
 *
 * A link belongs to its communicator; the thread that runs the present operation uses it. The
 * communicator does the waiting (wait.c): both kinds have a descriptor in its epoll.
 */
#ifndef COMM_LINK_H
#define COMM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { LINK_PARTS_MAX = 3 }; /* of one send */

struct link;

struct link_ops {
    /* Send as much as fits now of `parts` in order, at most LINK_PARTS_MAX. Returns the number of
     * bytes, 0 when full, -1 when the other side has ended. */
    ssize_t (*send)(struct link *link, const struct iovec *parts, int count);
    /* Show arrived bytes without consuming them. Returns the number of contiguous bytes at
     * *ret_data, 0 if none, -1 when the other side has ended and nothing is left. The next call may
     * show more. The data stays valid until consumed. */
    ssize_t (*peek)(struct link *link, const void **ret_data);
    /* Consume `bytes` of the shown data. */
    void (*consume)(struct link *link, size_t bytes);
    /* Move up to `bytes` of arrived data to `data`; returns as peek. */
    ssize_t (*recv)(struct link *link, void *data, size_t bytes);
    /* Ask the other side to read its control socket before its next operation. Any thread. */
    void (*alert)(struct link *link);
    void (*free)(struct link *link);
};

struct link {
    const struct link_ops *ops;
};

static inline ssize_t link_send(struct link *link, const struct iovec *parts, int count)
{
    return link->ops->send(link, parts, count);
}

static inline ssize_t link_peek(struct link *link, const void **ret_data)
{
    return link->ops->peek(link, ret_data);
}

static inline void link_consume(struct link *link, size_t bytes)
{
    link->ops->consume(link, bytes);
}

static inline ssize_t link_recv(struct link *link, void *data, size_t bytes)
{
    return link->ops->recv(link, data, bytes);
}

static inline void link_alert(struct link *link)
{
    link->ops->alert(link);
}

static inline void link_free(struct link *link)
{
    if (link)
        link->ops->free(link);
}

#endif
