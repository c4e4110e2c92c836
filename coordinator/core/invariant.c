#include "coordinator/core/invariant.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/map.h"
#include "common/base/str.h"
#include "coordinator/core/limits.h"
#include "coordinator/model/cluster_nodes.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/query.h"
#include "coordinator/model/tenant.h"

#define BROKEN(err, ...) error_set(err, E_INTERNAL, __VA_ARGS__)

struct use { /* of one node, counted again from its workers */
    uint64_t slot_map[NODE_SLOTS_MAX / 64];
    int slots, cpus_milli;
    int64_t memory_bytes;
};

static int count_worker(struct use *use, const struct job *job, const struct worker *worker,
                        struct error *err)
{
    const struct resources *each = &job->spec->resources;
    for (int slot = worker->slot; slot < worker->slot + each->slots; slot++) {
        if (slot < 0 || slot >= NODE_SLOTS_MAX)
            return BROKEN(err, "job %s uses slot %d of %s", job->id, slot, worker->node);
        if (use->slot_map[slot / 64] >> (slot % 64) & 1)
            return BROKEN(err, "slot %d of node %s has two owners, one is job %s uid %llu", slot,
                          worker->node, job->id, (unsigned long long)worker->uid);
        use->slot_map[slot / 64] |= UINT64_C(1) << (slot % 64);
    }
    use->slots += each->slots;
    use->cpus_milli += each->cpus_milli;
    use->memory_bytes += each->memory_bytes;
    return 0;
}

static int check_node(const struct node *node, struct error *err)
{
    struct use use = {0};
    for (struct map_entry *e = map_first(&node->jobs); e; e = map_next(e)) {
        const struct job *job = e->value;
        bool any = false;
        for (int i = 0; i < job->workers_count; i++) {
            const struct worker *worker = &job->workers[i];
            if (!worker_living(worker) || strcmp(worker->node, node->name) != 0)
                continue;
            any = true;
            if (count_worker(&use, job, worker, err))
                return err->code;
        }
        if (!any)
            return BROKEN(err, "node %s lists job %s without a worker of it", node->name, job->id);
    }
    if (use.slots != node->slots_used || use.cpus_milli != node->cpus_milli_used ||
        use.memory_bytes != node->memory_bytes_used ||
        memcmp(use.slot_map, node->slot_map, sizeof(use.slot_map)) != 0)
        return BROKEN(err, "node %s counts %d slots used, its workers use %d", node->name,
                      node->slots_used, use.slots);
    if (!node->shrunk && (use.slots > node->slots || use.cpus_milli > node->cpus_milli ||
                          use.memory_bytes > node->memory_bytes))
        return BROKEN(err, "node %s is overfull: %d of %d slots", node->name, use.slots,
                      node->slots);
    if (node->state == NODE_LOST && use.slots > 0)
        return BROKEN(err, "lost node %s has living workers", node->name);
    return 0;
}

static int check_member(const struct cluster *cluster, const struct job *job,
                        const struct group *group, int rank, struct error *err)
{
    const struct worker *worker = job_worker(job, group->members[rank]);
    if (!worker)
        return BROKEN(err, "job %s generation %llu: rank %d is no worker", job->id,
                      (unsigned long long)group->generation, rank);
    const struct node *node = cluster_node(cluster, worker->node);
    if (!node && !job_state_ended(job->state)) /* nodes of ended jobs may be forgotten */
        return BROKEN(err, "job %s: rank %d is on no node", job->id, rank);
    bool ended = job_state_ended(job->state) || job->state == JOB_STOPPING ||
                 job->state == JOB_PREEMPTING || job->state == JOB_RESTARTING;
    bool left = group->broken || ended;
    if (!left && worker->should_stop)
        return BROKEN(err, "job %s: rank %d is a member and asked to stop", job->id, rank);
    bool finished = !worker_living(worker) && worker->exit.code == 0 && worker->exit.signal == 0 &&
                    !worker->exit.lost;
    if (!left && !finished && node->state == NODE_LOST)
        return BROKEN(err, "job %s: rank %d is on lost node %s", job->id, rank, node->name);
    for (int other = 0; other < rank; other++)
        if (group->members[other] == group->members[rank])
            return BROKEN(err, "job %s: ranks %d and %d are one worker", job->id, other, rank);
    if (group->places[rank].local_world != job->spec->workers_per_node)
        return BROKEN(err, "job %s: %d of %d workers on node %s", job->id,
                      group->places[rank].local_world, job->spec->workers_per_node, worker->node);
    return 0;
}

