#include "libworker/parallel/wires.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <worker/error.h>

#include "common/base/assert.h"
#include "libworker/device/kernels.h"
#include "libworker/parallel/rank_sums.h"
#include "libworker/parallel/scratch.h"
#include "libworker/parallel/wires_watch.h"

enum {
    PIECE_ALIGN = 16, /* elements: pieces begin on cache lines */
    POLL_US = 500,
};

struct wires {
    struct device *device;
    struct queue *line; /* all collectives run on it */
    struct wires_options options;
    const struct wire_ops *ops; /* NULL: several ranks have none */
    bool unusable;              /* one was opened, and did not work */
    bool unshared;              /* one did not work with memory that ranks share */
    bool remarked;              /* that the ranks' differ */
    struct scratch *scratch;    /* the rows of other ranks */
    void *stop;                 /* pinned: the word of the watch */
    struct wires_watch watch;
    struct watched list[WIRES_MAX]; /* wire NULL: of a single rank */
    int n;
    struct host_pairs hosts;
};

static const char DATA[] = "data between the ranks";

/* What the ranks have no wires for, and why. */
static void remark(const struct wires_options *options, const char *what, const char *why)
{
    struct error sentence = {0};
    if (!options->remark)
        return;
    (void)error_set(&sentence, WK_EUNAVAILABLE, "%s passes through the hosts: %s", what, why);
    options->remark(options->arg, sentence.text);
}

/* Whether the device has the kernels that wires need; a remark says which one it has not. */
static bool has_kernels(const struct device *device, const struct wires_options *options)
{
    static const char *const needed[] = {PARALLEL_SUM_RANKS, PARALLEL_NOTE_STOP};
    struct error why = {0};
    for (int i = 0; i < 2; i++)
        if (device_kernel_need(device, "launch", needed[i], &why)) {
            remark(options, DATA, why.text);
            return false;
        }
    return true;
}

int wires_new(struct queue *queue, const struct wires_options *options, struct wires **ret,
              struct error *err)
{
    struct device *device = queue_device(queue);
    *ret = NULL;
    if (device_host_reads(device) || !has_kernels(device, options))
        return 0;
    struct wires *wires = calloc(1, sizeof(*wires));
    if (!wires)
        return error_set(err, WK_ENOMEM, "no memory for a device's collectives");
    wires->device = device;
    wires->options = *options;
    wires->ops = options->off ? NULL : device_wires(device);
    int rc = queue_new(device, &wires->line, err);
    if (!rc)
        rc = device_pinned_new(device, sizeof(_Atomic int), &wires->stop, err);
    if (rc) {
        wires_free(wires);
        return rc;
    }
    atomic_init((_Atomic int *)wires->stop, 0);
    wires->watch =
        (struct wires_watch){.ops = wires->ops, .options = &wires->options, .stop = wires->stop};
    *ret = wires;
    return 0;
}

void wires_free(struct wires *wires)
{
    if (!wires)
        return;
    insist(!wires->n);
    if (wires->line)
        (void)queue_finish(wires->line, NULL);
    scratch_free(wires->device, &wires->scratch);
    device_pinned_free(wires->device, wires->stop, sizeof(_Atomic int));
    queue_free(wires->line);
    free(wires);
}

/* rc, with the communicator's sentence; 0 stays. */
static int outcome(struct wk_comm *comm, int rc, struct error *err)
{
    const char *why = wk_comm_error(comm);
    if (rc)
        (void)error_set(err, rc, "%s", *why ? why : "a rank has left while others' devices wait");
    return rc;
}

/* What a rank's device has; empty: nothing. */
struct version {
    char text[WIRE_VERSION_BYTES];
};

static void find(struct wires *wires, struct version *ret)
{
    struct error why = {0};
    *ret = (struct version){0};
    if (wires->ops && !wires->unusable && wires->ops->find(wires->device, ret->text, &why)) {
        *ret = (struct version){0};
        wires->unusable = true;
        remark(&wires->options, DATA, why.text);
    }
}

