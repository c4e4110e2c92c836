#include "tests/sim/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "proto/worker.pb-c.h"
#include "tests/sim/session.h"
#include "tests/sim/stage.h"

enum {
    CALL_MS = 3000,
    LONG_POLL_MS = 5000,
    WRITE_MAX_MS = 600,   /* of a checkpoint's files */
    LOST_AGAIN_MS = 2000, /* a loss is told until a newer generation is known */
    PAUSE_MS = 80000,     /* longer than any evaluation that is not called a hang */
    STALL_MS = 2000,      /* a peer behind a cut network counts as lost after this */
    BUG_CODE = 3,
    STOPPED_CODE = 75,
    PEER_CODE = 1,
};

/* Progress, LostPeers, checkpoints */

static void nothing_done(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    (void)arg, (void)err, (void)message;
}

static void tell_progress(struct process *process)
{
    Muster__WorkerProgressRequest request = MUSTER__WORKER_PROGRESS_REQUEST__INIT;
    request.job = process->key.job;
    request.uid = process->key.uid;
    request.generation = process->generation;
    request.step = process->step;
    request.total_steps = (uint64_t)process->script.steps;
    session_call(process, "Progress", &request, CALL_MS, nothing_done);
}

static void tell_lost(struct process *process, uint32_t *ranks, size_t count)
{
    Muster__WorkerLostPeersRequest request = MUSTER__WORKER_LOST_PEERS_REQUEST__INIT;
    process->told_lost_ms = process->world->now_ms;
    request.job = process->key.job;
    request.uid = process->key.uid;
    request.generation = process->generation;
    request.ranks = ranks;
    request.n_ranks = count;
    world_note(process->world, "%s/%llu lost %zu peers, first %u", process->key.job,
               (unsigned long long)process->key.uid, count, ranks[0]);
    session_call(process, "LostPeers", &request, LONG_POLL_MS, nothing_done);
}

struct commit { /* prepare, then the files are written, then done */
    struct process *process;
    struct loop_timer timer;
    uint64_t step, generation;
    bool done, last;
};

static void commit_send(struct commit *commit);

static void commit_written(void *arg)
{
    struct commit *commit = arg;
    commit->done = true;
    commit_send(commit);
}

/* A gang that starts again as a whole has no successor before its last process has ended: what it
 * saves when it is told to stop counts. */
static void check_heard(const struct commit *commit, const struct error *err)
{
    const struct process *process = commit->process;
    const struct stage *stage = process->world->stage;
    const struct cluster *cluster =
        stage->coordinator ? coordinator_cluster(stage->coordinator) : NULL;
    const struct job *job = cluster ? cluster_job(cluster, process->key.job) : NULL;
    const struct worker *worker = job ? job_worker(job, process->key.uid) : NULL;
    if (commit->last && err->code == E_ABORTED && strstr(err->text, " is over") && worker &&
        worker->state != WORKER_EXITED && job->state == JOB_RESTARTING &&
        job->next_generation == commit->generation + 1)
        world_fail(process->world, "%s starts again, and its last step %llu was refused: %s",
                   process->key.job, (unsigned long long)commit->step, err->text);
}

static void commit_end(struct commit *commit)
{
    struct process *process = commit->process;
    bool last = commit->last;
    process->committing = false;
    free(commit);
    if (last)
        session_end(process, STOPPED_CODE);
    else if (process->saving)
        (void)training_stop(process);
}