static int check_group(const struct cluster *cluster, const struct job *job,
                       const struct group *group, struct error *err)
{
    const struct spec *spec = job->spec;
    if (!group->generation)
        return group->world == 0 ? 0 : BROKEN(err, "job %s: a world without generation", job->id);
    if (group->world != group->nodes * spec->workers_per_node || group->nodes < spec->nodes_min ||
        group->nodes > spec->nodes_max)
        return BROKEN(err, "job %s: %d workers on %d nodes, wanted %d..%d nodes of %d", job->id,
                      group->world, group->nodes, spec->nodes_min, spec->nodes_max,
                      spec->workers_per_node);
    for (int rank = 0; rank < group->world; rank++)
        if (check_member(cluster, job, group, rank, err))
            return err->code;
    if (group->joined && !group->published)
        return BROKEN(err, "job %s: joined but not published", job->id);
    return 0;
}

static int check_state(const struct job *job, int living, struct error *err)
{
    bool current = job->current.generation != 0, forming = job->forming.generation != 0;
    bool ok = true;
    switch (job->state) {
    case JOB_QUEUED:
        ok = !current && !forming && living == 0;
        break;
    case JOB_STARTING:
        ok = !current && forming;
        break;
    case JOB_RUNNING:
        ok = current && job->current.published && !(forming && job->forming.open);
        break;
    case JOB_REFORMING:
        ok = current && forming && job->forming.open;
        break;
    case JOB_RESTARTING:
        ok = !forming && (!current || living > 0);
        break;
    case JOB_PREEMPTING:
    case JOB_STOPPING:
        ok = !forming;
        break;
    case JOB_SUCCEEDED:
    case JOB_FAILED:
    case JOB_CANCELLED:
        ok = !forming && living == 0 && job->ended_wall_ms != 0;
        break;
    }
    return ok ? 0
              : BROKEN(err, "job %s is %s with current %llu, forming %llu, %d living", job->id,
                       job_state_name(job->state), (unsigned long long)job->current.generation,
                       (unsigned long long)job->forming.generation, living);
}

/* Counts the members of the forming group that have not asked to join it, by node.
 * *ret_new_only becomes false if one of them is a survivor. */
static void count_missing(const struct job *job, int *ret_missing, bool *ret_new_only)
{
    const struct group *group = &job->forming;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (group_has_asked(worker, group->generation))
            continue;
        ret_missing[group->places[rank].node_rank]++;
        if (group_rank_of(&job->current, worker->uid) >= 0)
            *ret_new_only = false;
    }
}

static bool any_survivor_on_ready_node(const struct job *job, const int *missing)
{
    const struct group *group = &job->forming;
    for (int rank = 0; rank < group->world; rank++)
        if (missing[group->places[rank].node_rank] == 0 &&
            group_rank_of(&job->current, group->members[rank]) >= 0)
            return true;
    return false;
}

