/* The consequence of a failure: which worker failed first, and whether survivors continue in place,
 * the whole gang restarts from its checkpoint, or the job ends. budget.c has the cost. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/internal.h"

/* Lower is nearer to the root cause: failed by itself, failed because a peer did, lost with its
 * node. */
static int distance(const struct worker *worker)
{
    if (worker->exit.lost)
        return 2;
    return worker->exit.signal == 0 && worker->exit.code == EXIT_PEER_LOST ? 1 : 0;
}

static bool is_nearer(const struct worker *worker, const struct worker *than)
{
    if (!than)
        return true;
    if (distance(worker) != distance(than))
        return distance(worker) < distance(than);
    return worker->exit.wall_ms < than->exit.wall_ms;
}

/* One failure kills many workers: a death in a generation that was already charged is the same
 * failure. */
static bool is_charged(const struct job *job, const struct worker *worker)
{
    return worker->born > job->charged_generation ||
           (job->current.published && job->current.generation > job->charged_generation);
}

static enum reason_kind kind_of(const struct exit_info *exit)
{
    if (exit->lost)
        return REASON_WORKER_LOST;
    if (exit->oom)
        return REASON_OUT_OF_MEMORY;
    if (exit->unstarted)
        return REASON_START_FAILED;
    if (exit->signal)
        return REASON_WORKER_FAILED;
    switch (exit->code) {
    case EXIT_NOT_FOUND:
    case EXIT_NOT_EXECUTABLE:
        return REASON_START_FAILED;
    case EXIT_CONFIG:
    case EXIT_USAGE_ERROR:
        return REASON_REFUSED;
    case EXIT_PEER_LOST:
        return REASON_PEERS_LOST;
    default:
        return REASON_WORKER_FAILED;
    }
}

/* The same program with the same settings will end in the same way. Only exit codes without another
 * meaning prove that, and only for a job that has never trained; a job that has may have met a bad
 * node. */
static bool is_hopeless(const struct job *job, const struct exit_info *exit)
{
    bool trained = job->step > 0 || job->progress_step > 0 || job->checkpoints_count > 0;
    bool telling = exit->code == EXIT_NOT_FOUND || exit->code == EXIT_NOT_EXECUTABLE ||
                   exit->code == EXIT_CONFIG || exit->code == EXIT_USAGE_ERROR;
    return telling && exit->signal == 0 && !exit->lost && !exit->oom && !trained;
}

static void hint(const struct job *job, const struct worker *worker, struct reason *ret)
{
    const struct exit_info *exit = &worker->exit;
    if (exit->oom)
        reason_hint(ret, "raise resources.memory or lower the batch size");
    else if (kind_of(exit) == REASON_REFUSED)
        reason_hint(ret, "correct the setting or option that it names, and submit it again");
    else if (kind_of(exit) == REASON_START_FAILED && exit->code == EXIT_NOT_FOUND)
        reason_hint(ret, "correct command, workdir or PATH: they must be there on every node");
    else if (kind_of(exit) == REASON_START_FAILED && exit->code == EXIT_NOT_EXECUTABLE)
        reason_hint(ret, "the worker's user must be allowed to run it (chmod +x), on every node");
    else if (!exit->lost && !exit->unstarted)
        reason_hint(ret, "`muster logs %s --rank %d` has its last words", job->id, worker->rank);
}

static void describe(const struct job *job, const struct worker *worker, struct reason *ret)
{
    const struct exit_info *exit = &worker->exit;
    reason_set(ret, kind_of(exit), "rank %d on %s: %s", worker->rank, worker->node, exit->text);
    ret->rank = worker->rank;
    (void)str_copy(ret->node, sizeof(ret->node), worker->node);
    hint(job, worker, ret);
    reason_output(ret, exit->last_output);
}

/* Its run time as far as known: it may have started in an earlier life of the coordinator. */
static int64_t time_lived(const struct step *step, const struct job *job,
                          const struct worker *worker)
{
    if (worker->started_ms)
        return step->now_ms - worker->started_ms;
    return job->running_wall_ms ? step->wall_ms - job->running_wall_ms : 0;
}

