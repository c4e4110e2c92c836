#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "libworker/nn/model.h"
#include "libworker/parallel/elements.h"
#include "libworker/parallel/reducer.h"

#define BIT(phase) (1u << REDUCER_##phase)
static const unsigned allowed[] = {
    [REDUCER_IDLE] = BIT(IDLE) | BIT(LOCAL) | BIT(SUMMING),
    [REDUCER_LOCAL] = BIT(IDLE),
    [REDUCER_SUMMING] = BIT(IDLE) | BIT(FLUSHED),
    [REDUCER_FLUSHED] = BIT(IDLE),
};
#undef BIT

static void set_phase(struct reducer *r, enum reducer_phase phase)
{
    insist(allowed[r->phase] >> phase & 1);
    r->phase = phase;
}

static void cut(struct reducer *r)
{
    ready_plan_cut(&r->plan, r->params, r->count, r->order, &r->options.sizes);
}

int reducer_init(struct reducer *r, const struct wk_model *model, struct wire *wire,
                 struct step_numbers *numbers, const struct reducer_options *options,
                 struct error *err)
{
    size_t n = (size_t)model_trained(model);
    *r = (struct reducer){.options = *options,
                          .params = model->params,
                          .n_params = model_trained(model),
                          .grads = model->grad_arena,
                          .count = model_trained_count(model),
                          .model = model,
                          .wire = wire,
                          .numbers = numbers,
                          .factor = 1};
    int rc = ready_plan_init(&r->plan, model_trained(model), err);
    if (rc)
        return rc;
    r->parts = calloc(n, sizeof(*r->parts));
    r->works = calloc(n, sizeof(*r->works));
    r->order = calloc(n, sizeof(*r->order));
    r->times = calloc(n, sizeof(*r->times));
    r->expected = calloc(n, sizeof(*r->expected));
    r->last = calloc(n, sizeof(*r->last));
    r->missing = calloc(n, sizeof(*r->missing));
    if (!r->parts || !r->works || !r->order || !r->times || !r->expected || !r->last ||
        !r->missing) {
        reducer_fini(r);
        return error_set(err, WK_ENOMEM, "no memory for gradient buckets");
    }
    reducer_meet(r);
    return 0;
}

void reducer_fini(struct reducer *r)
{
    ready_plan_fini(&r->plan);
    free(r->parts);
    free(r->works);
    free(r->order);
    free(r->times);
    free(r->expected);
    free(r->last);
    free(r->missing);
    *r = (struct reducer){0};
}

void reducer_set_hook(struct reducer *r, const struct grad_hook *hook)
{
    r->hook = *hook;
}

static bool on_device(const struct reducer *r)
{
    return !stages_direct(&r->wire->stages);
}

int reducer_seen(struct reducer *r, float **ret_grads, struct error *err)
{
    size_t bytes = r->count * sizeof(*r->grads);
    int rc = on_device(r) && !r->stage ? stage_reserve(&r->wire->stages, bytes, &r->stage, err) : 0;
    if (!rc)
        *ret_grads = r->stage ? r->stage->host : r->grads;
    return rc;
}

bool reducer_rests(const struct reducer *r)
{
    return on_device(r) && r->hook.plain && wk_comm_world(r->comm) == 1;
}

void reducer_meet(struct reducer *r)
{
    r->ordered = r->recorded = false;
    for (int i = 0; i < r->n_params; i++) {
        r->order[i] = r->n_params - 1 - i;
        /* The last announcements of a static graph are known only after its first pass. */
        r->expected[i] = r->options.static_graph ? INT_MAX : 1;
    }
    cut(r);
}

/* Bytes of what the hook sees. */
static size_t element(const struct reducer *r)
{
    return r->hook.low ? sizeof(*r->hook.low) : sizeof(*r->grads);
}

/* Let the hook sum a bucket. */
static void begin_bucket(struct reducer *r, int bucket)
{
    const struct ready_bucket *b = &r->plan.buckets[bucket];
    char *grads = r->stage ? r->stage->host : (char *)r->grads;
    for (int i = b->first_run; i < b->first_run + b->n_runs && !r->failure; i++) {
        const struct ready_run *run = &r->plan.runs[i];
        r->parts[i] = (struct wk_gradients){.data = (void *)(grads + run->offset * element(r)),
                                            .count = run->count,
                                            .index = i,
                                            .total = r->plan.n_runs};
        r->started_parts = i + 1;
        r->failure = r->hook.face.start(r->hook.face.arg, r->comm, &r->parts[i]);
    }
}