/* Survivors that fill enough nodes do not wait for the start of other workers. */
static int check_newcomers(const struct cluster *cluster, const struct job *job, struct error *err)
{
    const struct group *group = &job->forming;
    bool patient = cluster_now(cluster) < group->since_ms + NEWCOMER_PATIENCE_MS;
    bool new_only = true;
    int ready = 0;
    if (job->state != JOB_REFORMING)
        return 0;
    for (int rank = 0; rank < group->world && !job->current.broken; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (group_rank_of(&job->current, worker->uid) < 0 && worker_living(worker) &&
            !group_has_asked(worker, group->generation))
            return BROKEN(err, "job %s is asked to grow before rank %d is ready", job->id, rank);
    }
    int *missing = calloc((size_t)group->nodes, sizeof(*missing));
    insist(missing);
    count_missing(job, missing, &new_only);
    for (int node = 0; node < group->nodes; node++)
        if (missing[node] == 0)
            ready++;
    bool trains = any_survivor_on_ready_node(job, missing);
    free(missing);
    if (new_only && trains && !patient && ready >= job->spec->nodes_min && ready < group->nodes)
        return BROKEN(err, "job %s: the survivors on %d nodes wait for new workers", job->id,
                      ready);
    return 0;
}

/* A worker that trains is left out of a group that is not yet open only for a drained node. */
static int check_left(const struct cluster *cluster, const struct job *job, struct error *err)
{
    if (!job->forming.generation || job->forming.open)
        return 0;
    for (int rank = 0; rank < job->current.world; rank++) {
        const struct worker *worker = job_worker(job, job->current.members[rank]);
        const struct node *node = cluster_node(cluster, worker->node);
        bool left = group_rank_of(&job->forming, worker->uid) < 0 && !worker_finished(worker);
        if (left && (!worker_living(worker) || worker->should_stop || !node->want_drain))
            return BROKEN(err, "job %s: rank %d on %s is to be replaced, and %s", job->id, rank,
                          worker->node,
                          !worker_living(worker) ? "is dead"
                          : node->want_drain     ? "ends already"
                                                 : "its node is not drained");
    }
    return 0;
}

static int check_stray(const struct job *job, const struct worker *worker, struct error *err)
{
    if (!worker_living(worker) || worker->should_stop)
        return 0;
    if (worker->spare) {
        bool member = group_rank_of(&job->current, worker->uid) >= 0 ||
                      group_rank_of(&job->forming, worker->uid) >= 0;
        bool runs = job->state == JOB_RUNNING || job->state == JOB_REFORMING;
        return !member && runs && worker->held && !worker->pid && !worker->leaving
                   ? 0
                   : BROKEN(err, "job %s is %s and keeps spare uid %llu on %s%s", job->id,
                            job_state_name(job->state), (unsigned long long)worker->uid,
                            worker->node, member ? ", a member" : "");
    }
    if (group_rank_of(&job->current, worker->uid) < 0 &&
        group_rank_of(&job->forming, worker->uid) < 0)
        return BROKEN(err, "job %s: uid %llu lives, is no member and is not asked to stop", job->id,
                      (unsigned long long)worker->uid);
    return 0;
}

/* Each instant is charged once: the parts sum to the time since submission. */
static int check_ledger(const struct job *job, struct error *err)
{
    const struct ledger *ledger = &job->ledger;
    int64_t sum = 0;
    for (int i = 0; i < LEDGER_COUNT; i++) {
        if (ledger->ms[i] < 0)
            return BROKEN(err, "job %s: less than nothing was %s", job->id,
                          ledger_phase_name((enum ledger_phase)i));
        sum += ledger->ms[i];
    }
    if (ledger->open && sum != ledger->at_ms - ledger->begun_ms)
        return BROKEN(err, "job %s: its ledger has %lld of %lld ms", job->id, (long long)sum,
                      (long long)(ledger->at_ms - ledger->begun_ms));
    if (ledger->open && ledger->closed != job_state_ended(job->state))
        return BROKEN(err, "job %s is %s and its ledger is %s", job->id, job_state_name(job->state),
                      ledger->closed ? "closed" : "open");
    return 0;
}

