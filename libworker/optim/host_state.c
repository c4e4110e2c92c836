#include "libworker/optim/host_state.h"

#include <string.h>

#include <worker/error.h>

/* An eighth of the range, so that there is something to overlap. */
size_t host_state_piece(size_t count)
{
    size_t eighth = (count / 8 / HOST_STATE_PIECE_MIN + 1) * HOST_STATE_PIECE_MIN;
    return eighth < HOST_STATE_PIECE_MAX ? eighth : HOST_STATE_PIECE_MAX;
}

static size_t bytes_of(size_t piece, struct host_state_parts parts)
{
    return HOST_STATE_SLOTS * (size_t)(parts.n_states + parts.master) * piece * sizeof(float);
}

size_t host_state_slots(size_t count, struct host_state_parts parts)
{
    return bytes_of(host_state_piece(count), parts);
}

static size_t slots_bytes(const struct host_state *host)
{
    return bytes_of(host->piece, host->parts);
}

int host_state_init(struct host_state *host, struct queue *queue, size_t count,
                    struct host_state_parts parts, struct error *err)
{
    struct device *device = queue_device(queue);
    void *slots = NULL;
    *host = (struct host_state){.piece = host_state_piece(count), .parts = parts};
    int rc = queue_new(device, &host->in, err);
    if (!rc)
        rc = queue_new(device, &host->out, err);
    if (!rc)
        rc = device_memory_new(device, slots_bytes(host), &slots, err);
    host->slots = slots;
    if (rc)
        host_state_fini(host);
    return rc;
}

void host_state_fini(struct host_state *host)
{
    if (host->in)
        (void)queue_finish(host->in, NULL);
    if (host->out)
        (void)queue_finish(host->out, NULL);
    if (host->slots)
        device_memory_free(queue_device(host->in), host->slots, slots_bytes(host));
    queue_free(host->in);
    queue_free(host->out);
    *host = (struct host_state){0};
}

float *host_state_new(const struct queue *queue, size_t count)
{
    void *state = NULL;
    if (device_pinned_new(queue_device(queue), count * sizeof(float), &state, NULL))
        return NULL;
    memset(state, 0, count * sizeof(float));
    return state;
}

/* Array `i` of a slot. */
static float *slot_at(const struct host_state *host, int slot, int i)
{
    return host->slots + (size_t)(slot * host_state_arrays(host) + i) * host->piece;
}

static void empty_slot(struct host_state *host, struct queue *after)
{
    host->emptied[host->next] = event_record(after);
    host->next = (host->next + 1) % HOST_STATE_SLOTS;
}

void host_state_bring(struct host_state *host, struct queue *queue, struct host_state_piece *piece)
{
    queue_wait(host->in, host->emptied[host->next]);
    for (int i = 0; i < piece->n; i++) {
        piece->there[i] = slot_at(host, host->next, i);
        queue_send(host->in, piece->there[i], piece->home[i], piece->count * sizeof(float));
    }
    queue_wait(queue, event_record(host->in));
    host->moves = true;
}

void host_state_return(struct host_state *host, struct queue *queue,
                       const struct host_state_piece *piece)
{
    queue_wait(host->out, event_record(queue));
    for (int i = 0; i < piece->n; i++)
        queue_fetch(host->out, piece->home[i], piece->there[i], piece->count * sizeof(float));
    empty_slot(host, host->out);
}

void host_state_leave(struct host_state *host, struct queue *queue)
{
    empty_slot(host, queue);
}

int host_state_settle(struct host_state *host, struct error *err)
{
    int rc = host->moves ? queue_finish(host->in, err) : 0;
    if (!rc && host->moves)
        rc = queue_finish(host->out, err);
    if (!rc)
        host->moves = false;
    return rc;
}
