#include "coordinator/core/stall.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/str.h"
#include "coordinator/core/limits.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"

enum { NAMED_MAX = 4, TEXT_MAX = sizeof(((struct reason *)0)->text) };

struct stall {
    const struct job *job;
    int late[NAMED_MAX];
    int late_count; /* total number */
    int waiting[NAMED_MAX];
    int waiting_count;
    const struct collective_wait *shown; /* of the first rank that waits for one that is late */
    int64_t waited_ms;                   /* longest */
};

static const struct worker *member_of(const struct job *job, int rank)
{
    return job_worker(job, job->current.members[rank]);
}

static bool is_waiting(const struct job *job, const struct worker *worker)
{
    bool member = !job->current.joined || worker->joined == job->current.generation;
    return worker_living(worker) && member && worker->wait.waited_ms > 0;
}

/* True if `other` waits for this rank, and this rank is not at the same operation. */
static bool is_late(const struct job *job, const struct worker *worker, const struct worker *other)
{
    return !is_waiting(job, worker) ||
           (strcmp(worker->wait.communicator, other->wait.communicator) == 0 &&
            worker->wait.sequence < other->wait.sequence);
}

/* By rank: another rank's wait that shows this one to be late. The caller frees it. */
static const struct collective_wait **find_late_ranks(const struct job *job)
{
    uint32_t world = (uint32_t)job->current.world;
    const struct collective_wait **ret = calloc(world, sizeof(struct collective_wait *));
    insist(ret);
    for (uint32_t rank = 0; rank < world; rank++) {
        const struct worker *other = member_of(job, (int)rank);
        for (int i = 0; is_waiting(job, other) && i < other->wait.ranks_named; i++) {
            uint32_t awaited = other->wait.ranks[i];
            if (awaited < world && awaited != rank && !ret[awaited] &&
                is_late(job, member_of(job, (int)awaited), other))
                ret[awaited] = &other->wait;
        }
    }
    return ret;
}

static void add_rank(int *ranks, int *count, int rank)
{
    if (*count < NAMED_MAX)
        ranks[*count] = rank;
    (*count)++;
}

static void find_ranks(struct stall *stall)
{
    const struct job *job = stall->job;
    const struct collective_wait **shows = find_late_ranks(job);
    for (int rank = 0; rank < job->current.world; rank++) {
        const struct worker *worker = member_of(job, rank);
        if (shows[rank]) {
            add_rank(stall->late, &stall->late_count, rank);
            stall->shown = stall->shown ? stall->shown : shows[rank];
        } else if (is_waiting(job, worker)) {
            add_rank(stall->waiting, &stall->waiting_count, rank);
            if (worker->wait.waited_ms > stall->waited_ms)
                stall->waited_ms = worker->wait.waited_ms;
        }
    }
    free(shows);
}

static bool any_waits(const struct job *job)
{
    for (int rank = 0; rank < job->current.world; rank++)
        if (is_waiting(job, member_of(job, rank)))
            return true;
    return false;
}

/* "ranks 0, 1, 3 and 9 more"; with the node of each: "rank 2 (node n3)". */
static void put_ranks(struct buf *out, const struct job *job, const int *ranks, int count,
                      bool nodes)
{
    int named = count < NAMED_MAX ? count : NAMED_MAX;
    (void)buf_str(out, count == 1 ? "rank " : "ranks ");
    for (int i = 0; i < named; i++) {
        const char *before = i == 0 ? "" : i == count - 1 ? " and " : ", ";
        (void)buf_printf(out, "%s%d", before, ranks[i]);
        if (nodes)
            (void)buf_printf(out, " (node %s)", member_of(job, ranks[i])->node);
    }
    if (count > named)
        (void)buf_printf(out, " and %d more", count - named);
}

/* "all_reduce #7 (25.0 MiB) of 'world'", "barrier #8 of 'world'", "connect of 'world'" */
static void put_operation(struct buf *out, const struct collective_wait *wait)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double amount = (double)wait->bytes;
    size_t unit = 0;
    for (; amount >= 1024 && unit < sizeof(units) / sizeof(units[0]) - 1; unit++)
        amount /= 1024;
    size_t name = strcspn(wait->operation, " ");
    name += wait->operation[name] == ' ' ? 1 + strcspn(wait->operation + name + 1, " ") : 0;
    (void)buf_printf(out, "%.*s", (int)name, wait->operation);
    if (wait->bytes)
        (void)buf_printf(out, " (%.*f %s)", unit ? 1 : 0, amount, units[unit]);
    (void)buf_printf(out, " of '%s'", wait->communicator);
}

/* Programs that report name no collective: what is known is each rank's step, and where it is. */
static bool names_none(const struct stall *stall)
{
    for (int i = 0; i < stall->waiting_count && i < NAMED_MAX; i++)
        if (member_of(stall->job, stall->waiting[i])->wait.communicator[0])
            return false;
    return stall->late_count == 0;
}

/* The rank with the fewest steps is named first. */
static void order_by_step(struct stall *stall)
{
    int named = stall->waiting_count < NAMED_MAX ? stall->waiting_count : NAMED_MAX;
    for (int i = 1; i < named; i++)
        for (int j = i; j > 0 && member_of(stall->job, stall->waiting[j])->step <
                                     member_of(stall->job, stall->waiting[j - 1])->step;
             j--) {
            int rank = stall->waiting[j];
            stall->waiting[j] = stall->waiting[j - 1];
            stall->waiting[j - 1] = rank;
        }
}

