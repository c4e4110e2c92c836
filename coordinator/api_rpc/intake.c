#include "coordinator/api_rpc/intake.h"

#include <math.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/name.h"
#include "common/base/str.h"

int intake_name(const char *name, const char *field, struct error *err)
{
    if (name_valid(name))
        return 0;
    error_set(err, E_INVALID_ARGUMENT,
              "'%.80s' is no name: 1 to %d of a-z 0-9 - ., not starting with - or .", name,
              NAME_LENGTH_MAX);
    error_field(err, "%s", field);
    return E_INVALID_ARGUMENT;
}

static int refuse_field(const char *field, const char *what, struct error *err)
{
    error_set(err, E_INVALID_ARGUMENT, "%s: %s", field, what);
    error_field(err, "%s", field);
    return E_INVALID_ARGUMENT;
}

static int intake_labels(const Muster__RegisterNodeRequest *message, struct node *ret,
                         struct error *err)
{
    if (message->n_labels > NODE_LABELS_MAX)
        return refuse_field("labels", "too many", err);
    for (size_t i = 0; i < message->n_labels; i++) {
        struct label *label = &ret->labels[i];
        if (str_copy(label->key, sizeof(label->key), message->labels[i]->key) ||
            str_copy(label->value, sizeof(label->value), message->labels[i]->value))
            return refuse_field("labels", "a key or value is longer than 63 bytes", err);
    }
    ret->labels_count = (int)message->n_labels;
    return 0;
}

/* Links of an agent that knows more words than this coordinator lack those. */
static void intake_row(const char *from, int gpus, struct gpu *ret)
{
    uint8_t links[GPU_LINKS_MAX];
    (void)gpu_links_read(from, links);
    gpu_links_write(links, gpus, ret->links);
}

static void intake_place(const Muster__Gpu *from, int gpus, struct gpu *ret)
{
    intake_row(from->links, gpus, ret);
    ret->nvswitch = from->nvswitch;
    ret->pcie_generation = (int)(from->pcie_generation & 0xff);
    ret->pcie_lanes = (int)(from->pcie_lanes & 0xff);
    ret->numa_place = from->numa_node_known_case ? (int)(from->numa_node & 0xff) + 1 : 0;
}

static int intake_gpus(const Muster__RegisterNodeRequest *message, struct arena *arena,
                       struct node *ret, struct error *err)
{
    if (message->n_gpus > NODE_GPUS_MAX)
        return refuse_field("gpus", "too many", err);
    ret->gpus = arena_array(arena, message->n_gpus, sizeof(*ret->gpus));
    if (!ret->gpus)
        return error_set(err, E_RESOURCE_EXHAUSTED, "gpus: the registration is too large");
    for (size_t i = 0; i < message->n_gpus; i++) {
        const Muster__Gpu *from = message->gpus[i];
        struct gpu *gpu = &ret->gpus[i];
        gpu->index = (int)(from->index & 0xffff);
        gpu->memory_bytes = (int64_t)(from->memory_bytes & INT64_MAX);
        gpu->instance = from->instance;
        gpu->persistent = from->persistent;
        gpu->exclusive = from->exclusive;
        gpu->nvlinks = from->nvlinks_known_case ? (int)(from->nvlinks & 0xff) : -1;
        intake_place(from, (int)message->n_gpus, gpu);
        (void)str_copy(gpu->model, sizeof(gpu->model), from->model);
        (void)str_copy(gpu->uuid, sizeof(gpu->uuid), from->uuid);
    }
    ret->gpus_count = (int)message->n_gpus;
    return 0;
}

static void intake_reading(const Muster__GpuReading *from, struct gpu_now *ret)
{
    const uint32_t most = 1 << 20;
    bool used = from->used_percent_known_case && from->used_percent <= 100;
    *ret = (struct gpu_now){
        .known = true,
        .lost = from->lost,
        .slowed_by_power = from->slowed_by_power,
        .slowed_by_heat = from->slowed_by_heat,
        .used_percent = used ? (int8_t)from->used_percent : -1,
        .temperature_c = (int)(from->temperature_c % most),
        .power_w = (int)(from->power_w % most),
        .xid = (int)(from->xid % most),
        .memory_used_bytes = (int64_t)(from->memory_used_bytes & INT64_MAX),
        .ecc_errors = (int64_t)(from->ecc_errors & INT64_MAX),
    };
}

int intake_readings(const Muster__NodeReport *message, struct gpu_now ret[NODE_GPUS_MAX])
{
    size_t count = message->n_gpus < NODE_GPUS_MAX ? message->n_gpus : NODE_GPUS_MAX;
    for (size_t i = 0; i < count; i++)
        intake_reading(message->gpus[i], &ret[i]);
    return (int)count;
}