static void fail_by_worker(struct step *step, const struct job *job, const struct worker *worker,
                           struct failure *ret)
{
    const struct exit_info *exit = &worker->exit;
    const struct node *node = cluster_node(step->cluster, worker->node);
    describe(job, worker, &ret->reason);
    if (exit->lost && (!node || node->state == NODE_LOST)) {
        reason_set(&ret->reason, REASON_NODE_LOST, "node %s was lost (%.300s)", worker->node,
                   node ? node->reason.text : "unknown");
        (void)str_copy(ret->reason.node, sizeof(ret->reason.node), worker->node);
    }
    ret->charged = !exit->lost && !exit->node_fault && is_charged(job, worker);
    ret->hopeless = ret->charged && is_hopeless(job, exit);
    ret->own = !budget_excuses(exit);
    ret->lost = exit->lost;
    ret->wall_ms = exit->wall_ms;
    ret->lived_ms = time_lived(step, job, worker);
    ret->exit_code = exit->signal ? 128 + exit->signal : exit->code;
    (void)str_printf(ret->cause, sizeof(ret->cause), "%s %d %d", reason_name(kind_of(exit)),
                     exit->code, exit->signal);
}

static bool find_dead(struct step *step, const struct job *job, struct failure *ret)
{
    const struct group *group = job->forming.generation ? &job->forming : &job->current;
    const struct worker *first = NULL;
    const struct node *drained = NULL;
    bool given = false;
    bool in_current = false, excused = false;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        const struct node *node = cluster_node(step->cluster, worker->node);
        bool dead = !worker_living(worker) && !worker_finished(worker);
        bool leaves = worker_living(worker) && ((node && node->want_drain) || worker->leaving);
        if (!dead && !leaves)
            continue;
        /* A worker that ended because a peer did is no excuse: only that peer counts. */
        excused = excused ||
                  (dead && budget_excuses(&worker->exit) && worker->exit.code != EXIT_PEER_LOST);
        if (dead && is_nearer(worker, first))
            first = worker;
        if (leaves) {
            drained = node;
            given = worker->leaving;
        }
        in_current = in_current || group_rank_of(&job->current, worker->uid) >= 0;
    }
    if (!first && !drained)
        return false;
    ret->growth_only = job->current.generation && !job->current.broken && !in_current;
    if (first) {
        fail_by_worker(step, job, first, ret);
        ret->excused = excused;
        return true;
    }
    char to[REASON_NAME_MAX] = "";
    if (given)
        (void)reason_name_job(cluster_job(step->cluster, job->gives_to), job->gives_to, to);
    if (given && strcmp(job->gives_to, job->id) != 0 && job->current.nodes <= job->spec->nodes_min)
        reason_set(&ret->reason, REASON_MOVED, "moves off node %s, for which job %s waits",
                   drained->name, to);
    else if (given && strcmp(job->gives_to, job->id) != 0)
        reason_set(&ret->reason, REASON_SHRUNK, "releases node %s, for which job %s waits",
                   drained->name, to);
    else if (given)
        reason_set(&ret->reason, REASON_SCALED, "it was scaled down: node %s is given back",
                   drained->name);
    else
        reason_set(&ret->reason, REASON_NODE_DRAINED, "node %s is being emptied", drained->name);
    (void)str_copy(ret->reason.node, sizeof(ret->reason.node), drained->name);
    return true;
}

static void name_missing(const struct job *job, const struct group *group, int64_t now_ms,
                         struct failure *ret)
{
    char ranks[200] = "";
    int missing = 0, finished = 0;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (!group_waits_for(job, group, worker, now_ms))
            continue;
        size_t used = strlen(ranks);
        (void)str_printf(ranks + used, sizeof(ranks) - used, "%s%d", missing++ ? ", " : "", rank);
        finished += worker_finished(worker);
        if (missing == 1) {
            ret->reason.rank = rank;
            (void)str_copy(ret->reason.node, sizeof(ret->reason.node), worker->node);
        }
    }
    int rank = ret->reason.rank;
    struct reason named = ret->reason;
    reason_set(&ret->reason, REASON_JOIN_TIMEOUT, "rank%s %s %s generation %llu%s",
               str_plural(missing), ranks,
               finished == missing ? "finished and will not join" : "did not join",
               (unsigned long long)group->generation, finished == missing ? "" : " in time");
    ret->reason.rank = rank;
    memcpy(ret->reason.node, named.node, sizeof(named.node));
    if (finished < missing)
        reason_hint(&ret->reason, "`muster logs %s --rank %d` shows where it is", job->id, rank);
}

