/* What ranks say of themselves is kept within bounds, compared, and shown to those who see the job.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/api_rpc/rank_figures.h"
#include "tests/unit/coordinator_api/access_world.h"

enum { RANKS = 3, NUMBERS = 100 };

TestSuite(ranks, .init = world_open, .fini = world_close);

/* A report of n1, whose workers all run. */
static void report(const char *job, Muster__NodeReport *message)
{
    static uint64_t sequence;
    struct answer answer;
    Muster__WorkerStatus workers[RANKS];
    Muster__WorkerStatus *list[RANKS];
    for (int i = 0; i < RANKS; i++) {
        muster__worker_status__init(&workers[i]);
        workers[i].job = (char *)(uintptr_t)job;
        workers[i].uid = (uint64_t)i + 1;
        workers[i].pid = 40 + i;
        workers[i].state = MUSTER__WORKER__STATE__starting;
        workers[i].reports = true;
        workers[i].step = 12;
        list[i] = &workers[i];
    }
    message->node = (char *)"n1";
    message->incarnation = 7;
    message->sequence = ++sequence;
    message->workers = list;
    message->n_workers = RANKS;
    agent(&world, "Report", message, &answer);
    answer_fini(&answer);
}

/* A job of RANKS workers on n1, all of which run. */
static void run_job(char ret_id[32])
{
    struct answer answer;
    Muster__JobSpec spec = spec_of("gang");
    Muster__SubmitJobRequest submit_message = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    register_node_of(7, RANKS);
    spec.workers_per_node = RANKS;
    submit_message.spec = &spec;
    const Muster__Job *job = client(&world, "SubmitJob", &submit_message, &answer);
    (void)snprintf(ret_id, 32, "%s", job->id);
    answer_fini(&answer);
    for (int seconds = 0; seconds < 4; seconds++) {
        Muster__NodeReport message = MUSTER__NODE_REPORT__INIT;
        report(ret_id, &message);
        world_run(&world, 1000);
    }
}

struct said { /* by rank 2, or by all */
    uint64_t uid;
    double step_ms, work_ms; /* work_ms < 0: unknown */
    uint32_t timed;
};

/* A report with these figures; each says its loss, which is its uid. */
static void say(const char *job, const struct said *said, size_t count)
{
    Muster__WorkerFigures figures[RANKS], *list[RANKS];
    Muster__WorkerFigures__NumbersEntry loss[RANKS], *losses[RANKS];
    Muster__NodeReport message = MUSTER__NODE_REPORT__INIT;
    for (size_t i = 0; i < count; i++) {
        muster__worker_figures__init(&figures[i]);
        muster__worker_figures__numbers_entry__init(&loss[i]);
        figures[i].job = (char *)(uintptr_t)job;
        figures[i].uid = said[i].uid;
        figures[i].timed = said[i].timed;
        figures[i].step_ms = said[i].step_ms;
        figures[i].work_ms_known_case = said[i].work_ms < 0
                                            ? MUSTER__WORKER_FIGURES__WORK_MS_KNOWN__NOT_SET
                                            : MUSTER__WORKER_FIGURES__WORK_MS_KNOWN_WORK_MS;
        figures[i].work_ms = said[i].work_ms;
        loss[i].key = (char *)"loss";
        loss[i].value = (double)said[i].uid;
        losses[i] = &loss[i];
        figures[i].numbers = &losses[i];
        figures[i].n_numbers = 1;
        list[i] = &figures[i];
    }
    message.figures = list;
    message.n_figures = count;
    report(job, &message);
}

static const Muster__GetRanksAnswer *ranks_of(const char *job, uint32_t first, uint32_t limit,
                                              struct answer *ret)
{
    Muster__GetRanksRequest message = MUSTER__GET_RANKS_REQUEST__INIT;
    message.id = (char *)(uintptr_t)job;
    message.first = first;
    message.limit = limit;
    return client(&world, "GetRanks", &message, ret);
}