/* Of the buckets that are on the host. */
static void begin_fetched(struct reducer *r, int end)
{
    if (r->begun < end && !r->failure)
        r->failure = event_wait(r->fetched, &r->why);
    for (; r->begun < end; r->begun++)
        begin_bucket(r, r->begun);
}

static struct stage_copy copy_of(const struct reducer *r, const struct ready_run *run)
{
    char *grads = r->hook.low ? (char *)r->hook.low : (char *)r->grads;
    return (struct stage_copy){.device = grads + run->offset * element(r),
                               .at = run->offset * element(r),
                               .bytes = run->count * element(r)};
}

static void narrow_bucket(struct reducer *r, const struct ready_bucket *b)
{
    for (int i = b->first_run; i < b->first_run + b->n_runs; i++) {
        const struct ready_run *run = &r->plan.runs[i];
        elements_narrow(r->model, r->hook.type, r->hook.low + run->offset, r->grads + run->offset,
                        run->count);
    }
}

static void fetch_bucket(struct reducer *r, const struct ready_bucket *b)
{
    if (r->hook.low)
        narrow_bucket(r, b);
    struct event final = event_record(r->model->queue);
    for (int i = b->first_run; i < b->first_run + b->n_runs; i++) {
        struct stage_copy copy = copy_of(r, &r->plan.runs[i]);
        copy.after = final;
        stage_fetch(&r->wire->stages, r->stage, &copy);
    }
}

/* Let the device sum a bucket. */
static void sum_bucket(struct reducer *r, const struct ready_bucket *b)
{
    if (r->hook.low)
        narrow_bucket(r, b);
    struct event final = event_record(r->model->queue);
    for (int i = b->first_run; i < b->first_run + b->n_runs && !r->failure; i++) {
        void *at = copy_of(r, &r->plan.runs[i]).device;
        enum wk_dtype type = r->hook.low ? r->hook.type : WK_F32;
        const struct wire_call call = {.op = WIRE_SUM,
                                       .in = at,
                                       .out = at,
                                       .count = r->plan.runs[i].count,
                                       .type = type,
                                       .out_type = type,
                                       .ready = final};
        r->failure = wire_start(r->wire, r->comm, &call, &r->works[i]);
        r->started_parts = i + 1;
    }
}

/* Sums between hosts, of the buckets before this one. */
static void begin_works(struct reducer *r, int end)
{
    for (; r->begun < end; r->begun++) {
        const struct ready_bucket *b = &r->plan.buckets[r->begun];
        for (int i = b->first_run; i < b->first_run + b->n_runs && !r->failure; i++)
            r->failure = wire_begin(&r->works[i]);
    }
}

static void start_bucket(struct reducer *r, int bucket)
{
    const struct ready_bucket *b = &r->plan.buckets[bucket];
    for (int i = b->first_run; i < b->first_run + b->n_runs; i++) {
        const struct ready_run *run = &r->plan.runs[i];
        elements_scale(r->model, r->grads + run->offset, r->factor, run->count);
    }
    if (reducer_rests(r) || r->failure)
        return;
    if (r->by_wire) {
        sum_bucket(r, b);
        begin_works(r, bucket);
        return;
    }
    if (!r->stage) {
        begin_bucket(r, bucket);
        return;
    }
    fetch_bucket(r, b);
    begin_fetched(r, bucket);
    r->fetched = r->stage->fetched;
}

static void start_due(struct reducer *r)
{
    while (r->started < r->plan.n_buckets && r->missing[r->started] == 0)
        start_bucket(r, r->started++);
}

/* Of a run's sum between the levels, and of its copy as the hook's type. */
static size_t longest_stage(const struct reducer *r)
{
    size_t most = 0;
    for (int i = 0; i < r->plan.n_runs; i++)
        most = r->plan.runs[i].count > most ? r->plan.runs[i].count : most;
    return most * (sizeof(*r->grads) + (r->hook.low ? element(r) : 0));
}

/* The way of a pass that sums. */
static void choose_way(struct reducer *r)
{
    float *seen;
    r->way = wire_way(r->wire, r->comm);
    r->by_wire = (r->hook.plain || r->hook.low) && wire_sums(r->wire, r->comm);
    if (r->by_wire)
        r->wire->stage_bytes = longest_stage(r);
    if (r->way == WIRE_OWN && !r->by_wire)
        r->way = WIRE_STAGED;
    if (r->way == WIRE_STAGED && !r->by_wire && !reducer_rests(r))
        r->failure = reducer_seen(r, &seen, &r->why);
}

