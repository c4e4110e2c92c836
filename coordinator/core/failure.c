#include "coordinator/core/failure.h"

#include <signal.h>
#include <string.h>

#include "common/base/str.h"
#include "coordinator/core/deadline.h"
#include "coordinator/core/limits.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"

/* Signals that no program sends itself. */
static bool is_from_outside(int signal)
{
    return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

bool exit_is_external(const struct exit_info *exit)
{
    if (exit->lost || exit->unstarted)
        return true;
    if (exit->signal)
        return is_from_outside(exit->signal) && !exit->oom;
    return exit->code == EXIT_PEER_LOST;
}

/* Lower is nearer to the root cause: failed by itself, failed because a peer did, lost with its
 * node. */
int failure_distance(const struct worker *worker)
{
    if (worker->exit.lost)
        return 2;
    return worker->exit.signal == 0 && worker->exit.code == EXIT_PEER_LOST ? 1 : 0;
}

static bool is_nearer_cause(const struct worker *worker, const struct worker *than)
{
    if (!than)
        return true;
    if (failure_distance(worker) != failure_distance(than))
        return failure_distance(worker) < failure_distance(than);
    return worker->exit.wall_ms < than->exit.wall_ms;
}

/* One failure kills many workers: a death in a generation that was already charged is the same
 * failure. */
static bool is_charged(const struct job *job, const struct worker *worker)
{
    return worker->born > job->charged_generation ||
           (job->current.published && job->current.generation > job->charged_generation);
}

static enum reason_kind exit_kind(const struct exit_info *exit)
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

static void add_hint(const struct job *job, const struct worker *worker, struct reason *ret)
{
    const struct exit_info *exit = &worker->exit;
    if (exit->oom)
        reason_hint(ret, "raise resources.memory or lower the batch size");
    else if (exit_kind(exit) == REASON_REFUSED)
        reason_hint(ret, "correct the setting or option that it names, and submit it again");
    else if (exit_kind(exit) == REASON_START_FAILED && exit->code == EXIT_NOT_FOUND)
        reason_hint(ret, "correct command, workdir or PATH: they must be there on every node");
    else if (exit_kind(exit) == REASON_START_FAILED && exit->code == EXIT_NOT_EXECUTABLE)
        reason_hint(ret, "the worker's user must be allowed to run it (chmod +x), on every node");
    else if (!exit->lost && !exit->unstarted)
        reason_hint(ret, "`muster logs %s --rank %d` has its last words", job->id, worker->rank);
}

void failure_describe(const struct job *job, const struct worker *worker, struct reason *ret)
{
    const struct exit_info *exit = &worker->exit;
    reason_set(ret, exit_kind(exit), "rank %d on %s: %s", worker->rank, worker->node, exit->text);
    ret->rank = worker->rank;
    (void)str_copy(ret->node, sizeof(ret->node), worker->node);
    add_hint(job, worker, ret);
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
    failure_describe(job, worker, &ret->reason);
    if (exit->lost && (!node || node->state == NODE_LOST)) {
        reason_set(&ret->reason, REASON_NODE_LOST, "node %s was lost (%.300s)", worker->node,
                   node ? node->reason.text : "unknown");
        (void)str_copy(ret->reason.node, sizeof(ret->reason.node), worker->node);
    }
    ret->charged = !exit->lost && !exit->node_fault && is_charged(job, worker);
    ret->hopeless = ret->charged && is_hopeless(job, exit);
    ret->own = !exit_is_external(exit);
    ret->lost = exit->lost;
    ret->wall_ms = exit->wall_ms;
    ret->lived_ms = time_lived(step, job, worker);
    ret->exit_code = exit->signal ? 128 + exit->signal : exit->code;
    (void)str_printf(ret->cause, sizeof(ret->cause), "%s %d %d", reason_name(exit_kind(exit)),
                     exit->code, exit->signal);
}

void failure_describe_drain(const struct node *node, struct reason *ret)
{
    const char *why = node_drain_why(node);
    reason_set(ret, REASON_NODE_DRAINED, "node %s is being emptied%s%.300s", node->name,
               *why ? ": " : "", why);
    (void)str_copy(ret->node, sizeof(ret->node), node->name);
}

/* A member leaves its node, which is `freed` for a job, or for a smaller size. */
static void describe_freed(const struct step *step, const struct job *job, const struct node *node,
                           struct reason *ret)
{
    char to[REASON_NAME_MAX];
    (void)reason_name_job(cluster_job(step->cluster, job->beneficiary), job->beneficiary, to);
    if (strcmp(job->beneficiary, job->id) == 0)
        reason_set(ret, REASON_SCALED, "it was scaled down: node %s is given back", node->name);
    else if (job->current.nodes <= job->spec->nodes_min)
        reason_set(ret, REASON_MOVED, "moves off node %s, for which job %s waits", node->name, to);
    else
        reason_set(ret, REASON_SHRUNK, "releases node %s, for which job %s waits", node->name, to);
    (void)str_copy(ret->node, sizeof(ret->node), node->name);
}

struct affected {              /* members that are dead, or leave */
    const struct worker *dead; /* nearest to the cause; NULL = none */
    const struct node *leaving;
    bool freed;      /* one leaves a node that is given to a job, or for a smaller size */
    bool last_freed; /* `leaving` is such a node */
    bool in_current, excused;
};

static void look_at_member(const struct step *step, const struct job *job,
                           const struct worker *worker, bool stays, struct affected *ret)
{
    const struct node *node = cluster_node(step->cluster, worker->node);
    bool dead = !worker_living(worker) && !worker_finished(worker);
    bool leaves = stays && worker_living(worker) && ((node && node->want_drain) || worker->leaving);
    if (!dead && !leaves)
        return;
    /* A worker that ended because a peer did is no excuse: only that peer counts. */
    ret->excused = ret->excused ||
                   (dead && exit_is_external(&worker->exit) && worker->exit.code != EXIT_PEER_LOST);
    if (dead && is_nearer_cause(worker, ret->dead))
        ret->dead = worker;
    if (leaves) {
        ret->leaving = node;
        ret->last_freed = worker->leaving;
        ret->freed |= worker->leaving;
    }
    ret->in_current = ret->in_current || group_rank_of(&job->current, worker->uid) >= 0;
}

/* A member that new workers are to replace (move.h) leaves already. It may die before. */
static bool find_dead_or_leaving(struct step *step, const struct job *job, struct failure *ret)
{
    const struct group *group = job->forming.generation ? &job->forming : &job->current;
    struct affected found = {0};
    for (int rank = 0; rank < group->world; rank++)
        look_at_member(step, job, job_worker(job, group->members[rank]), true, &found);
    for (int rank = 0; !group->open && group != &job->current && rank < job->current.world; rank++)
        if (group_rank_of(group, job->current.members[rank]) < 0)
            look_at_member(step, job, job_worker(job, job->current.members[rank]), false, &found);
    if (!found.dead && !found.leaving)
        return false;
    ret->growth_only = job->current.generation && !job->current.broken && !found.in_current;
    if (found.dead) {
        fail_by_worker(step, job, found.dead, ret);
        ret->excused = found.excused;
        return true;
    }
    ret->drained = !found.freed;
    if (found.last_freed)
        describe_freed(step, job, found.leaving, &ret->reason);
    else
        failure_describe_drain(found.leaving, &ret->reason);
    return true;
}

static void name_late_members(const struct job *job, const struct group *group, int64_t now_ms,
                              struct failure *ret)
{
    char ranks[200] = "";
    int missing = 0, finished = 0;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (!group_join_overdue(job, group, worker, now_ms))
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

static bool find_late_join(struct step *step, const struct job *job, struct failure *ret)
{
    const struct group *group = job->forming.generation ? &job->forming : &job->current;
    if (step->now_ms < group_join_deadline(job, group) || job_is_moving(job))
        return false; /* move_is_overdue has a deadline of its own */
    name_late_members(job, group, step->now_ms, ret);
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

static bool find_no_progress(struct step *step, const struct job *job, struct failure *ret)
{
    if (job->forming.generation || step->now_ms < group_progress_deadline(job))
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
               FINISH_TIMEOUT_MS / 1000);
    reason_hint(&ret->reason, "all ranks must take the same number of steps");
    (void)str_copy(ret->cause, sizeof(ret->cause), "finish_timeout");
    ret->whole = true;
    return true;
}

bool failure_find(struct step *step, const struct job *job, struct failure *ret)
{
    *ret = (struct failure){.reason.rank = -1, .wall_ms = step->wall_ms};
    return find_dead_or_leaving(step, job, ret) || find_late_join(step, job, ret) ||
           find_no_progress(step, job, ret);
}
