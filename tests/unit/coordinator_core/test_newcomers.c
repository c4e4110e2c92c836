/* Workers that start beside a gang that trains: survivors that are enough do not wait for them. */
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tests/unit/coordinator_core/story.h"

static struct story s;

static void begin(void)
{
    story_begin(&s);
}

static void finish(void)
{
    story_end(&s);
}

TestSuite(newcomers, .init = begin, .fini = finish);

/* One worker was killed; the one that replaces it takes longer than anybody is patient. */
static void lose_rank(int rank)
{
    s.slow = true;
    story_kill(&s, "j1", rank, 9);
    story_follow(&s);
}

static void outwait_patience(void)
{
    story_wait(&s, NEWCOMER_PATIENCE_MS);
}

Test(newcomers, survivors_that_are_enough_go_on_and_take_the_new_worker_in_when_it_is_ready)
{
    story_running_pair(&s, &story_pair);
    const struct job *job = story_job(&s, "j1");
    lose_rank(1);
    story_expect(&s, "j1 reforming worker_failed\n");
    outwait_patience();
    story_expect(&s, "j1 running all_joined\n");
    cr_expect_eq(job->current.generation, 2);
    cr_expect_eq(job->current.world, 1);
    cr_expect_eq(job->forming.generation, 3);
    cr_expect_eq(job->forming.world, 2);
    cr_expect_eq(story_worker(&s, "j1", 0, NULL)->joined, 2);
    cr_expect_str_eq(story_records(&s, "growth")->newest.reason.text,
                     "1 of 2 workers is not ready yet; training continues until it is");
    story_progress(&s, "j1", 5);
    cr_expect_eq(job->last_recovery_ms, NEWCOMER_PATIENCE_MS);
    story_wait(&s, 20000);
    story_expect(&s, "");
    s.slow = false;
    story_follow(&s);
    story_expect(&s, "j1 reforming growing\nj1 running all_joined\n");
    cr_expect_eq(job->current.generation, 3);
    cr_expect_eq(job->current.world, 2);
    cr_expect_eq(job->restarts, 1);
}