static void commit_done(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct commit *commit = arg;
    struct process *process = commit->process;
    (void)message;
    if (err->code == 0 && commit->done) {
        struct sim_job *job = workload_job(process->world->stage, process->key.job);
        world_note(process->world, "%s committed step %llu", process->key.job,
                   (unsigned long long)commit->step);
        if (job && (commit->generation > job->acknowledged_generation ||
                    (commit->generation == job->acknowledged_generation &&
                     commit->step > job->acknowledged_step))) {
            job->acknowledged_generation = commit->generation;
            job->acknowledged_step = commit->step;
        }
    }
    if (err->code == E_PERMISSION_DENIED) /* then no checkpoint would count, and none be checked */
        world_fail(process->world, "%s may not commit: %s", process->key.job, err->text);
    bool more = err->code == 0 && !commit->done && process_lives(process);
    if (more) {
        struct loop *loop = process->program->loop;
        int64_t write_ms = rng_between(&process->program->rng, 0, WRITE_MAX_MS);
        loop_timer_set(loop, &commit->timer, loop_now_ms(loop) + write_ms, commit_written, commit);
        return;
    }
    if (process_lives(process))
        check_heard(commit, err);
    commit_end(commit);
}

static void commit_send(struct commit *commit)
{
    char path[96];
    struct process *process = commit->process;
    Muster__CommitCheckpointRequest request = MUSTER__COMMIT_CHECKPOINT_REQUEST__INIT;
    Muster__Checkpoint checkpoint = MUSTER__CHECKPOINT__INIT;
    struct rpc_options options = {.timeout_ms = CALL_MS, .retry = true};
    (void)snprintf(path, sizeof(path), "%s/%llu", process->folder,
                   (unsigned long long)commit->step);
    checkpoint.step = commit->step;
    checkpoint.generation = commit->generation;
    checkpoint.path = path;
    checkpoint.world = process->world_size;
    request.job = process->key.job;
    request.uid = process->key.uid;
    request.checkpoint = &checkpoint;
    request.phase = commit->done ? MUSTER__COMMIT_CHECKPOINT_REQUEST__PHASE__done
                                 : MUSTER__COMMIT_CHECKPOINT_REQUEST__PHASE__prepare;
    if (rpc_client_call(process->hub, &muster__worker_hub__descriptor, "CommitCheckpoint",
                        &request.base, &options, commit_done, commit, NULL) != 0)
        commit_end(commit);
}

static void commit_begin(struct process *process, bool last)
{
    struct commit *commit = calloc(1, sizeof(*commit));
    insist(commit);
    *commit = (struct commit){
        .process = process, .step = process->step, .generation = process->generation, .last = last};
    process->committing = true;
    commit_send(commit);
}

static void maybe_commit(struct process *process)
{
    const struct script *script = &process->script;
    if (process->rank == 0 && script->every && process->step % (uint64_t)script->every == 0 &&
        !process->committing)
        commit_begin(process, false);
}

bool training_stop(struct process *process)
{
    if (!process->script.aware || !process->script.every || process->rank != 0 ||
        process->state != PROCESS_TRAINING || process->step == 0)
        return false;
    process->saving = true;
    if (!process->committing)
        commit_begin(process, true);
    return true;
}

/* Steps */

static struct process *peer_of(struct process *process, uint32_t rank)
{
    struct stage *stage = process->world->stage;
    for (int n = 0; n < stage->nodes_count; n++)
        for (int i = stage->nodes[n].processes_count - 1; i >= 0; i--) {
            struct process *peer = stage->nodes[n].processes[i];
            if (peer->rank == rank && peer->trained && peer->generation == process->generation &&
                strcmp(peer->key.job, process->key.job) == 0)
                return peer;
        }
    return NULL;
}

/* Ended, or gone to another generation; a peer that finished is one step ahead and not lost. */
static bool is_lost(const struct process *process, const struct process *peer)
{
    if (!process_lives(peer))
        return !(peer->exit.code == 0 && peer->exit.signal == 0 && !peer->exit.lost &&
                 peer->step > process->step);
    return false;
}

static bool has_left(struct process *process, uint32_t rank)
{
    struct stage *stage = process->world->stage;
    for (int n = 0; n < stage->nodes_count; n++)
        for (int i = 0; i < stage->nodes[n].processes_count; i++) {
            const struct process *peer = stage->nodes[n].processes[i];
            if (peer->trained && peer->rank == rank && peer->generation > process->generation &&
                strcmp(peer->key.job, process->key.job) == 0)
                return true;
        }
    return false;
}

