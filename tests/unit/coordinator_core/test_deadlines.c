/* How long a gang waits for its members, and how it grows. Stories
 * on virtual time: what happens, and the exact trace it leaves. */
#include <string.h>

#include <criterion/criterion.h>

#include "coordinator/model/assignment.h"
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

TestSuite(deadlines, .init = begin, .fini = finish);

Test(deadlines, survivors_in_a_long_phase_of_their_own_are_waited_for)
{
    story_running_pair(&s, &story_rigid);
    struct story_worker *evaluates = story_worker(&s, "j1", 0, NULL);
    evaluates->never_joins = true;
    story_exit(&s, "j1", 1, 3);
    story_wait(&s, SURVIVOR_TIMEOUT_MS / 2);
    story_expect(&s, "j1 reforming worker_failed\n");
    struct reason reasons[2];
    cr_assert_eq(core_why(s.cluster, story_job(&s, "j1"), reasons, 2), 2);
    cr_expect_str_eq(reasons[0].text,
                     "waits for rank 0 (node a) to join generation 2; 1 of 2 have");
    cr_expect_str_eq(reasons[1].kind, "worker_failed");
    cr_expect(strstr(reasons[1].hint, "muster logs j1 --rank 1"), "%s", reasons[1].hint);
    evaluates->never_joins = false;
    story_wait(&s, 2000);
    story_expect(&s, "j1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->restarts, 1);
    evaluates->never_joins = true;
    story_exit(&s, "j1", 1, 4);
    story_wait(&s, SURVIVOR_TIMEOUT_MS - 2000);
    story_expect(&s, "j1 reforming worker_failed\n");
    story_wait(&s, 4000);
    cr_expect(strstr(s.trace, "j1 restarting join_timeout\n"), "%s", s.trace);
}

Test(deadlines, a_survivor_its_peers_gave_up_has_less_time)
{
    story_running_pair(&s, &story_rigid);
    story_worker(&s, "j1", 1, NULL)->never_joins = true; /* hangs */
    struct story_worker *a = story_worker(&s, "j1", 0, NULL);
    a->broken = 1;
    a->lost_ranks[0] = 1;
    a->lost_count = 1;
    story_report(&s, "a");
    story_wait(&s, BROKEN_TIMEOUT_MS + JOIN_TIMEOUT_MS - 1000);
    story_expect(&s, "j1 reforming peers_lost\n");
    story_wait(&s, 3000);
    cr_expect(strstr(s.trace, "j1 restarting join_timeout\n"), "%s", s.trace);
}

/* Rank 1 is lost and rank 0 finishes just then: it never comes, and the new rank 1 needs it. */
Test(deadlines, a_rank_that_has_finished_is_not_waited_for)
{
    story_running_pair(&s, &story_rigid);
    story_commit(&s, "j1", 0, 1, 40);
    story_worker(&s, "j1", 0, NULL)->never_joins = true;
    story_exit(&s, "j1", 1, 3);
    story_exit(&s, "j1", 0, 0);
    story_expect(&s, "j1 reforming worker_failed\n");
    story_follow(&s);
    cr_expect_str_eq(story_job(&s, "j1")->reason.text,
                     "rank 0 finished and will not join generation 2");
    story_wait(&s, 2000);
    story_expect(&s, "j1 restarting join_timeout\nj1 starting placed\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->step, 40, "from its checkpoint");
}

Test(deadlines, growth_waits_for_who_is_busy)
{
    story_running_pair(&s, &(struct story_spec){.name = "three", .nodes_min = 2, .nodes_max = 3});
    struct story_worker *evaluates = story_worker(&s, "j1", 0, NULL);
    evaluates->never_joins = true;
    story_node_up(&s, "c", 1);
    story_wait(&s, START_TIMEOUT_MS + 10000);
    story_expect(&s, "c ready reported\nj1 reforming growing\n");
    evaluates->never_joins = false;
    story_wait(&s, 2000);
    story_expect(&s, "j1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 3);
    cr_expect_eq(story_job(&s, "j1")->restarts, 0);
}

static void remember_generation(void *arg, const struct assignment *assignment)
{
    if (assignment->stop)
        *(uint64_t *)arg = assignment->generation;
}

Test(deadlines, a_worker_told_of_a_generation_is_stopped_in_it)
{
    story_running_pair(&s, &story_rigid);
    story_worker(&s, "j1", 0, NULL)->never_joins = true;
    story_exit(&s, "j1", 1, 3);
    cr_assert_eq(story_job(&s, "j1")->forming.generation, 2);
    story_cancel(&s, "j1");
    uint64_t generation = 0;
    cluster_assignments(s.cluster, "a", remember_generation, &generation);
    cr_expect_eq(generation, 2);
}

Test(deadlines, growth_that_fails_leaves_the_gang_alone)
{
    story_running_pair(&s, &(struct story_spec){.name = "three", .nodes_min = 2, .nodes_max = 3});
    s.nodes_count++;
    s.nodes[2] = (struct story_node){.name = "c", .incarnation = 9, .slots = 1, .up = true};
    story_register(&s, "c", false);
    cr_assert_eq(story_job(&s, "j1")->forming.generation, 2);
    s.nodes[2].workers[0] = (struct story_worker){
        .uid = 3, .job = "j1", .exited = true, .exit = {.code = 1, .wall_ms = 1}};
    s.nodes[2].workers_count = 1;
    story_report(&s, "c");
    story_follow(&s);
    story_expect(&s, "c ready reported\n");
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->current.generation, 1);
    cr_expect_eq(job->forming.generation, 0);
    cr_expect_eq(job->restarts, 0);
    story_wait(&s, GROW_BACKOFF_MS + 2000);
    story_expect(&s, "j1 reforming growing\nj1 running all_joined\n");
    cr_expect_eq(job->current.world, 3);
}

Test(deadlines, the_wait_after_growth_that_fails_doubles_up_to_its_most)
{
    story_running_pair(&s, &(struct story_spec){.name = "three", .nodes_min = 2, .nodes_max = 3});
    const struct job *job = story_job(&s, "j1");
    s.nodes[2].breaks = true;
    story_node_up(&s, "c", 1);
    for (int64_t wait_ms = GROW_BACKOFF_MS; wait_ms < 4 * GROW_BACKOFF_MAX_MS; wait_ms *= 2) {
        int64_t expected_ms = wait_ms < GROW_BACKOFF_MAX_MS ? wait_ms : GROW_BACKOFF_MAX_MS;
        cr_expect_eq(job->grow_after_ms - s.now_ms, expected_ms, "%lld ms",
                     (long long)(job->grow_after_ms - s.now_ms));
        story_wait(&s, expected_ms);
    }
    s.nodes[2].breaks = false;
    story_wait(&s, GROW_BACKOFF_MAX_MS);
    cr_assert_eq(job->current.world, 3);
    s.nodes[2].breaks = true; /* it grew, so all is forgotten */
    story_node_dies(&s, "c");
    story_wait(&s, LEASE_MS + 1000);
    cr_assert_eq(job->current.world, 2);
    story_register(&s, "c", true);
    story_follow(&s);
    cr_expect_eq(job->grow_after_ms - s.now_ms, GROW_BACKOFF_MS);
}

/* The gang has been told of the newcomer that dies: it forms again without, at no cost. */
Test(deadlines, growth_that_fails_late_costs_no_restart)
{
    story_running_pair(&s, &(struct story_spec){.name = "three", .nodes_min = 2, .nodes_max = 3});
    const struct job *job = story_job(&s, "j1");
    struct story_worker *evaluates = story_worker(&s, "j1", 0, NULL);
    evaluates->never_joins = true;
    story_node_up(&s, "c", 1);
    story_expect(&s, "c ready reported\nj1 reforming growing\n");
    s.nodes[2].breaks = true;
    story_follow(&s);
    int64_t failed_ms = s.now_ms;
    evaluates->never_joins = false;
    story_wait(&s, 2000);
    story_expect(&s, "j1 running all_joined\n");
    cr_expect_eq(job->current.world, 2);
    cr_expect_eq(job->restarts, 0);
    cr_expect_eq(job->restarts_without_progress, 0);
    cr_expect_eq(job->grow_after_ms, failed_ms + GROW_BACKOFF_MS);
}

Test(deadlines, who_is_to_join_a_growing_gang_and_does_not_leaves_it_alone)
{
    story_running_pair(&s, &(struct story_spec){.name = "three", .nodes_min = 2, .nodes_max = 3});
    const struct job *job = story_job(&s, "j1");
    s.nodes[s.nodes_count++] = (struct story_node){.name = "c", .incarnation = 9, .slots = 1};
    story_register(&s, "c", false);
    s.nodes[2].workers[0] = (struct story_worker){.uid = 3, .job = "j1", .never_joins = true};
    s.nodes[2].workers_count = 1;
    story_wait(&s, START_TIMEOUT_MS - 1000);
    cr_assert_eq(job->forming.generation, 2);
    story_wait(&s, 2000);
    story_expect(&s, "c ready reported\n");
    cr_expect_eq(job->forming.generation, 0);
    cr_expect_eq(job->current.generation, 1);
    cr_expect_eq(job->restarts, 0);
    cr_expect_gt(job->grow_after_ms, s.now_ms);
    story_cancel(&s, "j1");
    uint64_t generation = 0;
    cluster_assignments(s.cluster, "a", remember_generation, &generation);
    cr_expect_eq(generation, 1, "nobody was told of the second");
}

/* From when they are asked, not from when its newcomers were started. */
Test(deadlines, who_is_to_make_room_for_growth_has_all_its_time)
{
    story_running_pair(&s, &(struct story_spec){.name = "three", .nodes_min = 2, .nodes_max = 3});
    story_worker(&s, "j1", 0, NULL)->never_joins = true;
    s.nodes[s.nodes_count++] = (struct story_node){.name = "c", .incarnation = 9, .slots = 1};
    story_register(&s, "c", false);
    s.nodes[2].workers[0] = (struct story_worker){.uid = 3, .job = "j1", .never_joins = true};
    s.nodes[2].workers_count = 1;
    story_wait(&s, START_TIMEOUT_MS - 5000);
    s.nodes[2].workers[0].never_joins = false;
    story_wait(&s, 1000);
    story_expect(&s, "c ready reported\nj1 reforming growing\n");
    story_wait(&s, SURVIVOR_TIMEOUT_MS - 2000);
    story_expect(&s, "");
    story_wait(&s, 4000);
    cr_expect(strstr(s.trace, "j1 restarting join_timeout\n"), "%s", s.trace);
}

Test(deadlines, who_was_held_back_has_all_its_time)
{
    story_running_pair(
        &s,
        &(struct story_spec){.name = "j", .nodes_min = 2, .nodes_max = 2, .backoff = "100s..100s"});
    for (int i = 0; i < 2; i++) {
        story_exit(&s, "j1", 0, 7);
        story_follow(&s);
    }
    s.trace[0] = 0;
    story_wait(&s, 111000);
    story_expect(&s, "j1 running all_joined\n");
}

Test(deadlines, a_step_of_who_is_no_member_yet_is_none_of_the_job)
{
    story_running_pair(&s, &(struct story_spec){.name = "three", .nodes_min = 2, .nodes_max = 3});
    story_progress(&s, "j1", 10);
    s.nodes[s.nodes_count++] = (struct story_node){.name = "c", .incarnation = 9, .slots = 1};
    story_register(&s, "c", false);
    s.nodes[2].workers[0] =
        (struct story_worker){.uid = 3, .job = "j1", .never_joins = true, .step = 500};
    s.nodes[2].workers_count = 1;
    story_report(&s, "c");
    cr_expect_eq(story_job(&s, "j1")->step, 10);
}

Test(deadlines, who_says_hello_late_has_its_time_from_then_on)
{
    s.unaware = true;
    story_two_nodes(&s);
    story_submit(&s, &story_rigid);
    story_follow(&s);
    story_wait(&s, START_TIMEOUT_MS + 10000);
    s.trace[0] = 0;
    struct story_worker *slow = story_worker(&s, "j1", 1, NULL);
    s.unaware = false;
    slow->never_joins = true;
    story_wait(&s, START_TIMEOUT_MS - 2000);
    story_expect(&s, "");
    slow->never_joins = false;
    story_wait(&s, 1000);
    story_expect(&s, "");
    cr_expect(story_job(&s, "j1")->current.joined);
}