void reducer_begin(struct reducer *r, struct wk_comm *comm, bool last)
{
    insist(!r->started_parts);
    set_phase(r, last ? REDUCER_SUMMING : REDUCER_LOCAL);
    r->comm = comm;
    r->clock = r->started = r->started_parts = r->begun = 0;
    r->failure = 0;
    r->why = r->wire->why = (struct error){0};
    if (last)
        choose_way(r);
    memset(r->times, 0, (size_t)r->n_params * sizeof(*r->times));
    memset(r->last, 0, (size_t)r->n_params * sizeof(*r->last));
    for (int i = 0; i < r->plan.n_buckets; i++)
        r->missing[i] = 0;
    for (int i = 0; i < r->n_params; i++)
        r->missing[r->plan.bucket_of[i]] += r->expected[i] > 0;
}

void reducer_ready(struct reducer *r, int index)
{
    insist(r->phase == REDUCER_LOCAL || r->phase == REDUCER_SUMMING);
    if (++r->times[index] == 1 || r->options.static_graph)
        r->last[index] = ++r->clock;
    if (r->times[index] != r->expected[index] || r->phase == REDUCER_LOCAL)
        return;
    insist(r->missing[r->plan.bucket_of[index]] > 0);
    r->missing[r->plan.bucket_of[index]]--;
    start_due(r);
}

bool reducer_changed(const struct reducer *r)
{
    bool changed = false;
    for (int i = 0; i < r->n_params; i++)
        changed = changed || r->times[i] != r->expected[i];
    /* A pass without announcements is that of an empty share. */
    return changed && r->recorded && r->clock > 0;
}

void reducer_flush(struct reducer *r)
{
    if (r->phase == REDUCER_LOCAL)
        return;
    set_phase(r, REDUCER_FLUSHED);
    memset(r->missing, 0, (size_t)r->n_params * sizeof(*r->missing));
    start_due(r);
    if (r->by_wire)
        begin_works(r, r->started);
    else if (r->way == WIRE_STAGED && !reducer_rests(r))
        begin_fetched(r, r->started);
    if (!r->failure)
        r->failure = step_numbers_start(r->numbers, r->comm);
    if (!r->options.static_graph || r->recorded || !r->clock)
        return;
    memcpy(r->expected, r->times, (size_t)r->n_params * sizeof(*r->expected));
    r->recorded = true;
}

static int by_last(const void *a, const void *b, void *arg)
{
    const struct reducer *r = arg;
    int i = *(const int *)a, j = *(const int *)b;
    int first = r->last[i] ? r->last[i] : INT_MAX;
    int second = r->last[j] ? r->last[j] : INT_MAX;
    return first != second ? (first > second) - (first < second) : (j > i) - (j < i);
}

/* All ranks use rank 0's order. */
static int agree_order(struct reducer *r)
{
    size_t n = (size_t)r->n_params;
    qsort_r(r->order, n, sizeof(*r->order), by_last, r);
    int rc = wk_broadcast(r->comm, r->order, n, WK_I32, 0, NULL);
    if (rc)
        return rc;
    r->ordered = true;
    cut(r);
    return 0;
}

/* Its sum to the device. */
static void send_run(struct reducer *r, const struct ready_run *run)
{
    const struct stage_copy copy = copy_of(r, run);
    stage_send(&r->wire->stages, r->stage, &copy);
}

static int finish_part(struct reducer *r, int part)
{
    const struct ready_run *run = &r->plan.runs[part];
    int rc = r->by_wire ? wire_finish(&r->works[part])
                        : r->hook.face.finish(r->hook.face.arg, r->comm, &r->parts[part]);
    if (!rc && r->way == WIRE_STAGED && !r->by_wire)
        send_run(r, run);
    if (!rc && r->hook.low && on_device(r))
        elements_widen(r->model, r->hook.type, r->grads + run->offset, r->hook.low + run->offset,
                       run->count);
    return rc;
}

int reducer_drain(struct reducer *r)
{
    int rc = r->failure;
    for (int i = 0; i < r->started_parts; i++) {
        int result = finish_part(r, i);
        rc = rc ? rc : result;
    }
    int result = step_numbers_wait(r->numbers);
    r->started_parts = 0;
    set_phase(r, REDUCER_IDLE);
    return rc ? rc : result;
}

int reducer_finish(struct reducer *r)
{
    bool sums = r->phase == REDUCER_FLUSHED;
    insist(sums || r->phase == REDUCER_LOCAL);
    int rc = reducer_drain(r);
    if (rc || !sums || r->ordered)
        return rc;
    return agree_order(r);
}