Test(ranks, each_is_shown_with_what_it_said)
{
    char id[32];
    struct answer answer;
    run_job(id);
    const Muster__GetRanksAnswer *got = ranks_of(id, 0, 0, &answer);
    cr_assert_eq(got->n_ranks, RANKS, "before they say anything");
    cr_expect_eq(got->count, RANKS);
    cr_expect_eq(got->next, 0);
    cr_expect_str_eq(got->ranks[2]->node, "n1");
    cr_expect_eq(got->ranks[2]->slot, 2);
    cr_expect_eq(got->ranks[2]->step, 12);
    cr_expect_eq(got->ranks[2]->state, MUSTER__WORKER__STATE__running);
    cr_expect_eq(got->ranks[2]->n_numbers, 0);
    cr_expect_eq(got->ranks[2]->step_ms_known_case, MUSTER__RANK__STEP_MS_KNOWN__NOT_SET);
    answer_fini(&answer);
    say(id, &(struct said){.uid = 3, .step_ms = 12.5, .work_ms = -1, .timed = 2}, 1);
    got = ranks_of("gang", 1, 1, &answer);
    cr_assert_eq(got->n_ranks, 1, "a page");
    cr_expect_eq(got->ranks[0]->rank, 1);
    cr_expect_eq(got->next, 2);
    answer_fini(&answer);
    got = ranks_of(id, 2, 1, &answer);
    cr_assert_eq(got->n_ranks, 1);
    cr_expect_eq(got->next, 0);
    cr_assert_eq(got->ranks[0]->n_numbers, 1);
    cr_expect_str_eq(got->ranks[0]->numbers[0]->key, "loss");
    cr_expect_eq(got->ranks[0]->numbers[0]->value, 3);
    cr_expect_eq(got->ranks[0]->step_ms, 12.5);
    cr_expect_eq(got->ranks[0]->work_ms_known_case, MUSTER__RANK__WORK_MS_KNOWN__NOT_SET);
    cr_expect_eq(got->ranks[0]->ratio_known_case, MUSTER__RANK__RATIO_KNOWN__NOT_SET,
                 "nothing to compare it with");
    answer_fini(&answer);
    got = ranks_of(id, 1000, 1000000, &answer);
    cr_expect_eq(got->n_ranks, 0);
    answer_fini(&answer);
}

/* The slowest rank of the answer, -1 = none; of `why` too. */
static int slowest(const char *job)
{
    struct answer answer;
    Muster__GetJobRequest message = MUSTER__GET_JOB_REQUEST__INIT;
    const Muster__GetRanksAnswer *got = ranks_of(job, 0, 0, &answer);
    int rank = got->slowest ? got->slowest->rank : -1, in_why = -1;
    answer_fini(&answer);
    message.id = (char *)(uintptr_t)job;
    const Muster__WhyJobAnswer *why = client(&world, "WhyJob", &message, &answer);
    for (size_t i = 0; i < why->n_reasons; i++)
        if (strcmp(why->reasons[i]->kind, "slow_rank") == 0)
            in_why = why->reasons[i]->rank;
    cr_expect_eq(in_why, rank);
    answer_fini(&answer);
    return rank;
}

Test(ranks, the_rank_that_works_longest_is_slow_though_all_steps_take_as_long)
{
    char id[32];
    struct answer answer;
    run_job(id);
    struct said said[RANKS] = {{1, 200, 120, 9}, {2, 200, 190, 9}, {3, 200, 100, 9}};
    say(id, said, RANKS);
    cr_expect_eq(slowest(id), 1);
    const Muster__GetRanksAnswer *got = ranks_of(id, 0, 0, &answer);
    cr_expect(got->by_work);
    cr_expect_eq(got->median_ms, 120);
    cr_expect_float_eq(got->ranks[1]->ratio, 190.0 / 120, 1e-9);
    cr_assert_not_null(got->slowest);
    cr_expect_str_eq(got->slowest->text,
                     "rank 1 (node n1) works 190 ms in each step without waiting, the median rank "
                     "120 ms: 1.6 times as long");
    cr_expect_str_eq(got->slowest->node, "n1");
    answer_fini(&answer);
    said[1].work_ms = 150;
    say(id, said, RANKS);
    cr_expect_eq(slowest(id), -1, "1.25 times the median is usual");
    said[1].work_ms = -1; /* of one rank it is not known: the step times, which are equal */
    say(id, said, RANKS);
    cr_expect_eq(slowest(id), -1);
    got = ranks_of(id, 0, 0, &answer);
    cr_expect_not(got->by_work);
    cr_expect_eq(got->median_ms, 200);
    answer_fini(&answer);
}

Test(ranks, step_times_are_compared_where_waiting_is_not_known_and_only_after_a_stretch)
{
    char id[32];
    run_job(id);
    struct said said[RANKS] = {{1, 100, -1, 9}, {2, 100, -1, 9}, {3, 250, -1, 7}};
    say(id, said, RANKS);
    cr_expect_eq(slowest(id), -1, "seven steps say little");
    said[2].timed = 8;
    say(id, said, RANKS);
    cr_expect_eq(slowest(id), 2);
    struct said fast[RANKS] = {{1, 1, -1, 9}, {2, 1, -1, 9}, {3, 1.9, -1, 9}};
    say(id, fast, RANKS);
    cr_expect_eq(slowest(id), -1, "less than a millisecond");
}

