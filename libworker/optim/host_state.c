#include "libworker/optim/host_state.h"

#include <string.h>

#include <worker/error.h>

/* An eighth of the range, so that there is something to overlap. */
static size_t piece_for(size_t count)
{
    size_t eighth = (count / 8 / HOST_STATE_PIECE_MIN + 1) * HOST_STATE_PIECE_MIN;
    return eighth < HOST_STATE_PIECE_MAX ? eighth : HOST_STATE_PIECE_MAX;
}

static size_t slots_bytes(const struct host_state *host)
{
    return HOST_STATE_SLOTS * (size_t)host->n_states * host->piece * sizeof(float);
}

int host_state_init(struct host_state *host, struct queue *queue, size_t count, int n_states,
                    struct error *err)
{
    struct device *device = queue_device(queue);
    void *slots = NULL;
    *host = (struct host_state){.piece = piece_for(count), .n_states = n_states};
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

/* State `i` of a slot. */
static float *slot_at(const struct host_state *host, int slot, int i)
{
    return host->slots + (size_t)(slot * host->n_states + i) * host->piece;
}

void host_state_bring(struct host_state *host, struct queue *queue, float *const *from,
                      size_t count, float **ret_there)
{
    queue_wait(host->in, host->emptied[host->next]);
    for (int i = 0; i < host->n_states; i++) {
        ret_there[i] = slot_at(host, host->next, i);
        queue_send(host->in, ret_there[i], from[i], count * sizeof(float));
    }
    queue_wait(queue, event_record(host->in));
    host->moves = true;
}

void host_state_return(struct host_state *host, struct queue *queue, float *const *to, size_t count)
{
    queue_wait(host->out, event_record(queue));
    for (int i = 0; i < host->n_states; i++)
        queue_fetch(host->out, to[i], slot_at(host, host->next, i), count * sizeof(float));
    host->emptied[host->next] = event_record(host->out);
    host->next = (host->next + 1) % HOST_STATE_SLOTS;
}

int host_state_settle(struct host_state *host, struct error *err)
{
    int rc = host->moves ? queue_finish(host->out, err) : 0;
    if (!rc)
        host->moves = false;
    return rc;
}