int intake_links(const Muster__NodeReport *message, struct arena *arena, const struct gpu **ret)
{
    size_t count = message->n_gpu_links;
    struct gpu *all = count <= NODE_GPUS_MAX ? arena_array(arena, count, sizeof(*all)) : NULL;
    for (size_t i = 0; all && i < count; i++) {
        const Muster__GpuLinks *from = message->gpu_links[i];
        all[i].nvlinks = from->nvlinks_known_case ? (int)(from->nvlinks & 0xff) : -1;
        all[i].nvswitch = from->nvswitch;
        intake_row(from->links, (int)count, &all[i]);
    }
    *ret = all;
    return all ? (int)count : 0;
}

int intake_held(const Muster__NodeReport *message, struct slot_held ret[NODE_GPUS_MAX])
{
    int count = 0;
    for (size_t i = 0; i < message->n_held && count < NODE_GPUS_MAX; i++)
        if (message->held[i]->slot < NODE_GPUS_MAX)
            ret[count++] = (struct slot_held){
                (int)message->held[i]->slot, (int64_t)(message->held[i]->memory_bytes & INT64_MAX)};
    return count;
}

int intake_node(const Muster__RegisterNodeRequest *message, struct arena *arena, struct node *ret,
                struct error *err)
{
    enum { CPUS_MAX = 65536, PORT_MAX = 65535 };
    int rc = intake_name(message->name, "name", err);
    if (rc)
        return rc;
    if (message->slots > NODE_SLOTS_MAX)
        return refuse_field("slots", "more than a node may have", err);
    if (!(message->cpus >= 0 && message->cpus <= CPUS_MAX))
        return refuse_field("cpus", "out of range", err);
    if (message->memory_bytes > INT64_MAX)
        return refuse_field("memory_bytes", "out of range", err);
    if (message->port_first > message->port_last || message->port_last > PORT_MAX)
        return refuse_field("port_first", "no range of ports", err);
    if (message->incarnation == 0)
        return refuse_field("incarnation", "must not be 0", err);
    (void)str_copy(ret->name, sizeof(ret->name), message->name);
    if (str_copy(ret->address, sizeof(ret->address), message->address))
        return refuse_field("address", "too long", err);
    (void)str_copy(ret->version, sizeof(ret->version), message->version);
    (void)str_copy(ret->unenforced, sizeof(ret->unenforced), message->unenforced);
    ret->incarnation = message->incarnation;
    ret->slots = (int)message->slots;
    ret->cpus_milli = (int)lround(message->cpus * 1000);
    ret->memory_bytes = (int64_t)message->memory_bytes;
    ret->port_first = (int)message->port_first;
    ret->port_last = (int)message->port_last;
    rc = intake_labels(message, ret, err);
    if (rc)
        return rc;
    return intake_gpus(message, arena, ret, err);
}

static int worker_state(Muster__Worker__State state, enum worker_state *ret, struct error *err)
{
    switch (state) {
    case MUSTER__WORKER__STATE__assigned:
        *ret = WORKER_ASSIGNED;
        return 0;
    case MUSTER__WORKER__STATE__starting:
        *ret = WORKER_STARTING;
        return 0;
    case MUSTER__WORKER__STATE__joined:
        *ret = WORKER_JOINED;
        return 0;
    case MUSTER__WORKER__STATE__stopping:
        *ret = WORKER_STOPPING;
        return 0;
    case MUSTER__WORKER__STATE__exited:
        *ret = WORKER_EXITED;
        return 0;
    case MUSTER__WORKER__STATE__running: /* reported about workers, never by their agents */
    case MUSTER__WORKER__STATE__unknown:
    case _MUSTER__WORKER__STATE_IS_INT_SIZE:
        break;
    }
    return error_set(err, E_INVALID_ARGUMENT, "unknown worker state %d", (int)state);
}

static const struct exit_info *intake_exit(const Muster__Exit *from, struct arena *arena)
{
    struct exit_info *ret = arena_zalloc(arena, sizeof(*ret));
    if (!ret || !from)
        return ret;
    ret->code = from->code;
    ret->signal = from->signal;
    ret->oom = from->oom;
    ret->lost = from->lost;
    ret->wall_ms = from->wall_ms;
    (void)str_copy(ret->text, sizeof(ret->text), from->text);
    (void)str_copy(ret->last_output, sizeof(ret->last_output), from->last_output);
    return ret;
}

static const struct collective_wait *intake_wait(const Muster__Wait *from, struct arena *arena)
{
    struct collective_wait *ret = arena_zalloc(arena, sizeof(*ret));
    if (!ret)
        return NULL;
    (void)str_copy(ret->communicator, sizeof(ret->communicator), from->communicator);
    (void)str_copy(ret->operation, sizeof(ret->operation), from->operation);
    ret->sequence = from->sequence;
    ret->bytes = from->bytes > INT64_MAX ? INT64_MAX : (int64_t)from->bytes;
    ret->waited_ms = from->waited_ms;
    ret->ranks_named =
        from->n_ranks < COLLECTIVE_RANKS_MAX ? (int)from->n_ranks : COLLECTIVE_RANKS_MAX;
    if (ret->ranks_named > 0)
        memcpy(ret->ranks, from->ranks, sizeof(ret->ranks[0]) * (size_t)ret->ranks_named);
    bool more = from->ranks_count > (uint32_t)ret->ranks_named && from->ranks_count <= INT32_MAX;
    ret->ranks_count = more ? (int)from->ranks_count : ret->ranks_named;
    return ret;
}