Test(ranks, only_a_workers_own_node_speaks_for_it)
{
    char id[32];
    struct answer answer;
    Muster__RegisterNodeRequest other = MUSTER__REGISTER_NODE_REQUEST__INIT;
    Muster__NodeReport message = MUSTER__NODE_REPORT__INIT;
    Muster__WorkerFigures figures = MUSTER__WORKER_FIGURES__INIT, *list[] = {&figures, &figures};
    run_job(id);
    other.name = message.node = (char *)"n2";
    other.incarnation = message.incarnation = 9;
    other.address = (char *)"127.0.0.1";
    other.version = (char *)"test";
    other.slots = 1;
    agent(&world, "RegisterNode", &other, &answer);
    answer_fini(&answer);
    figures.job = id;
    figures.uid = 1;
    figures.timed = 9;
    figures.step_ms = 5;
    message.sequence = 1;
    message.figures = list;
    message.n_figures = 2;
    agent(&world, "Report", &message, &answer);
    answer_fini(&answer);
    const Muster__GetRanksAnswer *got = ranks_of(id, 0, 0, &answer);
    cr_expect_eq(got->ranks[0]->timed, 0);
    answer_fini(&answer);
}

/* A worker's figures with NUMBERS numbers, the first of which no metric may be named. */
static void put_many(struct rank_figures *figures, const struct job *job, uint64_t uid)
{
    static char names[NUMBERS][16];
    Muster__WorkerFigures message = MUSTER__WORKER_FIGURES__INIT;
    Muster__WorkerFigures__NumbersEntry entries[NUMBERS], *list[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) {
        muster__worker_figures__numbers_entry__init(&entries[i]);
        (void)snprintf(names[i], sizeof(names[i]), i ? "n%d" : "a name", i);
        entries[i].key = names[i];
        entries[i].value = i;
        list[i] = &entries[i];
    }
    message.uid = uid;
    message.timed = 3;
    message.step_ms = 7;
    message.numbers = list;
    message.n_numbers = NUMBERS;
    rank_figures_put(figures, job, &message);
}

Test(rank_figures, what_a_job_says_has_bounds)
{
    enum { WORKERS = 5000 }; /* of which 3,300 with numbers are as much as a job may keep */
    struct rank_figures *figures;
    struct job job = {.id = "j1", .workers_count = WORKERS};
    cr_assert_eq(rank_figures_new(&figures, NULL), 0);
    cr_expect_null(rank_figures_of(figures, "j1", 1));
    for (uint64_t uid = 1; uid <= WORKERS; uid++)
        put_many(figures, &job, uid);
    const struct rank_figures_worker *first = rank_figures_of(figures, "j1", 1);
    const struct rank_figures_worker *last = rank_figures_of(figures, "j1", WORKERS);
    cr_assert(first && last);
    cr_expect_eq(first->count, RANK_FIGURES_NUMBERS_MAX - 1, "one of them has no valid name");
    cr_expect_str_eq(first->numbers[0].name, "n1");
    cr_expect_eq(last->count, 0);
    cr_expect_eq(last->step_ms, 7, "its times are kept all the same");
    rank_figures_forget(figures, "j1");
    cr_expect_null(rank_figures_of(figures, "j1", 1));
    rank_figures_free(figures);
}

Test(rank_figures, the_jobs_that_were_silent_for_longest_are_forgotten_first)
{
    enum { JOBS = 6, WORKERS = 3000 }; /* each close to a job's bound, four of which fill all */
    struct rank_figures *figures;
    struct job job = {.workers_count = WORKERS};
    cr_assert_eq(rank_figures_new(&figures, NULL), 0);
    for (int i = 0; i < JOBS; i++) {
        (void)snprintf(job.id, sizeof(job.id), "j%d", i);
        for (uint64_t uid = 1; uid <= WORKERS; uid++)
            put_many(figures, &job, uid);
        (void)snprintf(job.id, sizeof(job.id), "j0"); /* goes on all the time */
        put_many(figures, &job, 1);
    }
    cr_expect(rank_figures_of(figures, "j0", WORKERS));
    cr_expect_null(rank_figures_of(figures, "j1", 1));
    cr_expect(rank_figures_of(figures, "j5", WORKERS));
    rank_figures_free(figures);
}

/* A gang that is started again and again leaves nothing of the workers it has forgotten. */
Test(rank_figures, workers_that_are_forgotten_are_removed)
{
    struct rank_figures *figures;
    struct worker worker = {.uid = 200};
    struct job job = {.id = "j1", .workers = &worker, .workers_count = 1};
    cr_assert_eq(rank_figures_new(&figures, NULL), 0);
    for (uint64_t uid = 1; uid <= 200; uid++)
        put_many(figures, &job, uid);
    cr_expect(rank_figures_of(figures, "j1", 200));
    cr_expect_null(rank_figures_of(figures, "j1", 1));
    rank_figures_free(figures);
}
