#include "libworker/comm/transfer.h"

#include "libworker/comm/clock.h"
#include "libworker/comm/failure.h"
#include "libworker/comm/state.h"
#include "libworker/comm/wait.h"

/* Measured (docs/collectives.md). Over TCP a long send costs half as much per byte as short ones
 * with receives in between. Between two ranks turns are therefore long while the data fits a cache,
 * where the operands still are. In shared memory it makes no difference. */
enum {
    SEND_BYTES = 128 * 1024, /* per peer and turn, so that receiving keeps pace */
    SEND_LONG_BYTES = 1024 * 1024,
    REDUCE_BYTES = 128 * 1024,      /* at once, and per turn */
    REDUCE_LONG_BYTES = 512 * 1024, /* per turn, while more has arrived */
    LONG_UP_TO_BYTES = 4 * 1024 * 1024,
};

static bool turns_are_long(const struct wk_comm *comm)
{
    size_t bytes = comm->header.count * wk_dtype_bytes((enum wk_dtype)comm->header.dtype);
    bool in_parts = comm->header.kind == KIND_ALL_REDUCE; /* by_links.c */
    return comm->world == 2 && comm->has_remote && (in_parts || bytes <= LONG_UP_TO_BYTES);
}

/* The part for this peer that can be sent now; returns the number of parts. */
static int collect_sendable(const struct peer *peer, size_t turn, struct iovec parts[COMM_OUTS_MAX])
{
    int n = 0;
    /* With the header: what it displaces would cost a packet, a sum and an answer of 32 bytes. */
    size_t budget = turn + sizeof(struct header);
    for (int i = peer->out_at; i < peer->out_count && budget > 0; i++) {
        const struct out *out = &peer->outs[i];
        size_t limit = out->ready ? *out->ready : out->bytes;
        size_t bytes = limit - out->sent < budget ? limit - out->sent : budget;
        if (bytes == 0)
            break;
        parts[n++] = (struct iovec){(char *)out->data + out->sent, bytes};
        budget -= bytes;
        if (out->sent + bytes < out->bytes)
            break;
    }
    return n;
}

static void account_sent(struct peer *peer, size_t sent)
{
    while (sent > 0) {
        struct out *out = &peer->outs[peer->out_at];
        size_t left = out->bytes - out->sent;
        size_t n = sent < left ? sent : left;
        out->sent += n;
        sent -= n;
        if (out->sent == out->bytes)
            peer->out_at++;
    }
}

static void mark_ended(struct peer *peer)
{
    if (!peer->ended) {
        peer->ended = true;
        peer->ended_ms = comm_now_us() / 1000;
    }
}

static bool send_some(struct wk_comm *comm)
{
    bool moved = false;
    size_t turn = turns_are_long(comm) ? SEND_LONG_BYTES : SEND_BYTES;
    for (int i = 1; i < comm->world; i++) {
        /* Start at different peers, not all at rank 0. */
        struct peer *peer = &comm->peers[(comm->rank + i) % comm->world];
        struct iovec parts[COMM_OUTS_MAX];
        int n = peer->out_at < peer->out_count ? collect_sendable(peer, turn, parts) : 0;
        if (n == 0)
            continue;
        ssize_t sent = link_send(peer->link, parts, n);
        if (sent < 0)
            mark_ended(peer);
        if (sent > 0) {
            account_sent(peer, (size_t)sent);
            moved = true;
        }
    }
    return moved;
}

static bool is_sending(const struct wk_comm *comm)
{
    for (int p = 0; p < comm->world; p++)
        if (comm->peers[p].out_at < comm->peers[p].out_count)
            return true;
    return false;
}

/* Receive into `data`; true if something arrived. */
static bool receive_into(struct peer *peer, void *data, size_t bytes, size_t *got)
{
    ssize_t n = link_recv(peer->link, (char *)data + *got, bytes - *got);
    if (n < 0)
        mark_ended(peer);
    if (n > 0)
        *got += (size_t)n;
    atomic_store_explicit(&peer->wanted, *got < bytes, memory_order_relaxed);
    return n > 0;
}

/* 1: something moved, 0: nothing, negative: failed. *ret_done when every header is here. */
static int receive_headers(struct wk_comm *comm, bool *ret_done)
{
    int moved = 0;
    *ret_done = true;
    for (int p = 0; p < comm->world; p++) {
        struct peer *peer = &comm->peers[p];
        if (!peer->expects || peer->header_bytes == sizeof(struct header))
            continue;
        moved |= receive_into(peer, &peer->header, sizeof(struct header), &peer->header_bytes);
        if (peer->header_bytes < sizeof(struct header))
            *ret_done = false;
        else if (!header_agrees(&peer->header, &peer->expected))
            return comm_fail_mismatch(comm, p, &peer->expected, &peer->header);
    }
    return moved;
}

