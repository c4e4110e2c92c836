#include "libworker/device/replay.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "libworker/device/replay_ops.h"

/* A sequence with all arguments. */
struct record {
    const void *owner;
    struct replay_work *works; /* [n]; args are set when they are used */
    size_t *args_at;           /* [n]: in args */
    unsigned char *args;
    int n, works_capacity, args_at_capacity;
    size_t args_bytes, args_capacity;
    uint64_t first; /* digest of works[0] */
    struct device_graph *graph;
};

/* A section compares with `alive`, all equal so far, or records what it enqueues:
 *
 *     n = 0 ─► COMPARES ──first difference──► RECORDS ──cut──► n = 0
 *                 └──────────────cut────────────────────────►
 */
struct replay {
    struct record *records[REPLAY_RECORDS_MAX];
    struct record *alive[REPLAY_RECORDS_MAX];
    int n_records, n_alive;
    size_t bytes; /* of all records */
    const void *owner;
    int n; /* pieces of the sequence so far */
    bool records_it;
    struct record *written; /* while it records; NULL: no memory for it */
    long repeated;          /* sequences since all were dropped */
    struct replay_counts counts;
    struct error refused;
};

enum device_graphs device_graphs_of(const char *setting)
{
    return strcmp(setting, "on") == 0     ? DEVICE_GRAPHS_ON
           : strcmp(setting, "auto") == 0 ? DEVICE_GRAPHS_AUTO
                                          : DEVICE_GRAPHS_OFF;
}

void device_choose_graphs(struct device *device, enum device_graphs choice)
{
    device->graphs = choice;
}

enum device_graphs device_graphs(const struct device *device)
{
    return device->ops->replays ? device->graphs : DEVICE_GRAPHS_OFF;
}

bool replay_pays(enum device_graphs choice, double bytes)
{
    switch (choice) {
    case DEVICE_GRAPHS_ON:
        return true;
    case DEVICE_GRAPHS_AUTO:
        return bytes < REPLAY_BYTES_EACH;
    case DEVICE_GRAPHS_OFF:
        return false;
    }
    return false;
}

static void enqueue_work(struct queue *queue, const struct replay_work *work)
{
    const struct device_ops *ops = queue->device->ops;
    switch (work->kind) {
    case REPLAY_LAUNCH:
        ops->launch(queue, &work->launch);
        break;
    case REPLAY_COPY:
        ops->copy(queue, &work->copy);
        break;
    case REPLAY_FILL:
        ops->fill(queue, work->copy.to, work->byte, work->copy.bytes);
        break;
    }
}

/* FNV-1a (Fowler, Noll, Vo). Most first pieces differ in it. */
static uint64_t digest_of(const struct replay_work *work)
{
    const unsigned char *args = work->launch.args;
    uint64_t hash = 0xcbf29ce484222325u ^ (uint64_t)work->kind ^ (uintptr_t)work->copy.to;
    for (size_t i = 0; i < work->launch.args_bytes; i++)
        hash = (hash ^ args[i]) * 0x100000001b3u;
    return hash;
}

static struct replay_work work_at(const struct record *record, int i)
{
    struct replay_work work = record->works[i];
    work.launch.args = record->args + record->args_at[i];
    return work;
}

/* Ranges do not count: the device reads none. */
static bool is_equal(const struct replay_work *a, const struct replay_work *b)
{
    const struct device_launch *x = &a->launch, *y = &b->launch;
    const struct device_copy *c = &a->copy, *d = &b->copy;
    return a->kind == b->kind && a->byte == b->byte && x->name == y->name && x->run == y->run &&
           x->args_bytes == y->args_bytes && c->way == d->way && c->to == d->to &&
           c->from == d->from && c->bytes == d->bytes &&
           (!x->args_bytes || memcmp(x->args, y->args, x->args_bytes) == 0);
}

static void record_free(struct queue *queue, struct record *record)
{
    if (!record)
        return;
    if (record->graph)
        queue->device->ops->replays->free(queue, record->graph);
    free(record->works);
    free(record->args_at);
    free(record->args);
    free(record);
}

/* A place for `bytes` more of arguments. */
static bool args_reserve(struct record *record, size_t bytes)
{
    size_t wanted = record->args_bytes + bytes;
    if (wanted <= record->args_capacity)
        return true;
    unsigned char *args = realloc(record->args, 2 * wanted);
    if (!args)
        return false;
    record->args = args;
    record->args_capacity = 2 * wanted;
    return true;
}

