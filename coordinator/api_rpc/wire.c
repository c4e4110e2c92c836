#include "coordinator/api_rpc/wire.h"

#include <math.h>
#include <string.h>

#include "common/rpc/message.h"
#include "coordinator/core/stall.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/reason.h"

bool wire_show_all(struct arena *arena, Muster__Reason *reason)
{
    struct buf shown;
    buf_init(&shown, sizeof((struct reason *)0)->text);
    reason_show(reason->text, NULL, "", &shown);
    char *plain = buf_failed(&shown) ? NULL : arena_strdup(arena, buf_cstr(&shown));
    buf_fini(&shown);
    if (plain)
        reason->text = plain;
    return plain;
}

Muster__Reason *wire_reason(struct arena *arena, const struct reason *reason)
{
    Muster__Reason *ret = arena_alloc(arena, sizeof(*ret));
    if (!ret)
        return NULL;
    muster__reason__init(ret);
    ret->kind = rpc_text(reason->kind);
    ret->text = rpc_text(reason->text);
    ret->node = rpc_text(reason->node);
    ret->rank = reason->rank;
    ret->hint = rpc_text(reason->hint);
    ret->output = rpc_text(reason->output);
    return ret;
}

Muster__Checkpoint *wire_checkpoint(struct arena *arena, const struct checkpoint *checkpoint)
{
    Muster__Checkpoint *ret = arena_alloc(arena, sizeof(*ret));
    if (!ret)
        return NULL;
    muster__checkpoint__init(ret);
    ret->step = checkpoint->step;
    ret->path = rpc_text(checkpoint->path);
    ret->generation = checkpoint->generation;
    ret->wall_ms = checkpoint->wall_ms;
    ret->size_bytes = (uint64_t)checkpoint->size_bytes;
    ret->world = (uint32_t)checkpoint->world;
    return ret;
}

static Muster__Exit *wire_exit(struct arena *arena, const struct exit_info *info)
{
    Muster__Exit *ret = arena_alloc(arena, sizeof(*ret));
    if (!ret)
        return NULL;
    muster__exit__init(ret);
    ret->code = info->code;
    ret->signal = info->signal;
    ret->oom = info->oom;
    ret->lost = info->lost;
    ret->text = rpc_text(info->text);
    ret->wall_ms = info->wall_ms;
    ret->last_output = rpc_text(info->last_output);
    return ret;
}

/* A program that never sends Hello counts as running when its gang is complete. */
static bool runs_unaware(const struct job *job, const struct worker *worker)
{
    const struct group *group = &job->current;
    return worker->state == WORKER_STARTING && !worker->aware && group->published &&
           worker->generation == group->generation;
}

Muster__Worker__State wire_worker_state(const struct job *job, const struct worker *worker)
{
    if (runs_unaware(job, worker))
        return MUSTER__WORKER__STATE__running;
    switch (worker->state) {
    case WORKER_ASSIGNED:
        return MUSTER__WORKER__STATE__assigned;
    case WORKER_STARTING:
        return MUSTER__WORKER__STATE__starting;
    case WORKER_JOINED:
        return MUSTER__WORKER__STATE__joined;
    case WORKER_STOPPING:
        return MUSTER__WORKER__STATE__stopping;
    case WORKER_EXITED:
        return MUSTER__WORKER__STATE__exited;
    }
    return MUSTER__WORKER__STATE__unknown;
}

static Muster__Wait *wire_wait(struct arena *arena, const struct collective_wait *wait)
{
    Muster__Wait *ret = arena_alloc(arena, sizeof(*ret));
    if (!ret)
        return NULL;
    muster__wait__init(ret);
    ret->communicator = rpc_text(wait->communicator);
    ret->operation = rpc_text(wait->operation);
    ret->sequence = wait->sequence;
    ret->bytes = (uint64_t)wait->bytes;
    ret->waited_ms = (uint32_t)wait->waited_ms;
    ret->ranks = (uint32_t *)(uintptr_t)wait->ranks;
    ret->n_ranks = (size_t)wait->ranks_named;
    ret->ranks_count = (uint32_t)wait->ranks_count;
    return ret;
}