Test(newcomers, a_program_known_to_start_slowly_is_not_waited_for_at_all)
{
    story_running_pair(&s, &story_pair);
    story_job(&s, "j1")->start_took_ms = NEWCOMER_FAST_MS + 1;
    lose_rank(1);
    story_expect(&s, "j1 reforming worker_failed\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 1);
}

Test(newcomers, a_start_is_timed_from_the_process_to_its_first_request_to_join)
{
    s.slow = true;
    story_node_up(&s, "a", 1);
    story_submit(&s, &(struct story_spec){.name = "one", .nodes_min = 1});
    story_follow(&s);
    story_wait(&s, 4000);
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j1")->start_took_ms, 4000);
    s.now_ms += 1000;
    story_worker(&s, "j1", 0, NULL)->broken = 1;
    story_wait(&s, 5000);
    cr_expect_eq(story_job(&s, "j1")->current.generation, 2);
    cr_expect_eq(story_job(&s, "j1")->start_took_ms, 4000, "it joined again, and did not start");
}

Test(newcomers, a_program_that_starts_at_once_costs_one_re_forming)
{
    story_running_pair(&s, &story_pair);
    story_kill(&s, "j1", 1, 9);
    story_follow(&s);
    story_expect(&s, "j1 reforming worker_failed\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
    cr_expect_eq(story_job(&s, "j1")->next_generation, 3);
}

Test(newcomers, a_gang_of_a_fixed_size_waits)
{
    story_running_pair(&s, &story_rigid);
    lose_rank(1);
    story_wait(&s, NEWCOMER_PATIENCE_MS + 5000);
    story_expect(&s, "j1 reforming worker_failed\n");
    s.slow = false;
    story_follow(&s);
    story_expect(&s, "j1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
}

/* Its rank 0 had the port of the gang. */
Test(newcomers, the_first_rank_may_be_the_one_that_is_lost)
{
    story_running_pair(&s, &story_pair);
    lose_rank(0);
    outwait_patience();
    const struct job *job = story_job(&s, "j1");
    cr_assert_eq(job->current.world, 1);
    cr_expect_str_eq(job->current.master_node, "b");
    cr_expect_gt(job->current.master_port, 0);
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(job->current.world, 2);
    cr_expect_str_eq(job->current.master_node, "b", "who has trained keeps its rank");
}

static const struct story_spec pairs = {
    .name = "pairs", .nodes_min = 1, .nodes_max = 2, .workers = 2, .slots = 1, .restart_max = 3};

static void run_two_pairs(void)
{
    story_node_up(&s, "a", 2);
    story_node_up(&s, "b", 2);
    story_submit(&s, &pairs);
    story_follow(&s);
    s.trace[0] = 0;
}

Test(newcomers, the_other_workers_of_its_node_wait_with_it)
{
    run_two_pairs();
    const struct job *job = story_job(&s, "j1");
    uint64_t waits = job->current.members[3];
    lose_rank(2);
    outwait_patience();
    cr_assert_eq(job->current.world, 2);
    cr_expect_str_eq(job_worker(job, job->current.members[0])->node, "a");
    cr_expect_str_eq(job_worker(job, job->current.members[1])->node, "a");
    cr_expect(worker_living(job_worker(job, waits)));
    cr_expect_eq(group_rank_of(&job->current, waits), -1);
    s.slow = false;
    story_follow(&s);
    cr_assert_eq(job->current.world, 4);
    cr_expect_geq(group_rank_of(&job->current, waits), 2, "the same process");
}

Test(newcomers, where_no_node_is_whole_all_wait)
{
    run_two_pairs();
    s.slow = true;
    story_kill(&s, "j1", 0, 9);
    story_kill(&s, "j1", 3, 9);
    story_follow(&s);
    story_wait(&s, NEWCOMER_PATIENCE_MS + 5000);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_REFORMING);
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j1")->current.world, 4);
}

/* One that is at an evaluation: it is no newcomer. */
Test(newcomers, survivors_wait_for_each_other)
{
    story_node_up(&s, "c", 1);
    story_node_up(&s, "a", 1);
    story_node_up(&s, "b", 1);
    story_submit(&s, &(struct story_spec){
                         .name = "three", .nodes_min = 1, .nodes_max = 3, .restart_max = 3});
    story_follow(&s);
    s.trace[0] = 0;
    story_worker(&s, "j1", 0, NULL)->never_joins = true;
    lose_rank(2);
    story_wait(&s, NEWCOMER_PATIENCE_MS + 5000);
    story_expect(&s, "j1 reforming worker_failed\n");
    story_worker(&s, "j1", 0, NULL)->never_joins = false;
    story_follow(&s);
    story_expect(&s, "j1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
}

/* Its backoff holds only the new worker. */
Test(newcomers, the_survivors_of_a_second_failure_do_not_sit_out_its_backoff)
{
    struct story_spec spec = story_pair;
    spec.backoff = "100s..100s";
    story_running_pair(&s, &spec);
    const struct job *job = story_job(&s, "j1");
    for (int i = 0; i < 2; i++) {
        story_exit(&s, "j1", 1, 7);
        story_follow(&s);
    }
    int64_t left_ms = job->backoff_until_ms - s.now_ms;
    cr_expect_gt(left_ms, 90000);
    cr_expect_eq(job->state, JOB_RUNNING);
    cr_expect_eq(job->current.world, 1);
    story_wait(&s, left_ms - 1000);
    cr_expect_eq(job->current.world, 1);
    story_wait(&s, 2000);
    cr_expect_eq(job->current.world, 2);
}

Test(newcomers, a_new_worker_that_fails_leaves_the_survivors_alone)
{
    story_running_pair(&s, &story_pair);
    const struct job *job = story_job(&s, "j1");
    lose_rank(1);
    outwait_patience();
    s.trace[0] = 0;
    story_node(&s, "b")->breaks = true;
    story_follow(&s);
    story_expect(&s, "");
    cr_expect_eq(job->current.world, 1);
    cr_expect_eq(job->forming.generation, 0);
    cr_expect_eq(job->restarts, 1, "growth that fails costs none");
    story_node(&s, "b")->breaks = s.slow = false;
    story_wait(&s, GROW_BACKOFF_MS + 2000);
    cr_expect_eq(job->current.world, 2);
}

Test(newcomers, a_gang_scaled_down_meanwhile_takes_none_in)
{
    story_running_pair(&s, &story_pair);
    lose_rank(1);
    story_scale(&s, "j1", 1, 1);
    outwait_patience();
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->current.world, 1);
    cr_expect_eq(job->forming.generation, 0);
    cr_expect_eq(job_living_workers(job), 1);
}

/* A job of 1..3 nodes trains on a, and its worker on b starts. */
static const struct job *start_growing(void)
{
    story_node_up(&s, "a", 1);
    story_submit(&s, &(struct story_spec){
                         .name = "three", .nodes_min = 1, .nodes_max = 3, .restart_max = 3});
    story_follow(&s);
    s.slow = true;
    story_node_up(&s, "b", 1);
    story_wait(&s, 1000);
    cr_assert_eq(story_job(&s, "j1")->forming.world, 2);
    return story_job(&s, "j1");
}

static void add_node_later(void)
{
    story_node_up(&s, "c", 1);
    story_wait(&s, 1000);
}

Test(newcomers, nodes_that_are_free_one_after_the_other_start_side_by_side)
{
    const struct job *job = start_growing();
    uint64_t first = job->forming.members[1];
    add_node_later();
    cr_assert_eq(job->forming.world, 3);
    cr_expect_eq(job->forming.members[1], first, "its process stays");
    cr_expect_not(job->forming.open);
    cr_expect_eq(job->state, JOB_RUNNING);
    cr_expect_str_eq(story_records(&s, "growth")->newest.reason.text,
                     "1 more node can join; training continues until they are ready");
    s.trace[0] = 0;
    s.slow = false;
    story_follow(&s);
    story_expect(&s, "j1 reforming growing\nj1 running all_joined\n");
    cr_expect_eq(job->current.world, 3);
    cr_expect_eq(job->restarts, 0);
}

/* The first to be ready does not start again to wait for another. */
Test(newcomers, a_node_that_is_free_once_another_is_ready_joins_after_it)
{
    story_node_up(&s, "a", 1);
    story_submit(&s, &(struct story_spec){
                         .name = "three", .nodes_min = 1, .nodes_max = 3, .restart_max = 3});
    story_follow(&s);
    s.slow = true;
    story_node_up(&s, "b", 1);
    story_node_up(&s, "c", 1);
    story_wait(&s, 1000);
    const struct job *job = story_job(&s, "j1");
    cr_assert_eq(job->forming.world, 3);
    cr_expect_eq(job->forming.generation, 3, "it is formed once more");
    uint64_t generation = job->forming.generation;
    story_node(&s, "b")->workers[0].joining = generation;
    story_report(&s, "b");
    story_scale(&s, "j1", 1, 4);
    story_node_up(&s, "d", 1);
    story_wait(&s, 1000);
    cr_expect_eq(job->forming.generation, generation);
    cr_expect_eq(job->forming.world, 3);
    s.slow = false;
    story_wait(&s, 2000);
    cr_expect_eq(job->current.world, 4);
}

/* Scaled down to one node and up again, with a free node d: the worker on c ends with its grace. */
Test(newcomers, who_leaves_slowly_does_not_hold_back_growth_elsewhere)
{
    story_node_up(&s, "a", 1);
    story_node_up(&s, "b", 1);
    story_submit(&s, &(struct story_spec){
                         .name = "three", .nodes_min = 1, .nodes_max = 3, .restart_max = 3});
    story_follow(&s);
    story_node_up(&s, "d", 1);
    story_wait(&s, 1000);
    const struct job *job = story_job(&s, "j1");
    cr_assert_eq(job->current.world, 3);
    story_scale(&s, "j1", 1, 2);
    story_wait(&s, 1000);
    cr_assert_eq(job->current.world, 2);
    story_worker(&s, "j1", 1, NULL)->ignores_term = true;
    story_scale(&s, "j1", 1, 1);
    story_follow(&s);
    cr_assert_eq(job->current.world, 1);
    cr_assert_eq(job_living_workers(job), 2);
    s.slow = true;
    story_scale(&s, "j1", 1, 3);
    story_follow(&s);
    cr_expect_eq(job->forming.world, 2);
    story_wait(&s, STOP_GRACE_MS + 2000); /* it is killed */
    cr_expect_eq(job->forming.world, 3);
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(job->current.world, 3);
}

Test(newcomers, one_of_several_that_fails_ends_the_growth_of_all)
{
    const struct job *job = start_growing();
    add_node_later();
    cr_assert_eq(job->forming.world, 3);
    struct story_worker *second = &story_node(&s, "c")->workers[0];
    second->exited = true;
    second->exit = (struct exit_info){.signal = 9};
    story_report(&s, "c");
    story_follow(&s);
    cr_expect_eq(job->current.world, 1);
    cr_expect_eq(job->forming.generation, 0);
    cr_expect_eq(job->grow_failures, 1);
    s.slow = false;
    story_wait(&s, GROW_BACKOFF_MS + 2000);
    cr_expect_eq(job->current.world, 3);
}

Test(newcomers, who_is_lost_meanwhile_is_not_waited_for_either)
{
    story_node_up(&s, "a", 1);
    story_node_up(&s, "b", 1);
    story_node_up(&s, "c", 1);
    story_submit(&s, &(struct story_spec){
                         .name = "three", .nodes_min = 1, .nodes_max = 3, .restart_max = 3});
    story_follow(&s);
    const struct job *job = story_job(&s, "j1");
    lose_rank(2);
    outwait_patience();
    cr_assert_eq(job->current.world, 2);
    story_progress(&s, "j1", 5);
    story_kill(&s, "j1", 1, 9);
    story_follow(&s);
    outwait_patience();
    cr_expect_eq(job->current.world, 1);
    cr_expect_eq(job->forming.world, 3);
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(job->current.world, 3);
    cr_expect_eq(job->restarts, 2);
}

Test(newcomers, why_names_who_is_not_ready)
{
    struct reason reasons[4];
    story_running_pair(&s, &story_pair);
    lose_rank(1);
    outwait_patience();
    cr_assert_eq(core_why(s.cluster, story_job(&s, "j1"), reasons, 4), 2);
    cr_expect_str_eq(reasons[0].text, "its rank has joined generation 2");
    cr_expect_str_eq(reasons[1].text,
                     "has 1 of up to 2 nodes: 1 worker on b starts, and joins when it is ready");
}