static size_t aligned(size_t args_bytes)
{
    enum { ALIGN = 16 };
    return (args_bytes + ALIGN - 1) / ALIGN * ALIGN;
}

size_t replay_work_bytes(size_t args_bytes)
{
    return sizeof(struct replay_work) + aligned(args_bytes);
}

static bool record_add(struct record *record, const struct replay_work *work)
{
    size_t bytes = aligned(work->launch.args_bytes);
    struct replay_work *works =
        array_reserve_or_null(record->works, record->n, &record->works_capacity, sizeof(*works));
    if (works)
        record->works = works;
    size_t *args_at = array_reserve_or_null(record->args_at, record->n, &record->args_at_capacity,
                                            sizeof(*args_at));
    if (args_at)
        record->args_at = args_at;
    if (!works || !args_at || !args_reserve(record, bytes))
        return false;
    works[record->n] = *work;
    works[record->n].launch.ranges = NULL;
    works[record->n].launch.n_ranges = 0;
    args_at[record->n] = record->args_bytes;
    if (work->launch.args_bytes)
        memcpy(record->args + record->args_bytes, work->launch.args, work->launch.args_bytes);
    record->args_bytes += bytes;
    if (!record->n)
        record->first = digest_of(work);
    record->n++;
    return true;
}

/* While it records. Without memory the sequence is enqueued all the same. */
static void write_down(struct queue *queue, const struct replay_work *work)
{
    struct replay *r = queue->replay;
    if (!r->written || record_add(r->written, work))
        return;
    record_free(queue, r->written);
    r->written = NULL;
}

/* From here on this sequence is a new one. Its first pieces, held back until now, are those of
 * `like`. */
static void begin_record(struct queue *queue, const struct record *like)
{
    struct replay *r = queue->replay;
    r->records_it = true;
    r->written = calloc(1, sizeof(*r->written));
    if (r->written)
        r->written->owner = r->owner;
    for (int i = 0; i < r->n; i++) {
        struct replay_work work = work_at(like, i);
        enqueue_work(queue, &work);
        write_down(queue, &work);
    }
}

/* At the first piece: those of the owner that begin with it. */
static void find_alive(struct replay *r, const struct replay_work *work)
{
    uint64_t first = digest_of(work);
    r->n_alive = 0;
    for (int i = 0; i < r->n_records; i++) {
        struct record *record = r->records[i];
        if (record->owner != r->owner || record->first != first)
            continue;
        struct replay_work has = work_at(record, 0);
        if (is_equal(&has, work))
            r->alive[r->n_alive++] = record;
    }
}

/* Those that go on with this piece. False, and they stay, if there is none. */
static bool keep_alive(struct replay *r, const struct replay_work *work)
{
    int n = 0;
    for (int i = 0; i < r->n_alive; i++) {
        struct record *record = r->alive[i];
        if (r->n >= record->n)
            continue;
        struct replay_work has = work_at(record, r->n);
        if (!is_equal(&has, work))
            continue;
        r->alive[i] = r->alive[n];
        r->alive[n++] = record;
    }
    if (n)
        r->n_alive = n;
    return n > 0;
}

static bool is_known(struct replay *r, const struct replay_work *work)
{
    if (r->n)
        return keep_alive(r, work);
    find_alive(r, work);
    return r->n_alive > 0;
}

void replay_take(struct queue *queue, const struct replay_work *work)
{
    struct replay *r = queue->replay;
    if (!r->records_it && !is_known(r, work))
        begin_record(queue, r->n ? r->alive[0] : NULL);
    if (r->records_it) {
        enqueue_work(queue, work);
        write_down(queue, work);
    }
    if (++r->n == REPLAY_WORKS_MAX)
        replay_cut(queue);
}

/* The recorded sequence is one that may repeat. */
static void keep_record(struct queue *queue)
{
    struct replay *r = queue->replay;
    struct record *record = r->written;
    r->written = NULL;
    if (!record || record->n < REPLAY_WORKS_LEAST || r->n_records == REPLAY_RECORDS_MAX) {
        record_free(queue, record);
        return;
    }
    r->records[r->n_records++] = record;
    r->bytes += record->args_capacity + (size_t)record->works_capacity * sizeof(*record->works);
    r->counts.recorded++;
}