static void put_silent(struct buf *out, struct stall *stall)
{
    int named = stall->waiting_count < NAMED_MAX ? stall->waiting_count : NAMED_MAX;
    order_by_step(stall);
    (void)buf_printf(out, "no step completes for %" PRId64 " s:", stall->waited_ms / 1000);
    for (int i = 0; i < named; i++) {
        const struct worker *worker = member_of(stall->job, stall->waiting[i]);
        (void)buf_printf(out, "%s rank %d (node %s) has made %" PRIu64, i ? "," : "",
                         stall->waiting[i], worker->node, worker->step);
        if (worker->wait.operation[0])
            (void)buf_printf(out, " and is in %s", worker->wait.operation);
    }
    if (stall->waiting_count > named)
        (void)buf_printf(out, ", and %d more", stall->waiting_count - named);
}

static void put_late(struct buf *out, const struct stall *stall)
{
    put_ranks(out, stall->job, stall->late, stall->late_count, true);
    (void)buf_str(out, stall->late_count == 1 ? " has not entered " : " have not entered ");
    put_operation(out, stall->shown);
    (void)buf_printf(out, " for %" PRId64 " s; ", stall->waited_ms / 1000);
    put_ranks(out, stall->job, stall->waiting, stall->waiting_count, false);
    (void)buf_str(out, stall->waiting_count == 1 ? " waits" : " wait");
}

/* No rank is late: they are in different collectives, or their data does not arrive. */
static void put_circle(struct buf *out, const struct stall *stall)
{
    int named = stall->waiting_count < NAMED_MAX ? stall->waiting_count : NAMED_MAX;
    put_ranks(out, stall->job, stall->waiting, stall->waiting_count, false);
    (void)buf_printf(out, " wait for each other for %" PRId64 " s:", stall->waited_ms / 1000);
    for (int i = 0; i < named; i++) {
        (void)buf_printf(out, "%s rank %d in ", i ? "," : "", stall->waiting[i]);
        put_operation(out, &member_of(stall->job, stall->waiting[i])->wait);
    }
}

/* The next group gathers, and some of its members have not joined although others have. */
static bool find_late_join(const struct job *job, struct reason *ret)
{
    const struct group *group = &job->forming;
    const struct worker *late = NULL;
    int asked = 0;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        bool here = group_has_asked(worker, group->generation);
        asked += here;
        if (!here && !late && worker_living(worker) && !worker->held)
            late = worker;
    }
    if (asked == 0 || !late)
        return false;
    reason_set(ret, REASON_LATE,
               "waits for rank %d (node %s) to join generation %llu; %d of %d have", late->rank,
               late->node, (unsigned long long)group->generation, asked, group->world);
    if (late->joined)
        reason_hint(ret,
                    "it joins them at its next step boundary; `muster logs %s --rank %d` shows "
                    "where it is",
                    job->id, late->rank);
    else
        reason_hint(ret, "it is being started; `muster logs %s --rank %d` shows where it is",
                    job->id, late->rank);
    ret->rank = late->rank;
    (void)str_copy(ret->node, sizeof(ret->node), late->node);
    return true;
}

bool stall_in_collective(const struct job *job, struct reason *ret, int64_t *ret_waited_ms)
{
    struct stall stall = {.job = job};
    struct buf text;
    if (job->state != JOB_RUNNING || !any_waits(job))
        return false;
    find_ranks(&stall);
    if (stall.waiting_count == 0)
        return false;
    buf_init(&text, TEXT_MAX);
    if (names_none(&stall))
        put_silent(&text, &stall);
    else if (stall.late_count)
        put_late(&text, &stall);
    else
        put_circle(&text, &stall);
    (void)buf_printf(&text, "; last step %" PRIu64, job->step);
    reason_set(ret, REASON_STALLED, "%s", buf_cstr(&text));
    buf_fini(&text);
    int rank = stall.late_count ? stall.late[0] : stall.waiting[0];
    const struct worker *worker = member_of(job, rank);
    ret->rank = rank;
    (void)str_copy(ret->node, sizeof(ret->node), worker->node);
    if (names_none(&stall))
        reason_hint(ret,
                    "`muster stacks %s` shows where each rank is; rank %d is process %" PRId64
                    " on %s",
                    job->id, rank, worker->pid, worker->node);
    else
        reason_hint(
            ret,
            "`muster logs %s --rank %d` has its last words and its stacks; it is process %" PRId64
            " on %s",
            job->id, rank, worker->pid, worker->node);
    *ret_waited_ms = stall.waited_ms;
    return true;
}

void stall_without_wait(const struct job *job, struct reason *ret)
{
    reason_set(ret, REASON_STALLED,
               "no step completes and no rank reports that it waits; the last step is %" PRIu64
               ", steps took %.3g s",
               job->step, (double)job->ledger.typical_step_ms / 1000);
    reason_hint(ret, "`muster logs %s` has what its ranks wrote last, and their stacks", job->id);
}

bool core_stalled(const struct job *job, struct reason *ret)
{
    int64_t waited_ms;
    if (job->forming.open && (job->state == JOB_REFORMING || job->state == JOB_STARTING))
        return find_late_join(job, ret);
    if (stall_in_collective(job, ret, &waited_ms))
        return true;
    if (job->state != JOB_RUNNING || !job->ledger.hangs)
        return false;
    stall_without_wait(job, ret);
    return true;
}