static int check_job(const struct cluster *cluster, const struct job *job, struct error *err)
{
    int living = 0;
    bool begun = job->state != JOB_QUEUED && !job_state_ended(job->state);
    if (job->forming.generation && job->forming.generation <= job->current.generation)
        return BROKEN(err, "job %s forms an old generation", job->id);
    if (job->current.generation >= job->next_generation ||
        job->forming.generation >= job->next_generation)
        return BROKEN(err, "job %s: a generation beyond the next", job->id);
    if (check_group(cluster, job, &job->current, err) ||
        check_group(cluster, job, &job->forming, err))
        return err->code;
    for (int i = 0; i < job->workers_count; i++) {
        const struct worker *worker = &job->workers[i];
        living += worker_living(worker);
        if (i > 0 && job->workers[i - 1].uid >= worker->uid)
            return BROKEN(err, "job %s: workers out of order", job->id);
        if (worker->uid >= job->next_uid)
            return BROKEN(err, "job %s: a uid beyond the next", job->id);
        if (check_stray(job, worker, err))
            return err->code;
        if (begun && !cluster_node(cluster, worker->node))
            return BROKEN(err, "job %s: node %s of uid %llu is forgotten", job->id, worker->node,
                          (unsigned long long)worker->uid);
    }
    if (job->stalled_wall_ms && job->state != JOB_RUNNING)
        return BROKEN(err, "job %s is %s and reported as stalled", job->id,
                      job_state_name(job->state));
    if (check_state(job, living, err) || check_newcomers(cluster, job, err) ||
        check_left(cluster, job, err))
        return err->code;
    return check_ledger(job, err);
}

static int check_port(const struct cluster *cluster, struct strmap *ports, const struct job *job,
                      const struct group *group, struct error *err)
{
    char name[ADDRESS_MAX + 16];
    const struct node *node = cluster_node(cluster, group->master_node);
    if (!group->generation || !group->master_port || !node)
        return 0;
    (void)str_printf(name, sizeof(name), "%s|%d", node->address, group->master_port);
    if (strmap_get(ports, name))
        return BROKEN(err, "job %s shares port %s", job->id, name);
    insist(!strmap_set(ports, name, (void *)(uintptr_t)job, NULL));
    return 0;
}

/* Code that searches workers searches only these jobs. */
static int check_begun(const struct cluster *cluster, struct error *err)
{
    const struct job *begun = cluster_first_begun_job(cluster);
    for (const struct job *job = cluster_first_active_job(cluster); job;
         job = cluster_next_active_job(cluster, job)) {
        if ((job->state != JOB_QUEUED) != (job == begun))
            return BROKEN(err, "job %s is %s, and %samong the begun ones", job->id,
                          job_state_name(job->state), job == begun ? "" : "not ");
        if (job == begun)
            begun = cluster_next_begun_job(cluster, begun);
    }
    return begun ? BROKEN(err, "job %s has ended and is among the begun ones", begun->id) : 0;
}

/* Shares of join tokens are counted as nodes join and leave; here they are counted again. */
static int check_let_in(const struct cluster *cluster, struct error *err)
{
    struct strmap counts = {0};
    int rc = 0;
    for (const struct node *node = cluster_first_node(cluster); node;
         node = cluster_next_node(cluster, node)) {
        intptr_t count = (intptr_t)strmap_get(&counts, node->let_in_by);
        insist(strmap_set(&counts, node->let_in_by, (void *)(count + 1), NULL) == 0);
    }
    for (const struct map_entry *e = strmap_first(&counts); e && !rc; e = map_next(e))
        if (e->name[0] && (intptr_t)e->value != cluster_nodes_let_in_by(cluster, e->name))
            rc = BROKEN(err, "token %s let in %d nodes, counted are %d", e->name,
                        (int)(intptr_t)e->value, cluster_nodes_let_in_by(cluster, e->name));
    strmap_fini(&counts);
    return rc;
}

