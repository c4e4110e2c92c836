#include "libworker/comm/link_shm.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

struct link_shm {
    struct link link;
    const struct segment *own;
    struct segment theirs;
    int bell_fd;
    size_t ring_bytes;
    struct ring_ends *out_ends;
    struct ring_ends *in_ends;
    char *out;
    char *in;
    uint64_t out_head; /* only this side writes it */
    uint64_t out_tail; /* as last read: the true value is at least this */
    uint64_t in_tail;
};

static size_t free_bytes(const struct link_shm *shm)
{
    return shm->ring_bytes - (size_t)(shm->out_head - shm->out_tail);
}

/* Read the reader's position, which must be within the written bytes; false if it is not. */
static bool read_reader(struct link_shm *shm)
{
    uint64_t tail = atomic_load(&shm->out_ends->tail);
    if (shm->out_head - tail > shm->ring_bytes)
        return false;
    shm->out_tail = tail;
    return true;
}

/* Free space for `bytes`. Reads the reader's position only if the last one is not enough; -1 if it
 * is invalid. */
static ssize_t reserve_bytes(struct link_shm *shm, size_t bytes)
{
    if (free_bytes(shm) >= bytes)
        return (ssize_t)bytes;
    if (!read_reader(shm))
        return -1;
    if (free_bytes(shm) == 0) {
        atomic_store(&shm->out_ends->starved, 1);
        if (!read_reader(shm))
            return -1;
    }
    return (ssize_t)(free_bytes(shm) < bytes ? free_bytes(shm) : bytes);
}

static ssize_t shm_send(struct link *link, const struct iovec *parts, int count)
{
    struct link_shm *shm = (struct link_shm *)link;
    size_t sent = 0;
    for (int i = 0; i < count; i++) {
        ssize_t n = reserve_bytes(shm, parts[i].iov_len);
        if (n < 0)
            return -1;
        memcpy(shm->out + shm->out_head % shm->ring_bytes, parts[i].iov_base, (size_t)n);
        shm->out_head += (uint64_t)n;
        sent += (size_t)n;
        if ((size_t)n < parts[i].iov_len)
            break;
    }
    if (sent > 0) {
        atomic_store(&shm->out_ends->head, shm->out_head);
        segment_ring_bell(shm->theirs.head, shm->bell_fd);
    }
    return (ssize_t)sent;
}

static ssize_t shm_peek(struct link *link, const void **ret_data)
{
    struct link_shm *shm = (struct link_shm *)link;
    *ret_data = shm->in + shm->in_tail % shm->ring_bytes;
    uint64_t bytes = atomic_load(&shm->in_ends->head) - shm->in_tail;
    return bytes > shm->ring_bytes ? -1 : (ssize_t)bytes;
}

static void shm_consume(struct link *link, size_t bytes)
{
    struct link_shm *shm = (struct link_shm *)link;
    shm->in_tail += bytes;
    atomic_store(&shm->in_ends->tail, shm->in_tail);
    if (atomic_load(&shm->in_ends->starved)) {
        atomic_store(&shm->in_ends->starved, 0);
        segment_ring_bell(shm->theirs.head, shm->bell_fd);
    }
}

static ssize_t shm_recv(struct link *link, void *data, size_t bytes)
{
    const void *from;
    ssize_t shown = shm_peek(link, &from);
    if (shown <= 0)
        return shown;
    size_t n = (size_t)shown < bytes ? (size_t)shown : bytes;
    memcpy(data, from, n);
    shm_consume(link, n);
    return (ssize_t)n;
}

static void shm_alert(struct link *link)
{
    atomic_store(&((struct link_shm *)link)->theirs.head->alert, 1);
}

static void shm_free(struct link *link)
{
    struct link_shm *shm = (struct link_shm *)link;
    if (shm->theirs.head)
        segment_unmap_ring(&shm->theirs, shm->out);
    segment_unmap_ring(shm->own, shm->in);
    segment_fini(&shm->theirs);
    free(shm);
}

static const struct link_ops shm_ops = {
    .send = shm_send,
    .peek = shm_peek,
    .consume = shm_consume,
    .recv = shm_recv,
    .alert = shm_alert,
    .free = shm_free,
};

struct segment_head *link_shm_head(const struct link *link)
{
    return ((const struct link_shm *)link)->theirs.head;
}

int link_shm_new(const struct link_shm_options *options, struct link **ret, struct error *err)
{
    struct link_shm *shm = calloc(1, sizeof(*shm));
    if (!shm)
        return error_set(err, WK_ENOMEM, "no memory for a link");
    shm->link.ops = &shm_ops;
    shm->own = options->own;
    shm->bell_fd = options->handles.bell_fd;
    int rc = segment_attach(&shm->theirs, options->handles.memory_fd, options->world, err);
    if (rc)
        goto out;
    shm->ring_bytes = shm->own->ring_bytes;
    shm->out_ends = &shm->theirs.head->rings[options->rank];
    shm->in_ends = &shm->own->head->rings[options->peer];
    shm->out = segment_map_ring(&shm->theirs, options->handles.memory_fd, options->rank);
    shm->in = segment_map_ring(shm->own, shm->own->memory_fd, options->peer);
    if (!shm->out || !shm->in) {
        rc = error_set(err, WK_ENOMEM, "cannot map the rings shared with rank %d", options->peer);
        goto out;
    }
    *ret = &shm->link;
    return 0;
out:
    shm_free(&shm->link);
    return rc;
}