static Muster__Worker *wire_worker(struct arena *arena, const struct job *job,
                                   const struct worker *worker)
{
    Muster__Worker *ret = arena_alloc(arena, sizeof(*ret));
    if (!ret)
        return NULL;
    muster__worker__init(ret);
    ret->uid = worker->uid;
    ret->rank = worker->rank < 0 ? 0 : (uint32_t)worker->rank;
    ret->local_rank = (uint32_t)worker->local_rank;
    ret->node = rpc_text(worker->node);
    ret->state = wire_worker_state(job, worker);
    if (worker->pid > 0) {
        ret->pid_known_case = MUSTER__WORKER__PID_KNOWN_PID;
        ret->pid = worker->pid;
    }
    if (worker->aware || worker->step > 0) {
        ret->step_known_case = MUSTER__WORKER__STEP_KNOWN_STEP;
        ret->step = worker->step;
    }
    ret->generation = worker->generation;
    ret->reports_dropped = worker->reports_dropped;
    if (worker->state == WORKER_EXITED && !(ret->exit = wire_exit(arena, &worker->exit)))
        return NULL;
    if (worker->state != WORKER_EXITED && worker->wait.waited_ms &&
        !(ret->wait = wire_wait(arena, &worker->wait)))
        return NULL;
    return ret;
}

static Muster__Job__State job_state(enum job_state state)
{
    switch (state) {
    case JOB_QUEUED:
        return MUSTER__JOB__STATE__queued;
    case JOB_STARTING:
        return MUSTER__JOB__STATE__starting;
    case JOB_RUNNING:
        return MUSTER__JOB__STATE__running;
    case JOB_REFORMING:
        return MUSTER__JOB__STATE__reforming;
    case JOB_RESTARTING:
        return MUSTER__JOB__STATE__restarting;
    case JOB_PREEMPTING:
        return MUSTER__JOB__STATE__preempting;
    case JOB_STOPPING:
        return MUSTER__JOB__STATE__stopping;
    case JOB_SUCCEEDED:
        return MUSTER__JOB__STATE__succeeded;
    case JOB_FAILED:
        return MUSTER__JOB__STATE__failed;
    case JOB_CANCELLED:
        return MUSTER__JOB__STATE__cancelled;
    }
    return MUSTER__JOB__STATE__unknown;
}

static bool wire_workers(struct arena *arena, const struct job *job, Muster__Job *ret)
{
    ret->workers = arena_pointers(arena, (size_t)job->workers_count);
    if (!ret->workers)
        return false;
    for (int i = 0; i < job->workers_count; i++) {
        if (job->workers[i].spare)
            continue;
        ret->workers[ret->n_workers] = wire_worker(arena, job, &job->workers[i]);
        if (!ret->workers[ret->n_workers])
            return false;
        ret->n_workers++;
    }
    return true;
}

static bool wire_spares(struct arena *arena, const struct job *job, Muster__Job *ret)
{
    ret->spares = arena_pointers(arena, (size_t)job->workers_count);
    for (int i = 0; ret->spares && i < job->workers_count; i++) {
        const struct worker *worker = &job->workers[i];
        if (worker->spare && worker->local_rank == 0 && worker->state != WORKER_EXITED)
            ret->spares[ret->n_spares++] = rpc_text(worker->node);
    }
    return ret->spares;
}

/* True if some rank uses or used libworker's protocol: its step 0 is then a value. */
static bool tells_steps(const struct job *job)
{
    bool tells = job->step > 0 || job->total_steps > 0;
    for (int i = 0; !tells && i < job->workers_count; i++)
        tells = job->workers[i].aware;
    return tells;
}

/* The program's reported values; others stay absent. Stores of older versions have 0 for a loss
 * that was never reported. */
static void wire_training(const struct job *job, Muster__Job *ret)
{
    if (!tells_steps(job))
        return;
    ret->step_known_case = MUSTER__JOB__STEP_KNOWN_STEP;
    ret->step = job->step;
    if (!isnan(job->loss)) {
        ret->loss_known_case = MUSTER__JOB__LOSS_KNOWN_LOSS;
        ret->loss = job->loss;
    }
    if (!isnan(job->tokens_per_second) && !job->stalled_wall_ms) {
        ret->tokens_per_second_known_case = MUSTER__JOB__TOKENS_PER_SECOND_KNOWN_TOKENS_PER_SECOND;
        ret->tokens_per_second = job->tokens_per_second;
    }
    if (job->total_steps > 0) {
        ret->total_steps_known_case = MUSTER__JOB__TOTAL_STEPS_KNOWN_TOTAL_STEPS;
        ret->total_steps = job->total_steps;
    }
}