static void enqueue_all(struct queue *queue, const struct record *record)
{
    for (int i = 0; i < record->n; i++) {
        struct replay_work work = work_at(record, i);
        enqueue_work(queue, &work);
    }
}

/* A device that refuses once is not asked again. */
static void capture(struct queue *queue, struct record *record)
{
    struct replay *r = queue->replay;
    const struct replay_ops *ops = queue->device->ops->replays;
    int rc = ops->capture_begin(queue, &r->refused);
    if (!rc) {
        enqueue_all(queue, record);
        rc = ops->capture_end(queue, &record->graph, &r->refused);
    }
    if (rc)
        r->counts.refused = &r->refused;
    else
        r->counts.captured++;
}

static void repeat(struct queue *queue, struct record *record)
{
    struct replay *r = queue->replay;
    r->repeated++;
    if (!record->graph && !r->counts.refused && !queue->device->code)
        capture(queue, record);
    if (!record->graph) {
        enqueue_all(queue, record);
        return;
    }
    queue->device->ops->replays->enqueue(queue, record->graph);
    r->counts.replayed++;
    r->counts.works += record->n;
}

/* The sequence was held back to here: it is a whole one, or the beginning of others. */
static void end_compared(struct queue *queue)
{
    struct replay *r = queue->replay;
    for (int i = 0; i < r->n_alive; i++) {
        if (r->alive[i]->n == r->n) {
            repeat(queue, r->alive[i]);
            return;
        }
    }
    begin_record(queue, r->alive[0]);
    keep_record(queue);
}

void replay_cut(struct queue *queue)
{
    struct replay *r = queue->replay;
    if (r->records_it)
        keep_record(queue);
    else if (r->n)
        end_compared(queue);
    r->n = r->n_alive = 0;
    r->records_it = false;
}

/* The queue's: NULL without memory, then nothing is repeated. */
static struct replay *replay_of(struct queue *queue)
{
    if (!queue->replay)
        queue->replay = calloc(1, sizeof(*queue->replay));
    return queue->replay;
}

static void drop_all_if_full(struct queue *queue)
{
    struct replay *r = queue->replay;
    if (r->n_records < REPLAY_RECORDS_MAX && r->bytes < REPLAY_BYTES_MAX)
        return;
    r->counts.gives_up = r->repeated < r->n_records;
    replay_drop(queue, NULL);
}

void replay_begin(struct queue *queue, const void *owner)
{
    if (device_graphs(queue->device) == DEVICE_GRAPHS_OFF || !replay_of(queue))
        return;
    insist(!queue->in_section);
    drop_all_if_full(queue);
    struct replay *r = queue->replay;
    if (r->counts.gives_up || r->counts.refused)
        return;
    r->owner = owner;
    queue->in_section = true;
}

void replay_end(struct queue *queue)
{
    if (queue->in_section)
        replay_cut(queue);
    queue->in_section = false;
}

static bool is_dropped(const struct record *record, const void *owner)
{
    return !owner || record->owner == owner;
}

void replay_drop(struct queue *queue, const void *owner)
{
    struct replay *r = queue->replay;
    bool in_use = false;
    insist(!queue->in_section);
    for (int i = 0; r && i < r->n_records; i++)
        in_use |= is_dropped(r->records[i], owner) && r->records[i]->graph;
    const struct device_ops *ops = queue->device->ops;
    if (in_use)
        ops->finish(ops->record(queue));
    int n = 0;
    size_t bytes = 0;
    for (int i = 0; r && i < r->n_records; i++) {
        struct record *record = r->records[i];
        if (is_dropped(record, owner)) {
            record_free(queue, record);
            continue;
        }
        r->records[n++] = record;
        bytes += record->args_capacity + (size_t)record->works_capacity * sizeof(*record->works);
    }
    if (!r)
        return;
    r->n_records = n;
    r->bytes = bytes;
    r->repeated = n ? r->repeated : 0;
}

void replay_free(struct queue *queue)
{
    replay_drop(queue, NULL);
    free(queue->replay);
    queue->replay = NULL;
}

void replay_counted(const struct queue *queue, struct replay_counts *ret)
{
    *ret = queue->replay ? queue->replay->counts : (struct replay_counts){0};
    ret->bytes = queue->replay ? queue->replay->bytes : 0;
}