int invariant_check(const struct cluster *cluster, struct error *err)
{
    struct error own = {0};
    struct strmap ports = {0};
    int rc = 0;
    err = err ? err : &own;
    for (const struct node *node = cluster_first_node(cluster); node && !rc;
         node = cluster_next_node(cluster, node))
        rc = check_node(node, err);
    for (const struct job *job = cluster_first_job(cluster); job && !rc;
         job = cluster_next_job(cluster, job)) {
        rc = check_job(cluster, job, err);
        if (!rc && !job_state_ended(job->state))
            rc = check_port(cluster, &ports, job, &job->current, err);
        if (!rc && !job_state_ended(job->state))
            rc = check_port(cluster, &ports, job, &job->forming, err);
    }
    strmap_fini(&ports);
    if (!rc)
        rc = check_begun(cluster, err);
    if (rc)
        return rc;
    return check_let_in(cluster, err);
}

struct seen { /* a job after the previous step */
    enum job_state state;
    bool whole; /* its gang trains, and may re-form in place */
    uint64_t next_generation, next_uid, version, last_checkpoint, last_of, current, forming;
};

struct invariant_memory {
    struct map jobs; /* struct seen by sequence */
};

struct invariant_memory *invariant_memory_new(void)
{
    struct invariant_memory *memory = calloc(1, sizeof(*memory));
    insist(memory);
    return memory;
}

void invariant_memory_free(struct invariant_memory *memory)
{
    if (!memory)
        return;
    map_free_values(&memory->jobs);
    free(memory);
}

/* Slots of a tenant's workers that were not asked to end. */
static int staying_slots(const struct cluster *cluster, const struct tenant *tenant)
{
    int slots = 0;
    for (const struct job *job = cluster_first_active_job(cluster); job;
         job = cluster_next_active_job(cluster, job))
        for (int i = 0; job->tenant == tenant && i < job->workers_count; i++)
            if (worker_living(&job->workers[i]) && !job->workers[i].should_stop)
                slots += job->spec->resources.slots;
    return slots;
}

/* A gang covered by its tenant's guarantee does not end for another tenant. */
static int check_victim(const struct cluster *cluster, const struct job *job,
                        const struct seen *seen, struct error *err)
{
    const struct job *to = cluster_job(cluster, job->beneficiary);
    bool begins = job->state == JOB_PREEMPTING && seen->state != JOB_PREEMPTING;
    if (!begins || !to || to->tenant == job->tenant)
        return 0;
    int staying = staying_slots(cluster, job->tenant), has = job->current.nodes;
    int needs = spec_world(job->spec, 1) * job->spec->resources.slots, least = job->spec->nodes_min;
    int covered = (job->tenant->guaranteed_slots - staying) / needs;
    if (covered < (has > least ? has : least)) /* not covered, or it returns with fewer nodes */
        return 0;
    return BROKEN(err, "job %s ends for %s, though tenant %s has %d slots without, guaranteed %d",
                  job->id, to->id, job->tenant->name, staying, job->tenant->guaranteed_slots);
}

static bool is_whole(const struct job *job)
{
    const struct group *group = &job->current;
    return job->state == JOB_RUNNING && job->spec->elastic == ELASTIC_IN_PLACE && group->joined &&
           !group->broken && !job_is_finishing(job);
}

/* Nothing happened to a gang that trained, but to its nodes. */
static bool is_unharmed(const struct job *job, const struct seen *seen)
{
    bool once = job->forming.generation == seen->forming ||
                (!seen->forming && job->next_generation == seen->next_generation + 1);
    if (!seen->whole || job->current.generation != seen->current || !once)
        return false;
    for (int rank = 0; rank < job->current.world; rank++) {
        const struct worker *worker = job_worker(job, job->current.members[rank]);
        if (!worker_living(worker) || worker->leaving || worker->broken == job->current.generation)
            return false;
    }
    return true;
}

/* A gang stays on drained nodes until those that replace it there are ready, if it is too small
 * without. */
