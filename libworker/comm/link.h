/* Bytes between this rank and one other: a reliable, ordered stream in each direction that never
 * blocks. Two implementations: a ring in shared memory (link_shm) and a TCP connection (link_tcp).
 *
 * A link belongs to its communicator and is used by whoever runs the present operation. Waiting is
 * the communicator's (wait.h): both kinds end in something its epoll watches.
 */
#ifndef COMM_LINK_H
#define COMM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct link;

struct link_ops {
    /* Takes as much as fits now of `parts` in order; returns the bytes taken, 0 when full, -1 when
     * the other side is gone. */
    ssize_t (*send)(struct link *link, const struct iovec *parts, int count);
    /* Shows what has arrived without taking it: returns the bytes at *ret_data, contiguous, 0 if
     * none, -1 when the other side is gone and nothing is left. More may show at the next call.
     * The data stays where it is until consumed. */
    ssize_t (*peek)(struct link *link, const void **ret_data);
    /* Takes `bytes` of what was shown. */
    void (*consume)(struct link *link, size_t bytes);
    /* Moves what has arrived, up to `bytes`, to `data`; returns as peek. */
    ssize_t (*recv)(struct link *link, void *data, size_t bytes);
    /* The other side should look at its control socket before its next operation. Any thread. */
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