static size_t summand_size(const struct reduce_plan *plan, int i)
{
    const struct reduction *r = plan->reduction;
    return i == 0 && r->partial ? reduce_partial_bytes(r->dtype) : wk_dtype_bytes(r->dtype);
}

/* Elements that every peer has sent and that are not summed yet; comm->sources gets their
 * addresses. */
static size_t common_elements(struct wk_comm *comm, const struct reduce_plan *plan)
{
    size_t common = REDUCE_BYTES / wk_dtype_bytes(plan->reduction->dtype);
    if (common > plan->count - plan->done)
        common = plan->count - plan->done;
    for (int i = 0; i < plan->reduction->sources; i++) {
        const struct summand *summand = &plan->summands[i];
        size_t size = summand_size(plan, i);
        if (summand->data) {
            comm->sources[i] = summand->data + plan->done * size;
            continue;
        }
        struct peer *peer = &comm->peers[summand->peer];
        ssize_t shown = link_peek(peer->link, &comm->sources[i]);
        if (shown < 0)
            mark_ended(peer);
        size_t elements = shown > 0 ? (size_t)shown / size : 0;
        atomic_store_explicit(&peer->wanted, elements == 0, memory_order_relaxed);
        if (elements < common)
            common = elements;
    }
    return common;
}

/* Returns the number of elements summed, 0 if some have not arrived yet. */
static size_t reduce_block_of_all(struct wk_comm *comm, struct reduce_plan *plan)
{
    size_t n = plan->done < plan->count ? common_elements(comm, plan) : 0;
    if (n > 0) {
        reduce(plan->reduction, comm->sources, plan->dst + plan->done * plan->dst_size, n);
        for (int i = 0; i < plan->reduction->sources; i++)
            if (!plan->summands[i].data)
                link_consume(comm->peers[plan->summands[i].peer].link, n * summand_size(plan, i));
        plan->done += n;
        plan->ready = plan->done * plan->dst_size;
    }
    return n;
}

static bool reduce_some(struct wk_comm *comm, struct reduce_plan *plan, bool *ret_done)
{
    size_t from = plan->ready, turn = turns_are_long(comm) ? REDUCE_LONG_BYTES : REDUCE_BYTES;
    while (reduce_block_of_all(comm, plan) > 0 && plan->ready - from < turn)
        ;
    *ret_done = plan->done == plan->count;
    return plan->ready > from;
}

static int receive_rest(struct wk_comm *comm, bool *ret_done)
{
    int moved = 0;
    *ret_done = true;
    for (int p = 0; p < comm->world; p++) {
        struct peer *peer = &comm->peers[p];
        while (peer->in_at < peer->in_count) {
            struct in *in = &peer->ins[peer->in_at];
            if (in->got < in->bytes)
                moved |= receive_into(peer, in->data, in->bytes, &in->got);
            if (in->got < in->bytes)
                break;
            peer->in_at++;
        }
        if (peer->in_at < peer->in_count)
            *ret_done = false;
    }
    return moved;
}

enum phase { PHASE_HEADERS, PHASE_REDUCE, PHASE_REST, PHASE_DRAIN };

/* One turn of receiving; advances *phase when the present one is done. */
static int receive_some(struct wk_comm *comm, struct reduce_plan *reduction, enum phase *phase)
{
    bool done = false;
    int moved = 0;
    switch (*phase) {
    case PHASE_HEADERS:
        moved = receive_headers(comm, &done);
        break;
    case PHASE_REDUCE:
        done = true;
        if (reduction)
            moved = reduce_some(comm, reduction, &done);
        if (reduction && reduction->rest_apart) {
            bool rest_done;
            moved |= receive_rest(comm, &rest_done);
        }
        break;
    case PHASE_REST:
        moved = receive_rest(comm, &done);
        break;
    case PHASE_DRAIN:
        return 0;
    }
    if (moved < 0)
        return moved;
    if (done && *phase == PHASE_HEADERS)
        comm->arrived = true;
    if (done)
        *phase = *phase + 1;
    return moved || done;
}

int transfer_run(struct wk_comm *comm, struct reduce_plan *reduction)
{
    enum phase phase = PHASE_HEADERS;
    struct wait wait;
    int rc = 0;
    wait_begin(comm, &wait);
    while (phase != PHASE_DRAIN || is_sending(comm)) {
        bool pushed = send_some(comm);
        int moved = receive_some(comm, reduction, &phase);
        if (moved < 0) {
            rc = moved;
            break;
        }
        if (pushed || moved) {
            wait_moved(comm, &wait);
            rc = atomic_load_explicit(&comm->failure, memory_order_relaxed);
        } else {
            rc = wait_more(comm, &wait);
        }
        if (rc)
            break;
    }
    wait_end(comm, &wait);
    return rc;
}
