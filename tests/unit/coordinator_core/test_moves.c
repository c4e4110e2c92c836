/* Gangs that leave drained nodes: those that replace them start first, while all train on. */
#include <string.h>

#include <criterion/criterion.h>

#include "coordinator/core/limits.h"
#include "coordinator/model/tenant.h"
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

TestSuite(moves, .init = begin, .fini = finish);

static const struct job *job(void)
{
    return story_job(&s, "j1");
}

/* Of two nodes, a and b; c is free. Programs that start from now on take long. */
static void run_rigid(void)
{
    story_running_pair(&s, &story_rigid);
    story_node_up(&s, "c", 1);
    s.slow = true;
    s.trace[0] = 0;
}

static void drain(const char *node)
{
    story_node_set(&s, node, NODE_DRAIN);
    story_follow(&s);
}

static const struct worker *worker_on(const char *node)
{
    const struct worker *found = NULL;
    for (int i = 0; i < job()->workers_count; i++)
        if (strcmp(job()->workers[i].node, node) == 0 && worker_living(&job()->workers[i]))
            found = &job()->workers[i];
    return found;
}

static void expect_trains_beside(const char *left, const char *taken)
{
    cr_expect_eq(job()->state, JOB_RUNNING);
    cr_expect_not(job()->current.broken);
    cr_expect_eq(job()->current.generation, 1);
    cr_assert(worker_on(left) && worker_on(taken));
    cr_expect_not(worker_on(left)->should_stop);
    cr_expect_eq(group_rank_of(&job()->current, worker_on(left)->uid), 1);
    cr_expect_eq(group_rank_of(&job()->forming, worker_on(taken)->uid), 1);
}

Test(moves, a_gang_trains_on_until_those_that_replace_it_are_ready)
{
    run_rigid();
    drain("b");
    story_expect(&s, "b draining administrator\n");
    expect_trains_beside("b", "c");
    cr_expect_str_eq(story_records(&s, "growth")->newest.reason.text,
                     "node b is being emptied; 1 worker starts elsewhere, and training continues "
                     "until it is ready");
    story_progress(&s, "j1", 5);
    story_commit(&s, "j1", 0, 1, 5);
    cr_expect_eq(s.error.code, 0, "its checkpoints count: %s", s.error.text);
    story_wait(&s, 20000);
    story_expect(&s, "");
    s.slow = false;
    story_follow(&s);
    story_expect(&s, "j1 reforming node_drained\nj1 running all_joined\nb drained administrator\n");
    cr_expect_eq(job()->current.generation, 2);
    cr_expect_eq(job()->current.world, 2);
    cr_expect_eq(group_rank_of(&job()->current, worker_on("c")->uid), 1);
    cr_expect_eq(job()->restarts, 0);
}

Test(moves, why_says_what_it_waits_for)
{
    struct reason reasons[8];
    run_rigid();
    drain("b");
    int count = core_why(s.cluster, job(), reasons, 8);
    cr_assert_gt(count, 1);
    cr_expect_str_eq(reasons[1].kind, "node_drained");
    cr_expect_str_eq(reasons[1].text, "moves off a node that is being emptied: 1 worker on c "
                                      "starts, and training continues until it is ready");
}

Test(moves, a_new_worker_that_takes_too_long_is_waited_for_without_the_node)
{
    run_rigid();
    drain("b");
    story_wait(&s, MOVE_PATIENCE_MS - 1000);
    expect_trains_beside("b", "c");
    s.trace[0] = 0;
    uint64_t starts = worker_on("c")->uid;
    story_wait(&s, 1000);
    story_expect(&s, "j1 reforming node_drained\nb drained administrator\n");
    s.slow = false;
    story_follow(&s);
    story_expect(&s, "j1 running all_joined\n");
    cr_expect_eq(job()->restarts, 0);
    cr_expect_eq(job()->current.members[1], starts, "it is the same process");
}