static void wire_progress(const struct job *job, Muster__Job *ret)
{
    ret->generation = job->current.generation;
    ret->world = (uint32_t)job->current.world;
    ret->restarts = (uint32_t)job->restarts;
    ret->user = rpc_text(job->user);
    ret->node_count = (uint32_t)job->current.nodes;
    ret->submitted_wall_ms = job->submitted_wall_ms;
    ret->started_wall_ms = job->started_wall_ms;
    ret->ended_wall_ms = job->ended_wall_ms;
    ret->version = job->version;
    ret->stalled_wall_ms = job->stalled_wall_ms;
    ret->preempted_by = rpc_text(job->preempted_by);
    ret->preempted_wall_ms = job->preempted_wall_ms;
    ret->signal_wall_ms = job->signal_wall_ms;
    ret->starts_wall_ms = job->waiting ? job->starts_wall_ms : 0;
    ret->recoveries = job->recoveries;
    if (job_state_ended(job->state)) {
        ret->exit_code_known_case = MUSTER__JOB__EXIT_CODE_KNOWN_EXIT_CODE;
        ret->exit_code = job->exit_code;
    }
    if (job->last_recovery_ms > 0) {
        ret->last_recovery_ms_known_case = MUSTER__JOB__LAST_RECOVERY_MS_KNOWN_LAST_RECOVERY_MS;
        ret->last_recovery_ms = job->last_recovery_ms;
    }
}

/* The submitted spec with the node count of a later scale. A past job has no parsed spec of its
 * own. */
static Muster__JobSpec *scaled_spec(struct arena *arena, const struct job *job,
                                    Muster__JobSpec *spec)
{
    Muster__JobSpec *copy = arena_copy(arena, spec, sizeof(*spec));
    Muster__JobSpec__Range *nodes = arena_alloc(arena, sizeof(*nodes));
    if (!copy || !nodes)
        return NULL;
    muster__job_spec__range__init(nodes);
    nodes->min = (uint32_t)job->nodes_min;
    nodes->max = (uint32_t)job->nodes_max;
    nodes->spares = spec->nodes ? spec->nodes->spares : 0;
    copy->nodes = nodes;
    return copy;
}

/* The stored reason; for a stalled job the present stall instead. */
static Muster__Reason *wire_job_reason(struct arena *arena, const struct job *job)
{
    struct reason stalled;
    if (!core_stalled(job, &stalled))
        return wire_reason(arena, &job->reason);
    const struct reason *kept = arena_copy(arena, &stalled, sizeof(stalled));
    return kept ? wire_reason(arena, kept) : NULL;
}

Muster__Job *wire_job(struct arena *arena, const struct job *job, Muster__JobSpec *spec,
                      bool workers)
{
    Muster__Job *ret = arena_alloc(arena, sizeof(*ret));
    if (!ret)
        return NULL;
    muster__job__init(ret);
    ret->id = rpc_text(job->id);
    ret->spec = job->nodes_max && spec ? scaled_spec(arena, job, spec) : spec;
    if (spec && !ret->spec)
        return NULL;
    ret->state = job_state(job->state);
    ret->reason = wire_job_reason(arena, job);
    wire_training(job, ret);
    wire_progress(job, ret);
    const struct checkpoint *last = job_last_checkpoint(job);
    if (last && !(ret->last_checkpoint = wire_checkpoint(arena, last)))
        return NULL;
    if ((workers && !wire_workers(arena, job, ret)) || !wire_spares(arena, job, ret))
        return NULL;
    if (workers && job->spec) {
        ret->warnings = (char **)(uintptr_t)job->spec->warnings;
        ret->n_warnings = (size_t)job->spec->warnings_count;
    }
    return ret->reason ? ret : NULL;
}