/* Whether all ranks have what rank 0 has. It needs no memory, so that no rank fails alone. */
static int compare(struct wires *wires, struct wk_comm *comm, bool *ret_alike, struct error *err)
{
    struct version own, first;
    find(wires, &own);
    first = own;
    int rc = wk_broadcast(comm, &first, sizeof(first), WK_U8, 0, NULL);
    int32_t alike = *own.text && memcmp(&first, &own, sizeof(own)) == 0;
    if (!rc)
        rc = wk_all_reduce(comm, &alike, 1, WK_I32, WK_MIN, NULL);
    if (!rc && *own.text && !alike && !wires->remarked) {
        remark(&wires->options, DATA,
               "the ranks' devices have different collectives, or some have none");
        wires->remarked = true;
    }
    *ret_alike = alike;
    return outcome(comm, rc, err);
}

/* Rank 0's id on every rank. A rank 0 without one sends its code. */
struct offer {
    int32_t code;
    unsigned char id[WIRE_ID_BYTES];
};

static int share_id(struct wires *wires, struct wk_comm *comm, struct offer *ret, struct error *err)
{
    struct error why = {0};
    *ret = (struct offer){0};
    if (wk_comm_rank(comm) == 0)
        ret->code = wires->ops->id(wires->device, ret->id, &why);
    if (*why.text)
        remark(&wires->options, DATA, why.text);
    int rc = wk_broadcast(comm, ret, sizeof(*ret), WK_U8, 0, NULL);
    return outcome(comm, rc, err);
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Wait for it to work, for the communicator's failure (*ret_lost), or the deadline. */
static int await(struct wires *wires, const struct watched *w, int *ret_lost, struct error *why)
{
    const struct timespec pause = {.tv_nsec = POLL_US * 1000L};
    int64_t until_ms = now_ms() + wires->options.open_ms;
    int rc = wires->ops->ready(w->wire, why);
    while (rc == WIRE_PENDING && !(*ret_lost = watch_look(w->comm))) {
        if (now_ms() > until_ms)
            return error_set(why, WK_ETIMEOUT, "the ranks' devices did not connect in %lld ms",
                             (long long)wires->options.open_ms);
        (void)nanosleep(&pause, NULL);
        rc = wires->ops->ready(w->wire, why);
    }
    return *ret_lost ? *ret_lost : rc;
}

static void close_unwatched(struct wires *wires, struct watched *w)
{
    watch_abort(&wires->watch, &w->wire, 1);
    wires->ops->close(w->wire);
    w->wire = NULL;
}

/* This rank's part of an opening: its wire, or NULL with a reason. */
static void open_own(struct wires *wires, struct watched *w, const struct offer *offer,
                     int *ret_lost, struct error *why)
{
    const struct wire_place place = {offer->id, wk_comm_rank(w->comm), wk_comm_world(w->comm)};
    struct device_wire *wire = NULL;
    if (offer->code || wires->ops->open(wires->device, &place, &wire, why))
        return;
    w->wire = wire;
    if (await(wires, w, ret_lost, why))
        close_unwatched(wires, w);
}

/* Every rank has a wire, or none keeps its own. */
static int agree(struct wires *wires, struct watched *w, struct error *err)
{
    int32_t works = w->wire ? 1 : 0;
    int rc = outcome(w->comm, wk_all_reduce(w->comm, &works, 1, WK_I32, WK_MIN, NULL), err);
    if (!rc && works)
        rc = watch_add(&wires->watch, w, err);
    if (!rc && works)
        return 0;
    if (w->wire)
        close_unwatched(wires, w);
    wires->unusable = true;
    return rc;
}

/* On all ranks, or w->wire is NULL. */
static int open_all(struct wires *wires, struct watched *w, struct error *err)
{
    struct offer offer;
    struct error why = {0};
    int lost = 0, rc = share_id(wires, w->comm, &offer, err);
    if (rc)
        return rc;
    open_own(wires, w, &offer, &lost, &why);
    if (lost)
        return outcome(w->comm, lost, err);
    if (*why.text)
        remark(&wires->options, DATA, why.text);
    return agree(wires, w, err);
}

/* Of the communicator, or of a host's part of `whole`. */
static int meet_all(struct wires *wires, struct wk_comm *comm, struct wk_comm *whole,
                    struct error *err)
{
    struct watched w = {.comm = comm, .whole = whole};
    bool alike = false;
    int rc = 0;
    if (wk_comm_world(comm) > 1) {
        rc = compare(wires, comm, &alike, err);
        if (!rc && alike)
            rc = open_all(wires, &w, err);
        if (rc || !w.wire)
            return rc;
    }
    insist(wires->n < WIRES_MAX);
    wires->list[wires->n++] = w;
    return 0;
}

/* What this generation's data does not do, once. */
static void remark_on_hosts(struct wires *wires, const char *what, const char *why)
{
    if (!wires->hosts.remarked)
        remark(&wires->options, what, why);
    wires->hosts.remarked = true;
}

/* Every host has its wire, or none keeps it. */
static int agree_on_hosts(struct wires *wires, struct wk_comm *whole, struct error *err)
{
    int32_t works = wires_have(wires, hosts_find(&wires->hosts, whole).inside);
    int rc = outcome(whole, wk_all_reduce(whole, &works, 1, WK_I32, WK_MIN, NULL), err);
    if (rc || works)
        return rc;
    wires_close(wires, whole);
    remark_on_hosts(wires, DATA, "on a host the ranks' devices have no collectives of their own");
    return 0;
}

static int meet_by_hosts(struct wires *wires, struct wk_comm *whole, struct error *err)
{
    const char *misfit = hosts_misfit(whole);
    if (misfit) {
        remark_on_hosts(wires, DATA, misfit);
        return 0;
    }
    int rc = hosts_split(&wires->hosts, whole, err);
    if (!rc)
        rc = meet_all(wires, hosts_find(&wires->hosts, whole).inside, whole, err);
    if (!rc)
        rc = agree_on_hosts(wires, whole, err);
    if (!rc && !wires->options.fast && wires_hosts(wires, whole).inside)
        remark_on_hosts(wires, "data of sums",
                        "collectives.between is tcp, and collectives.sums is ordered; fast ones "
                        "would be made within each host first");
    return rc;
}

int wires_meet(struct wires *wires, struct wk_comm *comm, struct error *err)
{
    if (!wires || wires_have(wires, comm) || hosts_find(&wires->hosts, comm).inside)
        return 0;
    if (wires->options.by_hosts && !wires->options.off && hosts_several(comm))
        return meet_by_hosts(wires, comm, err);
    return meet_all(wires, comm, NULL, err);
}

struct hosts_pair wires_hosts(const struct wires *wires, const struct wk_comm *comm)
{
    struct hosts_pair pair = wires ? hosts_find(&wires->hosts, comm) : (struct hosts_pair){0};
    return wires_have(wires, pair.inside) ? pair : (struct hosts_pair){0};
}

bool wires_fast(const struct wires *wires)
{
    return wires && wires->options.fast;
}

static const struct watched *wire_of(const struct wires *wires, const struct wk_comm *comm)
{
    for (int i = 0; wires && i < wires->n; i++)
        if (wires->list[i].comm == comm)
            return &wires->list[i];
    return NULL;
}

bool wires_have(const struct wires *wires, const struct wk_comm *comm)
{
    return wire_of(wires, comm);
}

struct queue *wires_queue(const struct wires *wires)
{
    return wires->line;
}

int wires_failure(const struct wires *wires)
{
    return wires ? atomic_load(&wires->watch.failure) : 0;
}

/* Of those that the watch no longer looks at. What works ends, and its ranks close together. */
static void close_some(struct wires *wires, const struct watched *some, int n)
{
    struct device_wire *open[WIRES_MAX] = {0};
    int n_open = 0;
    for (int i = 0; i < n; i++)
        if (some[i].wire)
            open[n_open++] = some[i].wire;
    if (wires_failure(wires))
        watch_abort(&wires->watch, open, n_open);
    for (int i = 0; i < n_open; i++)
        wires->ops->close(open[i]);
}

static void close_one(struct wires *wires, const struct wk_comm *comm)
{
    for (int i = 0; wires && i < wires->n; i++) {
        struct watched closed = wires->list[i];
        if (closed.comm != comm)
            continue;
        (void)queue_finish(wires->line, NULL);
        watch_remove(&wires->watch, comm);
        wires->list[i] = wires->list[--wires->n];
        close_some(wires, &closed, 1);
        return;
    }
}

void wires_close(struct wires *wires, const struct wk_comm *comm)
{
    struct wk_comm *inside = wires_hosts(wires, comm).inside;
    close_one(wires, inside ? inside : comm);
    if (wires)
        hosts_close(&wires->hosts, comm);
}

void wires_leave(struct wires *wires)
{
    if (!wires || (!wires->n && !wires->hosts.n))
        return;
    (void)queue_finish(wires->line, NULL);
    watch_end(&wires->watch);
    close_some(wires, wires->list, wires->n);
    wires->n = 0;
    hosts_close_all(&wires->hosts);
    wires->hosts.remarked = false;
    atomic_store(&wires->watch.failure, 0);
}

/* All ranks share their memory, or none does. The code of the communicator. */
static int agree_to_share(struct wires *wires, const struct watched *w, struct wire_memory *memory)
{
    int64_t bytes = (int64_t)memory->bytes;
    bool shares = wires->ops->shares && !wires->unshared && wires->ops->shares(w->wire, memory->at);
    int64_t least[] = {shares, bytes, -bytes};
    int rc = wk_all_reduce(w->comm, least, 3, WK_I64, WK_MIN, NULL);
    memory->shared = least[0] && least[1] == -least[2];
    return rc;
}

/* Memory cannot be shared here: the ranks open another wire, for which they do not try. */
static int open_again(struct wires *wires, struct watched *w, const struct error *why)
{
    struct error sentence = {0};
    (void)error_set(&sentence, WK_EUNAVAILABLE, "the ranks' devices do not share memory: %s",
                    *why->text ? why->text : "one of the others could not");
    if (wires->options.remark)
        wires->options.remark(wires->options.arg, sentence.text);
    wires->unshared = true;
    if (w->wire)
        close_unwatched(wires, w);
    int rc = open_all(wires, w, NULL);
    if (!w->wire)
        *w = wires->list[--wires->n];
    return rc;
}

/* As at an opening, it waits for all ranks, for the communicator's failure, or the deadline. A rank
 * on which it fails aborts its wire at once: others' devices may notice. */
static int enroll_shared(struct wires *wires, struct watched *w, const struct wire_memory *memory)
{
    struct error why = {0};
    int lost = 0;
    watch_remove(&wires->watch, w->comm);
    int rc = wires->ops->enroll(w->wire, memory, &why);
    if (!rc)
        rc = await(wires, w, &lost, &why);
    if (rc && !lost)
        close_unwatched(wires, w);
    int32_t works = !rc;
    rc = lost ? lost : wk_all_reduce(w->comm, &works, 1, WK_I32, WK_MIN, NULL);
    if (!rc && !works)
        return open_again(wires, w, &why);
    if (w->wire)
        return watch_add(&wires->watch, w, NULL);
    *w = wires->list[--wires->n];
    return rc;
}

static void enroll_with(struct wires *wires, struct wk_comm *comm, void *at, size_t bytes)
{
    struct watched *w = (struct watched *)(uintptr_t)wire_of(wires, comm);
    struct wire_memory memory = {at, bytes, false};
    if (!w || !w->wire || !wires->ops->enroll || agree_to_share(wires, w, &memory))
        return;
    if (memory.shared)
        (void)enroll_shared(wires, w, &memory);
    else
        (void)wires->ops->enroll(w->wire, &memory, NULL);
}

void wires_enroll(struct wires *wires, struct wk_comm *comm, void *at, size_t bytes)
{
    struct wk_comm *inside = wires_hosts(wires, comm).inside;
    enroll_with(wires, inside ? inside : comm, at, bytes);
    if (inside && wires->ops->enroll) /* one that fails at that is opened again, or closed */
        (void)agree_on_hosts(wires, comm, NULL);
}

void wires_note_stop(const struct wires *wires, struct queue *queue, double *finite)
{
    if (wires && wires->watch.runs)
        note_stop(queue, &(struct note_stop_args){wires->stop, finite});
}

static int pass(struct wires *wires, const struct watched *w, const struct wire_message *message,
                struct error *err)
{
    if (!message->count)
        return 0;
    return wires->ops->enqueue(w->wire, wires->line, message, err);
}

/* Rows [world, count] of the ranks into memory of their own, and their sum to `out`. */
static int sum_rows(struct wires *wires, const struct watched *w, const struct wires_call *call,
                    const struct wire_message *rows, void *out, struct error *err)
{
    int world = wk_comm_world(w->comm);
    struct wire_message message = *rows;
    if (!rows->count)
        return 0;
    size_t bytes = (size_t)world * rows->count * wk_dtype_bytes(rows->type);
    int rc = scratch_reserve(wires->device, &wires->scratch, bytes, &message.out, err);
    if (!rc)
        rc = pass(wires, w, &message, err);
    if (!rc)
        rank_sums(wires->line,
                  &(struct rank_sums_args){message.out, out, rows->count, world, call->type,
                                           call->out_type, call->as_float});
    return rc;
}

/* Equal pieces are summed by one rank each; the rest, a few elements, by every rank. */
static int sum_in_order(struct wires *wires, const struct watched *w, const struct wires_call *call,
                        struct error *err)
{
    size_t world = (size_t)wk_comm_world(w->comm), rank = (size_t)wk_comm_rank(w->comm);
    size_t piece = call->count / world / PIECE_ALIGN * PIECE_ALIGN, whole = piece * world;
    size_t in_size = wk_dtype_bytes(call->type), out_size = wk_dtype_bytes(call->out_type);
    char *out = call->out, *own = out + rank * piece * out_size;
    const char *in = call->in;
    const struct wire_message pieces = {WIRE_EXCHANGE, in, NULL, piece, call->type, 0};
    const struct wire_message rest = {WIRE_GATHER,         in + whole * in_size, NULL,
                                      call->count - whole, call->type,           0};
    const struct wire_message sums = {WIRE_GATHER, own, out, piece, call->out_type, 0};
    int rc = sum_rows(wires, w, call, &pieces, own, err);
    if (!rc)
        rc = sum_rows(wires, w, call, &rest, out + whole * out_size, err);
    if (rc)
        return rc;
    return pass(wires, w, &sums, err);
}

static bool is_narrow(enum wk_dtype type)
{
    return type == WK_F16 || type == WK_BF16;
}

/* Sums that the device may make: of integers, exactly; of floats, where that was set. Sums of
 * narrow types would be rounded on their way. */
static bool device_sums(const struct wires *wires, const struct wires_call *call)
{
    if (call->type == WK_F32)
        return wires->options.fast && call->out_type == WK_F32;
    return call->type != WK_F64 && !is_narrow(call->type);
}

static int sum(struct wires *wires, const struct watched *w, const struct wires_call *call,
               struct error *err)
{
    const struct wire_message message = {call->op,    call->in,   call->out,
                                         call->count, call->type, call->root};
    const struct wire_message rows = {WIRE_EXCHANGE, call->in, NULL, call->count, call->type, 0};
    if (device_sums(wires, call))
        return pass(wires, w, &message, err);
    return call->op == WIRE_SUM ? sum_in_order(wires, w, call, err)
                                : sum_rows(wires, w, call, &rows, call->out, err);
}

static bool is_sum(const struct wires_call *call)
{
    return call->op == WIRE_SUM || call->op == WIRE_SCATTER;
}

/* The collective of a single rank. */
static void copy_alone(struct wires *wires, const struct wires_call *call)
{
    if (is_sum(call) && call->out_type != call->type)
        rank_sums(wires->line, &(struct rank_sums_args){call->in, call->out, call->count, 1,
                                                        call->type, call->out_type, false});
    else if (call->in != call->out)
        queue_copy(wires->line, call->out, call->in, call->count * wk_dtype_bytes(call->type));
}

/* The watch may not have seen the failure of the communicator yet. */
static int failure_of(const struct wires *wires, const struct watched *w)
{
    struct wk_comm_status status = {0};
    if (w->whole)
        wk_comm_status(w->whole, &status);
    return wires_failure(wires) ? wires_failure(wires) : status.failure;
}

int wires_enqueue(struct wires *wires, const struct wires_call *call, struct error *err)
{
    const struct watched *w = wire_of(wires, call->comm);
    const struct wire_message message = {call->op,    call->in,   call->out,
                                         call->count, call->type, call->root};
    insist(w);
    int rc = failure_of(wires, w);
    if (rc)
        return outcome(call->comm, rc, err);
    if (!call->count)
        return 0;
    if (!w->wire)
        copy_alone(wires, call);
    else
        rc = is_sum(call) ? sum(wires, w, call, err) : pass(wires, w, &message, err);
    /* What was refused because of the abort has the reason of the abort. */
    if (rc && wires_failure(wires))
        return outcome(call->comm, wires_failure(wires), err);
    if (rc)
        return rc;
    return device_failure(wires->device, err);
}