Test(moves, a_new_worker_that_fails_costs_nothing_and_is_tried_again)
{
    run_rigid();
    s.nodes[2].breaks = true;
    drain("b");
    s.nodes[2].breaks = false;
    story_expect(&s, "b draining administrator\n");
    cr_expect_eq(job()->forming.generation, 0);
    cr_expect(strstr(story_records(&s, "growth")->newest.reason.text, "could not move yet: "), "%s",
              story_records(&s, "growth")->newest.reason.text);
    story_wait(&s, MOVE_RETRY_MS - 1000);
    cr_expect_eq(job()->forming.generation, 0);
    story_wait(&s, 1000);
    expect_trains_beside("b", "c");
    cr_expect_eq(job()->grow_after_ms, 0, "growth is another matter");
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(job()->current.generation, 3);
    cr_expect_eq(job()->restarts, 0);
}

/* The program is what fails there: then as if there were no time. */
Test(moves, new_workers_that_always_fail_do_not_keep_a_node_from_being_emptied)
{
    run_rigid();
    s.nodes[2].breaks = true;
    drain("b");
    story_wait(&s, MOVE_PATIENCE_MS);
    cr_expect_null(worker_on("b"));
    cr_expect_gt(job()->restarts, 0);
}

Test(moves, a_drain_that_is_taken_back_ends_the_new_worker)
{
    run_rigid();
    drain("b");
    uint64_t stays = worker_on("b")->uid;
    story_node_set(&s, "b", NODE_UNCORDON);
    story_follow(&s);
    cr_expect_null(worker_on("c"));
    cr_expect_eq(job()->state, JOB_RUNNING);
    cr_expect_eq(job()->forming.generation, 0);
    cr_expect_eq(job()->current.members[1], stays);
    cr_expect_eq(worker_on("b")->rank, 1);
    story_wait(&s, 5 * MOVE_PATIENCE_MS);
    drain("b");
    expect_trains_beside("b", "c");
}

Test(moves, one_that_dies_on_the_drained_node_leaves_its_place_to_the_new_worker)
{
    run_rigid();
    drain("b");
    uint64_t starts = worker_on("c")->uid;
    story_kill(&s, "j1", 1, 9);
    story_follow(&s);
    cr_expect_eq(job()->state, JOB_REFORMING);
    cr_expect_eq(job()->restarts, 1);
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(job()->state, JOB_RUNNING);
    cr_expect_eq(job()->current.members[1], starts);
}

Test(moves, a_lost_node_is_no_longer_moved_off)
{
    run_rigid();
    drain("b");
    story_node_dies(&s, "b");
    story_wait(&s, LEASE_MS + 1000);
    cr_expect_eq(job()->state, JOB_REFORMING);
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(job()->state, JOB_RUNNING);
    cr_expect_eq(job()->restarts, 0);
}

/* The survivor is replaced on its node, and all wait for that: so the drained node is left too. */
Test(moves, a_survivor_that_dies_meanwhile_ends_the_stay)
{
    run_rigid();
    drain("b");
    story_kill(&s, "j1", 0, 9);
    story_follow(&s);
    s.slow = false;
    story_wait(&s, 20000);
    cr_expect_eq(job()->state, JOB_RUNNING);
    cr_expect_null(worker_on("b"));
    cr_expect_eq(job()->current.world, 2);
}

Test(moves, a_second_node_that_is_drained_meanwhile_is_left_together_with_the_first)
{
    run_rigid();
    story_node_up(&s, "d", 1);
    drain("b");
    drain("c"); /* where the new worker starts */
    cr_expect_eq(job()->state, JOB_RUNNING);
    story_wait(&s, MOVE_RETRY_MS);
    expect_trains_beside("b", "d");
    cr_expect_null(worker_on("c"));
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(job()->state, JOB_RUNNING);
    cr_expect_null(worker_on("b"));
}