/* Agents refuse a larger step; an agent of an older version does not. */
static uint64_t possible_step(uint64_t step)
{
    return step < STEP_MAX ? step : STEP_MAX;
}

static int intake_report(const Muster__WorkerStatus *from, struct arena *arena,
                         struct worker_report *ret, struct error *err)
{
    if (strlen(from->job) > JOB_ID_MAX || strlen(from->endpoint) > ENDPOINT_MAX ||
        from->n_lost_ranks > INTAKE_LOST_RANKS_MAX || from->n_stuck_pids > INTAKE_STUCK_PIDS_MAX)
        return error_set(err, E_INVALID_ARGUMENT, "report of worker %.40s/%llu is out of bounds",
                         from->job, (unsigned long long)from->uid);
    *ret = (struct worker_report){
        .job = from->job,
        .uid = from->uid,
        .pid = from->pid,
        .generation = from->generation,
        .joining = from->joining,
        .step = possible_step(from->step),
        .total_steps = possible_step(from->total_steps),
        .broken = from->broken,
        .endpoint = from->endpoint,
        .aware = from->aware,
        .reports = from->reports,
        .busy = from->busy,
        .reports_dropped = from->reports_dropped,
        .lost_ranks = from->lost_ranks,
        .lost_ranks_count = (int)from->n_lost_ranks,
        .start_error = from->start_error,
        .stuck_pids = from->stuck_pids,
        .stuck_count = (int)from->n_stuck_pids,
        .loss = NAN,
        .tokens_per_second = NAN,
    };
    if (from->wait && from->wait->waited_ms && !(ret->wait = intake_wait(from->wait, arena)))
        return error_set(err, E_RESOURCE_EXHAUSTED, "report is too large");
    int rc = worker_state(from->state, &ret->state, err);
    bool ended = ret->state == WORKER_EXITED || (ret->stuck_count > 0 && from->exit);
    if (rc || !ended)
        return rc;
    ret->exit = intake_exit(from->exit, arena);
    return ret->exit ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "report is too large");
}

static void add_metric(struct worker_report *report, const char *name, double value)
{
    if (strcmp(name, "loss") == 0)
        report->loss = value;
    else if (strcmp(name, "tokens_per_second") == 0)
        report->tokens_per_second = value;
    else if (strcmp(name, "checkpoint_seconds") == 0 && value >= 0)
        report->saved_once_s += value;
    else if (strcmp(name, "profile/checkpoint") == 0 && value >= 0)
        report->saved_s += (value - report->saved_s) / ++report->saved_samples;
}

/* Samples name a job, not a worker: add them to its first worker here. */
static void add_metrics(const struct intake_workers *from, struct worker_report *reports, int count)
{
    for (size_t i = 0; i < from->metrics_count; i++) {
        const Muster__MetricSample *sample = from->metrics[i];
        int j = 0;
        while (j < count && strcmp(reports[j].job, sample->job) != 0)
            j++;
        if (j < count)
            add_metric(&reports[j], sample->name, sample->value);
    }
}

int intake_reports(const struct intake_workers *from, struct arena *arena,
                   struct worker_report **ret, int *ret_count, struct error *err)
{
    if (from->workers_count > INTAKE_WORKERS_MAX)
        return error_set(err, E_INVALID_ARGUMENT, "more than %d workers in one report",
                         INTAKE_WORKERS_MAX);
    struct worker_report *reports = arena_array(arena, from->workers_count, sizeof(*reports));
    if (!reports)
        return error_set(err, E_RESOURCE_EXHAUSTED, "report is too large");
    for (size_t i = 0; i < from->workers_count; i++) {
        int rc = intake_report(from->workers[i], arena, &reports[i], err);
        if (rc)
            return rc;
    }
    add_metrics(from, reports, (int)from->workers_count);
    *ret = reports;
    *ret_count = (int)from->workers_count;
    return 0;
}

int intake_checkpoint(const Muster__Checkpoint *message, struct checkpoint *ret, struct error *err)
{
    if (!message)
        return error_set(err, E_INVALID_ARGUMENT, "checkpoint: missing");
    if (!*message->path || str_copy(ret->path, sizeof(ret->path), message->path))
        return refuse_field("checkpoint.path", "empty or too long", err);
    if (message->size_bytes > INT64_MAX || message->world > INT32_MAX || message->step > STEP_MAX)
        return refuse_field("checkpoint", "out of range", err);
    ret->step = message->step;
    ret->generation = message->generation;
    ret->wall_ms = message->wall_ms;
    ret->size_bytes = (int64_t)message->size_bytes;
    ret->world = (int)message->world;
    return 0;
}