static bool find_late(struct step *step, const struct job *job, struct failure *ret)
{
    const struct group *group = job->forming.generation ? &job->forming : &job->current;
    if (step->now_ms < group_join_deadline(job, group))
        return false;
    name_missing(job, group, step->now_ms, ret);
    (void)str_copy(ret->cause, sizeof(ret->cause), "join_timeout");
    ret->charged = ret->whole = true;
    ret->growth_only = group == &job->forming && !group->open;
    return true;
}

static bool waits_for_lease(struct step *step, const struct job *job)
{
    for (int rank = 0; rank < job->current.world; rank++) {
        const struct worker *worker = job_worker(job, job->current.members[rank]);
        const struct node *node = cluster_node(step->cluster, worker->node);
        if (node && node->state == NODE_UNREACHABLE)
            return true;
    }
    return false;
}

static bool find_impatience(struct step *step, const struct job *job, struct failure *ret)
{
    if (job->forming.generation || step->now_ms < group_patience_ends(job))
        return false;
    ret->charged = true;
    if (job->current.broken) {
        if (waits_for_lease(step, job))
            return false;
        reason_set(&ret->reason, REASON_PEERS_LOST, "workers lost each other though none ended");
        (void)str_copy(ret->cause, sizeof(ret->cause), "peers_lost");
        return true;
    }
    reason_set(&ret->reason, REASON_FINISH_TIMEOUT,
               "some ranks finished, the others made no progress for %d s",
               FINISH_PATIENCE_MS / 1000);
    reason_hint(&ret->reason, "all ranks must take the same number of steps");
    (void)str_copy(ret->cause, sizeof(ret->cause), "finish_timeout");
    ret->whole = true;
    return true;
}

bool restart_find_failure(struct step *step, const struct job *job, struct failure *ret)
{
    *ret = (struct failure){.reason.rank = -1, .wall_ms = step->wall_ms};
    return find_dead(step, job, ret) || find_late(step, job, ret) ||
           find_impatience(step, job, ret);
}

/* Its current group stays until all have ended, because a checkpoint saved now still counts. */
void restart_again(struct step *step, struct job *job, const struct reason *reason)
{
    step_desired_group(step, job, &job->current);
    step_desired_group(step, job, &job->forming);
    for (int i = 0; i < job->workers_count; i++)
        worker_stop(step, job, &job->workers[i]);
    group_clear(step->cluster, job, &job->forming);
    step_record(step, "restart", job, reason->node, reason);
    job_set_state(step, job, JOB_RESTARTING, reason);
    step->place = true;
}

static void note_grow_failure(struct step *step, struct job *job)
{
    int64_t delay_ms = GROW_BACKOFF_MS;
    for (int i = 0; i < job->grow_failures && delay_ms < GROW_BACKOFF_MAX_MS; i++)
        delay_ms *= 2;
    job->grow_failures++;
    job->grow_after_ms =
        step->now_ms + (delay_ms < GROW_BACKOFF_MAX_MS ? delay_ms : GROW_BACKOFF_MAX_MS);
}

void restart_abandon_growth(struct step *step, struct job *job, const struct reason *reason)
{
    struct reason why;
    never(job->forming.open);
    step_desired_group(step, job, &job->forming);
    for (int rank = 0; rank < job->forming.world; rank++) {
        uint64_t uid = job->forming.members[rank];
        int old_rank = group_rank_of(&job->current, uid);
        struct worker *worker = job_worker(job, uid);
        if (old_rank < 0) {
            worker_stop(step, job, worker);
            continue;
        }
        worker->rank = old_rank;
        worker->generation = job->current.generation;
    }
    group_clear(step->cluster, job, &job->forming);
    note_grow_failure(step, job);
    reason_set(&why, REASON_GROW_FAILED, "could not grow: %.400s", reason->text);
    step_record(step, "growth", job, reason->node, &why);
    step_settle(step, job);
}