Muster__Ledger *wire_ledger(struct arena *arena, const int64_t *ms, uint64_t rework_steps)
{
    Muster__Ledger *ret = arena_alloc(arena, sizeof(*ret));
    int64_t total_ms = 0;
    if (!ret)
        return NULL;
    muster__ledger__init(ret);
    for (int i = 0; i < LEDGER_COUNT; i++)
        total_ms += ms[i];
#define X(upper, lower) ret->lower = (double)ms[LEDGER_##upper] / 1000;
    LEDGER_PHASES(X)
#undef X
    ret->total = (double)total_ms / 1000;
    ret->rework_steps = rework_steps;
    return ret;
}

static Muster__Node__State node_state(enum node_state state)
{
    switch (state) {
    case NODE_JOINING:
        return MUSTER__NODE__STATE__joining;
    case NODE_READY:
        return MUSTER__NODE__STATE__ready;
    case NODE_CORDONED:
        return MUSTER__NODE__STATE__cordoned;
    case NODE_DRAINING:
        return MUSTER__NODE__STATE__draining;
    case NODE_DRAINED:
        return MUSTER__NODE__STATE__drained;
    case NODE_UNREACHABLE:
        return MUSTER__NODE__STATE__unreachable;
    case NODE_LOST:
        return MUSTER__NODE__STATE__lost;
    }
    return MUSTER__NODE__STATE__unknown;
}

static bool wire_labels(struct arena *arena, const struct node *node, Muster__Node *ret)
{
    size_t count = (size_t)node->labels_count;
    ret->labels = arena_pointers(arena, count);
    Muster__Node__LabelsEntry *entries = arena_array(arena, count, sizeof(*entries));
    if (!ret->labels || !entries)
        return false;
    for (size_t i = 0; i < count; i++) {
        muster__node__labels_entry__init(&entries[i]);
        entries[i].key = rpc_text(node->labels[i].key);
        entries[i].value = rpc_text(node->labels[i].value);
        ret->labels[i] = &entries[i];
    }
    ret->n_labels = count;
    return true;
}

static bool wire_reading(struct arena *arena, const struct gpu_now *from, Muster__Gpu *ret)
{
    Muster__GpuReading *now = from->known ? arena_alloc(arena, sizeof(*now)) : NULL;
    if (!now)
        return !from->known;
    muster__gpu_reading__init(now);
    if (from->used_percent >= 0) {
        now->used_percent_known_case = MUSTER__GPU_READING__USED_PERCENT_KNOWN_USED_PERCENT;
        now->used_percent = (uint32_t)from->used_percent;
    }
    now->memory_used_bytes = (uint64_t)from->memory_used_bytes;
    now->temperature_c = (uint32_t)from->temperature_c;
    now->power_w = (uint32_t)from->power_w;
    now->ecc_errors = (uint64_t)from->ecc_errors;
    now->xid = (uint32_t)from->xid;
    now->slowed_by_power = from->slowed_by_power;
    now->slowed_by_heat = from->slowed_by_heat;
    now->lost = from->lost;
    ret->now = now;
    return true;
}

static bool wire_gpu(struct arena *arena, const struct gpu *from, Muster__Gpu *ret)
{
    muster__gpu__init(ret);
    ret->index = (uint32_t)from->index;
    ret->model = rpc_text(from->model);
    ret->uuid = rpc_text(from->uuid);
    ret->memory_bytes = (uint64_t)from->memory_bytes;
    ret->instance = from->instance;
    ret->persistent = from->persistent;
    ret->exclusive = from->exclusive;
    ret->held = from->held;
    ret->held_bytes = from->held ? (uint64_t)from->held_bytes : 0;
    if (from->nvlinks >= 0) {
        ret->nvlinks_known_case = MUSTER__GPU__NVLINKS_KNOWN_NVLINKS;
        ret->nvlinks = (uint32_t)from->nvlinks;
    }
    ret->links = rpc_text(from->links);
    ret->nvswitch = from->nvswitch;
    ret->pcie_generation = (uint32_t)from->pcie_generation;
    ret->pcie_lanes = (uint32_t)from->pcie_lanes;
    if (from->numa_place) {
        ret->numa_node_known_case = MUSTER__GPU__NUMA_NODE_KNOWN_NUMA_NODE;
        ret->numa_node = (uint32_t)from->numa_place - 1;
    }
    return wire_reading(arena, &from->now, ret);
}

