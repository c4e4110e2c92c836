/* What the ranks of a job reported of themselves: GetRanks. */
#include <math.h>

#include "common/rpc/message.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/job_query.h"
#include "coordinator/api_rpc/rank_pace.h"
#include "coordinator/api_rpc/scope.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/wire.h"

enum { RANKS_DEFAULT = 256, RANKS_MAX = 1000 };

static bool put_numbers(struct arena *arena, const struct rank_figures_worker *from,
                        Muster__Rank *ret)
{
    size_t count = (size_t)from->count;
    Muster__Rank__NumbersEntry *entries = arena_array(arena, count + 1, sizeof(*entries));
    ret->numbers = arena_pointers(arena, count + 1);
    if (!entries || !ret->numbers)
        return false;
    for (size_t i = 0; i < count; i++) {
        muster__rank__numbers_entry__init(&entries[i]);
        entries[i].key = rpc_text(from->numbers[i].name);
        entries[i].value = from->numbers[i].value;
        ret->numbers[i] = &entries[i];
    }
    ret->n_numbers = count;
    return true;
}

static void put_times(const struct rank_figures_worker *from, const struct rank_pace *pace,
                      Muster__Rank *ret)
{
    double compared = rank_pace_ms(from, pace->by_work);
    ret->timed = (uint32_t)from->timed;
    if (from->timed) {
        ret->step_ms_known_case = MUSTER__RANK__STEP_MS_KNOWN_STEP_MS;
        ret->step_ms = from->step_ms;
    }
    if (from->timed && !isnan(from->work_ms)) {
        ret->work_ms_known_case = MUSTER__RANK__WORK_MS_KNOWN_WORK_MS;
        ret->work_ms = from->work_ms;
    }
    if (pace->median_ms > 0 && !isnan(compared)) {
        ret->ratio_known_case = MUSTER__RANK__RATIO_KNOWN_RATIO;
        ret->ratio = compared / pace->median_ms;
    }
}

static void put_place(const struct cluster *cluster, const struct job *job,
                      const struct worker *worker, Muster__Rank *ret)
{
    const struct node *node = cluster_node(cluster, worker->node);
    ret->node = rpc_text(worker->node);
    ret->slot = (uint32_t)worker->slot;
    ret->state = wire_worker_state(job, worker);
    if (node && worker->slot < node->gpus_count) {
        ret->gpu_known_case = MUSTER__RANK__GPU_KNOWN_GPU;
        ret->gpu = (uint32_t)node->gpus[worker->slot].index;
    }
    if (worker->aware || worker->step > 0) {
        ret->step_known_case = MUSTER__RANK__STEP_KNOWN_STEP;
        ret->step = worker->step;
    }
}

static Muster__Rank *rank_of(struct service *service, struct arena *arena, const struct job *job,
                             const struct rank_pace *pace, int rank)
{
    Muster__Rank *ret = arena_alloc(arena, sizeof(*ret));
    const struct worker *worker = rank_pace_worker(job, rank);
    const struct rank_figures_worker *figures =
        worker ? rank_figures_of(service->figures, job->id, worker->uid) : NULL;
    if (!ret)
        return NULL;
    muster__rank__init(ret);
    ret->rank = (uint32_t)rank;
    if (worker)
        put_place(service_cluster(service), job, worker, ret);
    if (figures)
        put_times(figures, pace, ret);
    return !figures || put_numbers(arena, figures, ret) ? ret : NULL;
}

static bool put_slowest(struct service_call *call, const struct job *job, struct arena *arena,
                        Muster__GetRanksAnswer *ret)
{
    struct reason *slowest = arena_zalloc(arena, sizeof(*slowest));
    if (!slowest || !rank_pace_explain(call->service->figures, job, slowest))
        return slowest;
    ret->slowest = wire_reason(arena, slowest);
    return ret->slowest && scope_reason(call, arena, ret->slowest);
}

static bool put_ranks(struct service_call *call, const struct job *job, struct arena *arena,
                      Muster__GetRanksAnswer *ret)
{
    const Muster__GetRanksRequest *message = (const void *)call->request;
    uint32_t limit = message->limit ? message->limit : RANKS_DEFAULT;
    uint32_t world = (uint32_t)rank_pace_group(job)->world;
    struct rank_pace pace;
    limit = limit < RANKS_MAX ? limit : RANKS_MAX;
    rank_pace_read(call->service->figures, job, &pace);
    ret->ranks = arena_pointers(arena, limit);
    ret->count = world;
    ret->by_work = pace.compared && pace.by_work;
    if (pace.compared) {
        ret->median_ms_known_case = MUSTER__GET_RANKS_ANSWER__MEDIAN_MS_KNOWN_MEDIAN_MS;
        ret->median_ms = pace.median_ms;
    }
    for (uint32_t rank = message->first; ret->ranks && rank < world; rank++) {
        if (ret->n_ranks == limit) {
            ret->next = rank;
            break;
        }
        ret->ranks[ret->n_ranks] = rank_of(call->service, arena, job, &pace, (int)rank);
        if (!ret->ranks[ret->n_ranks++])
            return false;
    }
    return ret->ranks && put_slowest(call, job, arena, ret);
}

void call_get_ranks(struct service *service, struct service_call *call, bool last_chance)
{
    (void)service, (void)last_chance;
    const Muster__GetRanksRequest *message = (const void *)call->request;
    struct error err = {0};
    const struct job *job = service_find_job(call, message->id, &err);
    if (!job) {
        service_fail(call, &err);
        return;
    }
    Muster__GetRanksAnswer answer = MUSTER__GET_RANKS_ANSWER__INIT;
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    bool whole = put_ranks(call, job, &arena, &answer);
    service_answer_whole(call, whole, &answer.base);
    arena_fini(&arena);
}