/* True if all peers can take the next step with us. */
static bool meet_peers(struct process *process)
{
    uint32_t lost[64];
    size_t count = 0;
    bool ready = true, cut = false;
    for (uint32_t rank = 0; rank < process->world_size && count < 64; rank++) {
        if (rank == process->rank)
            continue;
        struct process *peer = peer_of(process, rank);
        bool unreachable =
            peer && (process->world->cut[process->node->machine][peer->node->machine] ||
                     (peer->hung && process_lives(peer)));
        cut |= unreachable;
        bool stalled = unreachable && process->stalled_since_ms &&
                       process->world->now_ms - process->stalled_since_ms > STALL_MS;
        if (peer ? is_lost(process, peer) || stalled : has_left(process, rank))
            lost[count++] = rank;
        else if (!peer || unreachable || peer->step < process->step ||
                 (process_lives(peer) && peer->state != PROCESS_TRAINING))
            ready = false;
    }
    if (!cut)
        process->stalled_since_ms = 0;
    else if (!process->stalled_since_ms)
        process->stalled_since_ms = process->world->now_ms;
    if (count > 0)
        tell_lost(process, lost, count);
    return ready && count == 0;
}

static bool crashes(struct process *process)
{
    const struct script *script = &process->script;
    bool bug = script->crash_always_at && process->step + 1 == (uint64_t)script->crash_always_at &&
               process->rank == process->world_size - 1;
    bool bad_luck = !process->world->stage->calm &&
                    rng_chance(&process->program->rng, script->crash_permille / 1000.0);
    if (bug || bad_luck)
        session_end(process, BUG_CODE);
    return bug || bad_luck;
}

static void note_step(struct process *process)
{
    struct sim_job *job = workload_job(process->world->stage, process->key.job);
    if (!job || process->rank != 0)
        return;
    job->redone += process->step <= job->best_step;
    if (process->step > job->best_step)
        job->best_step = process->step;
}

static bool pauses(const struct process *process)
{
    struct sim_job *job = workload_job(process->world->stage, process->key.job);
    if (!job || job->paused || process->rank != 0 ||
        process->step != (uint64_t)process->script.pause_at)
        return false;
    return job->paused = true;
}

void training_step(struct process *process)
{
    if (process->saving)
        return;
    bool told =
        process->told_lost_ms && process->world->now_ms - process->told_lost_ms < LOST_AGAIN_MS;
    if (told || !meet_peers(process) || crashes(process)) {
        session_tick_in(process, process->script.step_ms);
        return;
    }
    process->step++;
    note_step(process);
    tell_progress(process);
    maybe_commit(process);
    if (process->step >= (uint64_t)process->script.steps)
        session_end(process, 0);
    session_tick_in(process, pauses(process) ? PAUSE_MS : process->script.step_ms);
}

static bool a_peer_failed(struct process *process)
{
    struct stage *stage = process->world->stage;
    for (int n = 0; n < stage->nodes_count; n++)
        for (int i = 0; i < stage->nodes[n].processes_count; i++) {
            const struct process *peer = stage->nodes[n].processes[i];
            if (peer->start_generation == process->start_generation && !process_lives(peer) &&
                (peer->exit.code || peer->exit.signal || peer->exit.lost) &&
                strcmp(peer->key.job, process->key.job) == 0)
                return true;
        }
    return false;
}

void training_step_unaware(struct process *process)
{
    if (a_peer_failed(process)) {
        session_end(process, PEER_CODE);
        return;
    }
    if (crashes(process))
        return;
    process->step++;
    if (process->step >= (uint64_t)process->script.steps)
        session_end(process, 0);
    session_tick_in(process, process->script.step_ms);
}