void restart_recover(struct step *step, struct job *job, struct failure *failure)
{
    if (failure->growth_only && !job->forming.open) {
        restart_abandon_growth(step, job, &failure->reason);
        return;
    }
    if (job->current.generation)
        job->current.broken = true;
    if (!job->broken_at_ms)
        job->broken_at_ms = step->now_ms;
    if (failure->growth_only) {
        note_grow_failure(step, job);
        failure->charged = false;
    }
    if (!budget_charge(step, job, failure)) {
        job_stop(step, job, JOB_FAILED, &failure->reason);
        return;
    }
    if (!failure->whole && reform(step, job, failure))
        return;
    if (failure->lost && job->spec->restart_max == 0) {
        reason_hint(&failure->reason, "restart: off keeps it from being run again");
        job_stop(step, job, JOB_FAILED, &failure->reason);
        return;
    }
    restart_again(step, job, &failure->reason);
}

bool restart_ready(const struct job *job, int64_t now_ms)
{
    return job_living(job) == 0 && job->backoff_until_ms <= now_ms;
}

void restart_settle(struct step *step, struct job *job)
{
    if (job->current.generation && job_living(job) == 0) {
        group_clear(step->cluster, job, &job->current);
        scale_apply(step, job);
        step_store(step, job);
    }
    if (job_living(job) == 0)
        runtime_pause(step, job);
    if (restart_ready(job, step->now_ms))
        step->place = true;
}

/* True for a reason that names a worker as the cause. */
static bool blames_worker(const struct reason *reason)
{
    static const enum reason_kind kinds[] = {REASON_WORKER_FAILED, REASON_PEERS_LOST,
                                             REASON_CRASH_LOOP, REASON_RESTART_BUDGET};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(reason->kind, reason_name(kinds[i])) == 0)
            return true;
    return false;
}

/* The peers of a worker that failed by itself are its victims, whatever their clocks show. A worker
 * that we asked to stop may have failed because of that, unless it failed earlier. */
static bool is_before(const struct job *job, const struct worker *worker)
{
    bool victims = strcmp(job->reason.kind, reason_name(REASON_PEERS_LOST)) == 0;
    return worker->exit.wall_ms < job->cause_wall_ms || (victims && !worker->should_stop);
}

/* Reports about one failure arrive in any order: the earliest exit is its cause. */
void restart_earlier_cause(struct step *step, struct job *job, const struct worker *worker)
{
    bool goes_on = job->state == JOB_RESTARTING || job->state == JOB_REFORMING;
    bool open = goes_on || (job->state == JOB_STOPPING && job->ending == JOB_FAILED);
    if (!open || !blames_worker(&job->reason) || !job->cause_wall_ms || worker_finished(worker) ||
        distance(worker) > 0 || budget_is_ours(step, job, worker) ||
        worker->born > job->charged_generation || !is_before(job, worker))
        return;
    bool victims = strcmp(job->reason.kind, reason_name(REASON_PEERS_LOST)) == 0;
    struct reason reason;
    describe(job, worker, &reason);
    if (strcmp(job->reason.kind, reason_name(REASON_CRASH_LOOP)) == 0)
        budget_verdict(&reason, REASON_CRASH_LOOP, job);
    else if (strcmp(job->reason.kind, reason_name(REASON_RESTART_BUDGET)) == 0)
        budget_verdict(&reason, REASON_RESTART_BUDGET, job);
    job->cause_wall_ms = worker->exit.wall_ms;
    job->exit_code = worker->exit.signal ? 128 + worker->exit.signal : worker->exit.code;
    if (goes_on && victims && budget_ends(job, &worker->exit, &reason))
        job_stop(step, job, JOB_FAILED, &reason);
    else
        job_set_reason(step, job, &reason);
}