Test(moves, two_nodes_of_three_are_left_in_one_generation)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 5; i++)
        story_node_up(&s, names[i], 1);
    story_submit(&s, &(struct story_spec){.name = "three", .nodes_min = 3, .nodes_max = 3});
    story_follow(&s);
    s.slow = true;
    drain("b");
    drain("c");
    cr_expect_eq(job()->state, JOB_RUNNING);
    cr_expect_eq(cluster_living_workers(s.cluster), 5);
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(job()->current.generation, 3);
    cr_expect(!worker_on("b") && !worker_on("c") && worker_on("d") && worker_on("e"));
}

Test(moves, without_a_free_node_it_saves_and_ends_at_once)
{
    story_running_pair(&s, &story_rigid);
    s.trace[0] = 0;
    drain("b");
    cr_expect_eq(job()->state, JOB_RESTARTING);
    cr_expect_eq(cluster_living_workers(s.cluster), 0);
}

Test(moves, a_gang_that_may_shrink_does_not_wait)
{
    story_running_pair(&s, &story_pair);
    story_node_up(&s, "c", 1);
    s.slow = true;
    s.trace[0] = 0;
    drain("b");
    cr_expect_null(worker_on("b"));
    cr_expect_eq(job()->current.world, 1);
}

Test(moves, a_gang_that_grows_and_may_shrink_does_not_wait)
{
    story_running_pair(&s, &(struct story_spec){.name = "three", .nodes_min = 1, .nodes_max = 3});
    s.slow = true;
    story_node_up(&s, "c", 1);
    cr_assert_eq(job()->forming.world, 3);
    drain("b");
    cr_expect_null(worker_on("b"));
}

Test(moves, one_that_grows_and_may_not_shrink_stays_until_it_has_grown)
{
    story_running_pair(&s, &(struct story_spec){.name = "three", .nodes_min = 2, .nodes_max = 3});
    s.slow = true;
    story_node_up(&s, "c", 1);
    drain("b");
    expect_trains_beside("b", "c");
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(job()->current.world, 2);
    cr_expect_null(worker_on("b"));
}

/* The worker that leaves counts beside the one that replaces it: nothing else of its tenant starts
 * meanwhile. A limit does not keep a gang on a drained node. */
Test(moves, both_places_count_for_its_tenant)
{
    story_tenant(&s, "default", 1, 0, 2);
    run_rigid();
    drain("b");
    expect_trains_beside("b", "c");
    cr_expect_eq(cluster_tenant(s.cluster, "default")->slots_used, 3);
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(cluster_tenant(s.cluster, "default")->slots_used, 2);
}

Test(moves, a_job_that_ends_meanwhile_takes_the_new_worker_with_it)
{
    run_rigid();
    drain("b");
    story_exit(&s, "j1", 1, 0);
    story_exit(&s, "j1", 0, 0);
    story_follow(&s);
    cr_expect_eq(job()->state, JOB_SUCCEEDED);
    cr_expect_eq(cluster_living_workers(s.cluster), 0);
}

Test(moves, a_restart_of_the_coordinator_gives_it_its_time_again)
{
    run_rigid();
    drain("b");
    story_wait(&s, MOVE_PATIENCE_MS / 2);
    story_restart(&s, s.now_ms);
    story_wait(&s, MOVE_PATIENCE_MS - 5000);
    expect_trains_beside("b", "c");
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(job()->current.generation, 2);
}

/* Each node as a whole. */
Test(moves, workers_of_a_node_leave_together)
{
    static const struct story_spec pairs = {
        .name = "pairs", .nodes_min = 2, .nodes_max = 2, .workers = 2, .slots = 1};
    story_node_up(&s, "a", 2);
    story_node_up(&s, "b", 2);
    story_submit(&s, &pairs);
    story_follow(&s);
    story_node_up(&s, "c", 2);
    s.slow = true;
    drain("b");
    cr_expect_eq(job()->state, JOB_RUNNING);
    cr_expect_eq(cluster_living_workers(s.cluster), 6);
    s.slow = false;
    story_follow(&s);
    cr_expect_eq(job()->current.generation, 2);
    cr_expect_null(worker_on("b"));
}
