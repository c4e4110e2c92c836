#include "libworker/comm/status.h"

#include <stdio.h>
#include <string.h>

#include "libworker/comm/clock.h"
#include "libworker/comm/state.h"

enum { READS_MAX = 100, NAMED_MAX = 8 /* missing ranks named before "and n more" */ };

_Static_assert((int)KINDS <= (int)WK_COMM_COUNTERS, "every operation has its counter");

/* A reader that sees a word of the new data also sees the odd version, when it reads it again. */
void status_begin(struct wk_comm *comm, const struct request *rq)
{
    struct snapshot *snapshot = &comm->snapshot;
    uint64_t words[sizeof(struct header) / 8];
    size_t bytes = request_bytes(rq, comm->world);
    uint64_t version = atomic_load_explicit(&snapshot->version, memory_order_relaxed);
    struct counter *counter = &comm->counters[rq->kind];
    comm->arrived = false;
    memcpy(words, &comm->header, sizeof(words));
    atomic_store_explicit(&snapshot->version, version + 1, memory_order_relaxed);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        atomic_store_explicit(&snapshot->words[i], words[i], memory_order_release);
    atomic_store_explicit(&snapshot->bytes, bytes, memory_order_release);
    atomic_store_explicit(&snapshot->version, version + 2, memory_order_release);
    atomic_store_explicit(&snapshot->active, true, memory_order_relaxed);
    /* There is one runner at a time, so no atomic addition is needed. */
    atomic_store_explicit(&counter->calls,
                          atomic_load_explicit(&counter->calls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&counter->bytes,
                          atomic_load_explicit(&counter->bytes, memory_order_relaxed) + bytes,
                          memory_order_relaxed);
}

void status_end(struct wk_comm *comm)
{
    atomic_store_explicit(&comm->snapshot.active, false, memory_order_relaxed);
}

static void read_snapshot(struct wk_comm *comm, struct header *ret_header, uint64_t *ret_bytes)
{
    struct snapshot *snapshot = &comm->snapshot;
    uint64_t words[sizeof(struct header) / 8];
    for (int reads = 0; reads < READS_MAX; reads++) {
        uint64_t before = atomic_load_explicit(&snapshot->version, memory_order_acquire);
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            words[i] = atomic_load_explicit(&snapshot->words[i], memory_order_acquire);
        *ret_bytes = atomic_load_explicit(&snapshot->bytes, memory_order_acquire);
        if (before % 2 == 0 &&
            before == atomic_load_explicit(&snapshot->version, memory_order_relaxed))
            break;
    }
    memcpy(ret_header, words, sizeof(words));
}

void wk_comm_status(struct wk_comm *comm, struct wk_comm_status *ret)
{
    struct header header;
    *ret = (struct wk_comm_status){.failure = atomic_load(&comm->failure)};
    snprintf(ret->name, sizeof(ret->name), "%s", comm->name);
    for (int p = 0; p < comm->world; p++)
        ret->left += atomic_load_explicit(&comm->peers[p].left, memory_order_relaxed);
    if (atomic_load_explicit(&comm->snapshot.version, memory_order_relaxed) == 0)
        return;
    read_snapshot(comm, &header, &ret->bytes);
    ret->sequence = header.sequence;
    header_describe(&header, ret->operation, sizeof(ret->operation));
    ret->running = atomic_load_explicit(&comm->snapshot.active, memory_order_relaxed);
    int64_t since_us = atomic_load_explicit(&comm->snapshot.waiting_since_us, memory_order_relaxed);
    if (!ret->running || since_us == 0)
        return;
    int64_t waiting_us = comm_now_us() - since_us;
    ret->waiting_us = waiting_us > 0 ? waiting_us : 1;
    for (int p = 0; p < comm->world; p++) {
        if (p == comm->rank || !atomic_load_explicit(&comm->peers[p].wanted, memory_order_relaxed))
            continue;
        if (ret->waiting_count < (int)(sizeof(ret->waiting) / sizeof(ret->waiting[0])))
            ret->waiting[ret->waiting_count] = p;
        ret->waiting_count++;
    }
}

void comm_longest_wait(struct wk_comm *comm, struct wk_comm_status *ret)
{
    struct wk_comm_status group;
    int named = (int)(sizeof(ret->waiting) / sizeof(ret->waiting[0]));
    wk_comm_status(comm, ret);
    for (int i = 0; comm->origins && i < ret->waiting_count && i < named; i++)
        ret->waiting[i] = comm->origins[ret->waiting[i]];
    pthread_mutex_lock(&comm->fail_lock);
    if (comm->connecting.waiting_us > ret->waiting_us)
        *ret = comm->connecting;
    for (struct wk_comm *child = comm->first_child; child; child = child->next_sibling) {
        comm_longest_wait(child, &group);
        if (group.waiting_us > ret->waiting_us)
            *ret = group;
    }
    pthread_mutex_unlock(&comm->fail_lock);
}

/* For the runner. After all have arrived, a peer that receives nothing delays us too. */
int status_missing(struct wk_comm *comm, char *ret_names, size_t bytes)
{
    int missing = 0;
    size_t at = 0;
    ret_names[0] = '\0';
    for (int p = 0; p < comm->world; p++) {
        struct peer *peer = &comm->peers[p];
        bool stuck = comm->arrived && peer->out_at < peer->out_count;
        if (p == comm->rank ||
            (!stuck && !atomic_load_explicit(&peer->wanted, memory_order_relaxed)))
            continue;
        if (missing < NAMED_MAX)
            at += (size_t)snprintf(ret_names + at, bytes - at, "%s%d", missing ? ", " : "", p);
        missing++;
    }
    if (missing > NAMED_MAX)
        snprintf(ret_names + at, bytes - at, " and %d more", missing - NAMED_MAX);
    return missing;
}

void wk_comm_statistics(struct wk_comm *comm, struct wk_comm_statistics *ret)
{
    *ret = (struct wk_comm_statistics){.count = KINDS};
    for (int k = 0; k < KINDS; k++) {
        const struct counter *counter = &comm->counters[k];
        ret->counters[k] = (struct wk_comm_counter){
            .name = kind_name((uint8_t)k),
            .calls = atomic_load_explicit(&counter->calls, memory_order_relaxed),
            .bytes = atomic_load_explicit(&counter->bytes, memory_order_relaxed),
            .wait_s = (double)atomic_load_explicit(&counter->wait_us, memory_order_relaxed) * 1e-6,
        };
    }
    ret->in_place = atomic_load_explicit(&comm->in_place, memory_order_relaxed);
}