static bool wire_gpus(struct arena *arena, const struct node *node, Muster__Node *ret)
{
    size_t count = (size_t)node->gpus_count;
    ret->gpus = arena_pointers(arena, count);
    Muster__Gpu *gpus = arena_array(arena, count, sizeof(*gpus));
    if (!ret->gpus || !gpus)
        return false;
    bool whole = true;
    for (size_t i = 0; i < count && whole; i++) {
        whole = wire_gpu(arena, &node->gpus[i], &gpus[i]);
        ret->gpus[i] = &gpus[i];
    }
    ret->n_gpus = whole ? count : 0;
    return whole;
}

static bool wire_node_jobs(struct arena *arena, const struct node *node, Muster__Node *ret)
{
    ret->jobs = arena_pointers(arena, node->jobs.count);
    ret->uses = arena_pointers(arena, node->jobs.count);
    Muster__Node__Use *uses = arena_array(arena, node->jobs.count, sizeof(*uses));
    if (!ret->jobs || !ret->uses || !uses)
        return false;
    for (struct map_entry *e = map_first(&node->jobs); e; e = map_next(e)) {
        const struct job *job = e->value;
        Muster__Node__Use *use = &uses[ret->n_uses];
        muster__node__use__init(use);
        use->job = rpc_text(job->id);
        use->name = rpc_text(job->spec->name);
        ret->uses[ret->n_uses++] = use;
        ret->jobs[ret->n_jobs++] = use->job;
    }
    return true;
}

Muster__Node *wire_node(struct arena *arena, const struct node *node)
{
    Muster__Node *ret = arena_alloc(arena, sizeof(*ret));
    if (!ret)
        return NULL;
    muster__node__init(ret);
    ret->name = rpc_text(node->name);
    ret->state = node_state(node->state);
    ret->reason = wire_reason(arena, &node->reason);
    ret->address = rpc_text(node->address);
    ret->slots = (uint32_t)node->slots;
    ret->slots_used = (uint32_t)node->slots_used;
    ret->cpus = node->cpus_milli / 1000.0;
    ret->cpus_used = node->cpus_milli_used / 1000.0;
    ret->memory_bytes = (uint64_t)node->memory_bytes;
    ret->memory_used_bytes = (uint64_t)node->memory_bytes_used;
    ret->version = rpc_text(node->version);
    ret->unenforced = rpc_text(node->unenforced);
    ret->joined_wall_ms = node->joined_wall_ms;
    ret->seen_wall_ms = node->seen_wall_ms;
    bool whole = ret->reason && wire_labels(arena, node, ret) && wire_gpus(arena, node, ret) &&
                 wire_node_jobs(arena, node, ret);
    return whole ? ret : NULL;
}

static Muster__Node *find_node(Muster__Node *const *nodes, size_t count, const char *name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(nodes[middle]->name, name);
        if (order == 0)
            return nodes[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static void add_use(const struct job *job, const struct worker *worker, Muster__Node *node)
{
    for (size_t i = 0; node && worker->state != WORKER_EXITED && i < node->n_uses; i++)
        if (node->uses[i]->job == job->id)
            node->uses[i]->slots += (uint32_t)job->spec->resources.slots;
}

void wire_uses(const struct cluster *cluster, Muster__Node *const *nodes, size_t count)
{
    for (const struct job *job = cluster_first_active_job(cluster); job;
         job = cluster_next_active_job(cluster, job))
        for (int i = 0; i < job->workers_count; i++)
            add_use(job, &job->workers[i], find_node(nodes, count, job->workers[i].node));
}

Muster__Event *wire_event(struct arena *arena, const struct store_event *event)
{
    Muster__Event *ret = arena_alloc(arena, sizeof(*ret));
    struct store_event *copy = arena_copy(arena, event, sizeof(*event));
    if (!ret || !copy)
        return NULL;
    muster__event__init(ret);
    ret->seq = copy->seq;
    ret->wall_ms = copy->record.wall_ms;
    ret->kind = rpc_text(copy->record.kind);
    ret->job = rpc_text(copy->record.job);
    ret->node = rpc_text(copy->record.node);
    ret->generation = copy->record.generation;
    ret->from = rpc_text(copy->record.from);
    ret->to = rpc_text(copy->record.to);
    ret->reason = wire_reason(arena, &copy->record.reason);
    ret->world = (uint32_t)copy->record.world;
    return ret->reason ? ret : NULL;
}