static int check_stay(const struct cluster *cluster, const struct job *job, const struct seen *seen,
                      struct error *err)
{
    const struct group *group = &job->forming;
    int stay = 0;
    const struct worker *late = NULL;
    bool over =
        job->moves_since_ms && cluster_now(cluster) >= job->moves_since_ms + MOVE_PATIENCE_MS;
    if (job->state != JOB_REFORMING || over || group->world < job->current.world ||
        !is_unharmed(job, seen))
        return 0;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        bool trains = group_rank_of(&job->current, worker->uid) >= 0;
        stay += trains;
        if (!trains && worker_living(worker) && !group_has_asked(worker, group->generation))
            late = worker;
    }
    if (!late || stay >= job->spec->nodes_min * job->spec->workers_per_node)
        return 0;
    return BROKEN(err, "job %s leaves a drained node before uid %llu on %s is ready", job->id,
                  (unsigned long long)late->uid, late->node);
}

static int check_since(const struct cluster *cluster, const struct job *job, struct seen *seen,
                       struct error *err)
{
    const struct checkpoint *last = job_last_checkpoint(job);
    uint64_t step = last ? last->step : 0;
    if (job_state_ended(seen->state) && job->state != seen->state)
        return BROKEN(err, "job %s left its end: %s to %s", job->id, job_state_name(seen->state),
                      job_state_name(job->state));
    if (job->next_generation < seen->next_generation || job->next_uid < seen->next_uid)
        return BROKEN(err, "job %s: generations or uids fell", job->id);
    if (job->version < seen->version)
        return BROKEN(err, "job %s: its version fell", job->id);
    if (check_victim(cluster, job, seen, err) || check_stay(cluster, job, seen, err))
        return err->code;
    uint64_t of = last ? last->generation : 0; /* a later one may have an older step */
    if (of < seen->last_of || (of == seen->last_of && step < seen->last_checkpoint))
        return BROKEN(err, "job %s: its last checkpoint went from step %llu to %llu", job->id,
                      (unsigned long long)seen->last_checkpoint, (unsigned long long)step);
    *seen = (struct seen){.state = job->state,
                          .next_generation = job->next_generation,
                          .next_uid = job->next_uid,
                          .version = job->version,
                          .last_checkpoint = step,
                          .last_of = of,
                          .whole = is_whole(job),
                          .current = job->current.generation,
                          .forming = job->forming.generation};
    return 0;
}

int invariant_check_since(struct invariant_memory *memory, const struct cluster *cluster,
                          struct error *err)
{
    struct error own = {0};
    size_t count = 0;
    err = err ? err : &own;
    for (const struct job *job = cluster_first_job(cluster); job;
         job = cluster_next_job(cluster, job)) {
        struct seen *seen = map_get(&memory->jobs, job->sequence);
        count++;
        if (!seen) { /* it starts in its present state: a job that was loaded did nothing */
            seen = calloc(1, sizeof(*seen));
            insist(seen);
            seen->state = job->state;
            insist(!map_set(&memory->jobs, job->sequence, seen, NULL));
        }
        if (check_since(cluster, job, seen, err))
            return err->code;
    }
    return count == memory->jobs.count
               ? 0
               : BROKEN(err, "%zu of %zu jobs are left", count, memory->jobs.count);
}

uint64_t invariant_vanished(const struct invariant_memory *memory, const struct cluster *cluster)
{
    const struct job *job = cluster_first_job(cluster);
    for (const struct map_entry *e = map_first(&memory->jobs); e; e = map_next(e)) {
        while (job && job->sequence < e->key)
            job = cluster_next_job(cluster, job);
        if (!job || job->sequence != e->key)
            return e->key;
    }
    return 0;
}

void invariant_forget(struct invariant_memory *memory, uint64_t sequence)
{
    free(map_remove(&memory->jobs, sequence));
}
