/* A cluster many share, as stories with exact traces: who goes first, who lends, who gives way. */
#include <string.h>

#include <criterion/criterion.h>

#include "coordinator/model/tenant.h"
#include "coordinator/scheduler/scheduler.h"
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

TestSuite(sharing, .init = begin, .fini = finish);

static void nodes(int count)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < count; i++)
        story_node_up(&s, names[i], 1);
    s.trace[0] = 0;
}

static const char *submit(const char *name, int min, int max, const char *tenant)
{
    story_submit(&s, &(struct story_spec){
                         .name = name, .nodes_min = min, .nodes_max = max, .tenant = tenant});
    story_follow(&s);
    return s.answered;
}

static void submit_priority(const char *name, int min, int max, int priority)
{
    story_submit(&s, &(struct story_spec){
                         .name = name, .nodes_min = min, .nodes_max = max, .priority = priority});
    story_follow(&s);
}

static void submit_bounded(const char *name, int nodes_count, const char *max_runtime)
{
    story_submit(&s, &(struct story_spec){.name = name,
                                          .nodes_min = nodes_count,
                                          .nodes_max = nodes_count,
                                          .max_runtime = max_runtime});
    story_follow(&s);
}

static enum job_state state(const char *id)
{
    return story_job(&s, id)->state;
}

Test(sharing, a_large_gang_is_not_starved_by_a_stream_of_small_jobs)
{
    nodes(2);
    submit("small-1", 1, 1, NULL);
    submit("gang", 2, 2, NULL);
    for (int i = 0; i < 5; i++)
        submit("later", 1, 1, NULL);
    story_expect(&s, "j1 queued submitted\nj1 starting placed\nj1 running all_joined\n"
                     "j2 queued submitted\nj3 queued submitted\nj4 queued submitted\n"
                     "j5 queued submitted\nj6 queued submitted\nj7 queued submitted\n");
    story_exit(&s, "j1", 0, 0);
    story_follow(&s);
    story_expect(&s, "j1 succeeded succeeded\nj2 starting placed\nj2 running all_joined\n");
}

Test(sharing, of_two_tenants_the_one_with_less_for_its_weight_goes_first)
{
    story_tenant(&s, "red", 1, 0, 0);
    story_tenant(&s, "blue", 3, 0, 0);
    for (int i = 0; i < 4; i++)
        story_submit(&s, &(struct story_spec){.name = "r", .nodes_min = 1, .tenant = "red"});
    for (int i = 0; i < 4; i++)
        story_submit(&s, &(struct story_spec){.name = "b", .nodes_min = 1, .tenant = "blue"});
    s.trace[0] = 0;
    nodes(4); /* one slot after another */
    int red = 0, blue = 0;
    for (int i = 1; i <= 8; i++) {
        char id[8] = {'j', (char)('0' + i), 0};
        red += i <= 4 && state(id) == JOB_RUNNING;
        blue += i > 4 && state(id) == JOB_RUNNING;
    }
    cr_expect_eq(red, 1);
    cr_expect_eq(blue, 3);
}

Test(sharing, use_fades_with_its_half_life)
{
    nodes(2);
    submit("r", 1, 1, "red");
    const struct tenant *red = cluster_tenant(s.cluster, "red");
    story_wait(&s, 1000);
    cr_expect_eq(red->slots_used, 1);
    int64_t now = s.now_ms;
    cr_expect_float_eq(tenant_use(red, now + USE_HALF_LIFE_MS), 0.5, 0.01);
    cr_expect_float_eq(tenant_use(red, now + 2 * (int64_t)USE_HALF_LIFE_MS), 0.75, 0.01);
}

Test(sharing, a_limit_is_never_passed_and_holds_nobody_else_up)
{
    story_tenant(&s, "red", 1, 0, 2);
    nodes(4);
    submit("one", 1, 4, "red");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2, "it grows up to the limit only");
    struct reason reasons[8];
    cr_assert_eq(core_why(s.cluster, story_job(&s, "j1"), reasons, 8), 2);
    cr_expect_str_eq(reasons[1].kind, "tenant_limit");
    cr_expect_eq(story_job(&s, "j1")->current.generation, 1, "it does not try what it may not");
    submit("two", 1, 1, "red");
    submit("other", 1, 1, "blue");
    cr_expect_str_eq(story_job(&s, "j2")->reason.kind, "tenant_limit");
    cr_expect_geq(core_why(s.cluster, story_job(&s, "j2"), reasons, 8), 1);
    cr_expect_str_eq(reasons[0].kind, "tenant_limit");
    cr_expect_eq(state("j3"), JOB_RUNNING);
    cr_expect_leq(cluster_tenant(s.cluster, "red")->slots_used, 2);
    story_submit(
        &s, &(struct story_spec){.name = "big", .nodes_min = 3, .nodes_max = 3, .tenant = "red"});
    cr_expect_eq(s.error.code, E_FAILED_PRECONDITION);
    cr_expect_str_eq(s.error.field, "tenant");
}

Test(sharing, idle_guaranteed_slots_are_lent_and_reclaimed)
{
    story_tenant(&s, "owner", 1, 2, 0);
    nodes(2);
    submit("borrower", 2, 2, "guest");
    story_expect(&s, "j1 queued submitted\nj1 starting placed\nj1 running all_joined\n");
    story_progress(&s, "j1", 10);
    submit("owed", 1, 1, "owner");
    story_expect(&s, "j2 queued submitted\nj1 preempting preempted\n"
                     "j2 starting placed\nj1 queued preempted\nj2 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->restarts, 0, "giving way costs nothing");
    story_exit(&s, "j2", 0, 0);
    story_follow(&s);
    story_expect(&s, "j2 succeeded succeeded\nj1 starting placed\nj1 running all_joined\n");
}

Test(sharing, what_is_guaranteed_is_not_reclaimed_from_those_within_their_own)
{
    story_tenant(&s, "x", 1, 2, 0);
    story_tenant(&s, "y", 1, 2, 0);
    nodes(2);
    submit("x1", 2, 2, "x");
    submit("y1", 1, 1, "y");
    cr_expect_eq(state("j1"), JOB_RUNNING);
    cr_expect_eq(state("j2"), JOB_QUEUED);
}

/* A gang of a program that is not libworker's has three nodes, of which its tenant is guaranteed
 * some, when another asks for its own two.
 */
static void owed_two_of_an_unaware_gang(int nodes_min, int guaranteed, int priority)
{
    s.unaware = true;
    story_tenant(&s, "x", 1, guaranteed, 0);
    story_tenant(&s, "y", 1, 2, 0);
    nodes(3);
    submit("elastic", nodes_min, 3, "x");
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    cr_assert_eq(story_job(&s, "j1")->current.nodes, 3);
    s.trace[0] = 0;
    story_submit(
        &s,
        &(struct story_spec){
            .name = "owed", .nodes_min = 2, .nodes_max = 2, .priority = priority, .tenant = "y"});
    story_follow(&s);
}

Test(sharing, what_an_unaware_elastic_gang_has_beyond_its_guarantee_is_reclaimed_by_a_restart)
{
    owed_two_of_an_unaware_gang(1, 1, -10);
    story_expect(&s, "j2 queued submitted\nj1 preempting preempted\nj2 starting placed\n"
                     "j1 queued preempted\nj1 starting placed\n");
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    cr_expect_eq(story_job(&s, "j1")->current.nodes, 1, "its minimum is guaranteed");
    cr_expect_eq(story_job(&s, "j2")->current.nodes, 2);
    cr_expect_eq(story_job(&s, "j1")->restarts, 0, "giving way costs nothing");
}

Test(sharing, an_unaware_elastic_gang_does_not_end_where_it_would_not_come_back)
{
    owed_two_of_an_unaware_gang(2, 2, 10);
    cr_expect_eq(state("j1"), JOB_RUNNING);
    cr_expect_eq(state("j2"), JOB_QUEUED);
}

Test(sharing, an_elastic_gang_keeps_what_is_guaranteed_and_gives_back_the_rest)
{
    story_tenant(&s, "x", 1, 2, 0);
    story_tenant(&s, "y", 1, 2, 0);
    nodes(4);
    submit("elastic", 1, 4, "x");
    cr_assert_eq(story_job(&s, "j1")->current.nodes, 4);
    submit_priority("greedy", 3, 3, 10);
    cr_expect_eq(state("j2"), JOB_QUEUED, "it would leave less than what is guaranteed");
    story_cancel(&s, "j2");
    s.trace[0] = 0;
    story_submit(
        &s, &(struct story_spec){
                .name = "owed", .nodes_min = 2, .nodes_max = 2, .priority = -10, .tenant = "y"});
    story_follow(&s);
    story_expect(&s, "j3 queued submitted\nj1 reforming shrunk\nj1 running all_joined\n"
                     "j3 starting placed\nj3 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.nodes, 2);
}

Test(sharing, a_gang_does_not_end_because_a_larger_one_of_its_tenant_does)
{
    story_tenant(&s, "x", 1, 1, 0);
    nodes(4);
    submit("small", 1, 1, "x");
    submit("large", 3, 3, "x");
    submit_priority("all", 4, 4, 10);
    cr_expect_eq(state("j1"), JOB_RUNNING, "with the other gone it is covered");
    cr_expect_eq(state("j2"), JOB_RUNNING, "and without it the other is not enough");
    submit_priority("three", 3, 3, 10);
    cr_expect_eq(state("j1"), JOB_RUNNING);
}

Test(sharing, a_gang_comes_back_smaller_because_another_of_its_tenant_ends)
{
    s.unaware = true;
    story_tenant(&s, "x", 1, 1, 0);
    nodes(4);
    submit("small", 1, 2, "x");
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    submit("large", 2, 2, "x");
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    cr_assert_eq(story_job(&s, "j1")->current.nodes, 2);
    submit_priority("most", 3, 3, 10);
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    cr_expect_eq(state("j3"), JOB_RUNNING);
    cr_expect_eq(state("j2"), JOB_QUEUED);
    cr_expect_eq(story_job(&s, "j1")->current.nodes, 1);
}

Test(sharing, a_short_job_goes_in_between_only_if_it_delays_nobody)
{
    nodes(2);
    submit_bounded("runs", 1, "1h");
    submit_bounded("gang", 2, NULL);
    submit_bounded("endless", 1, NULL);
    submit_bounded("long", 1, "2h");
    submit_bounded("short", 1, "10m");
    story_expect(&s, "j1 queued submitted\nj1 starting placed\nj1 running all_joined\n"
                     "j2 queued submitted\nj3 queued submitted\nj4 queued submitted\n"
                     "j5 queued submitted\nj5 starting placed\nj5 running all_joined\n");
    int64_t starts = story_job(&s, "j2")->starts_at_ms;
    cr_expect_eq(starts, story_job(&s, "j1")->runtime_deadline_ms + END_SLACK_MS);
    story_exit(&s, "j5", 0, 0);
    story_exit(&s, "j1", 0, 0);
    story_follow(&s);
    story_expect(&s, "j5 succeeded succeeded\nj1 succeeded succeeded\nj2 starting placed\n"
                     "j2 running all_joined\n");
    struct reason reasons[4];
    cr_expect_geq(core_why(s.cluster, story_job(&s, "j3"), reasons, 4), 1);
}

Test(sharing, an_elastic_gang_gives_a_node_back_to_who_waits_and_takes_it_again)
{
    nodes(2);
    submit("elastic", 1, 2, NULL);
    story_expect(&s, "j1 queued submitted\nj1 starting placed\nj1 running all_joined\n");
    submit("other", 1, 1, NULL);
    story_expect(&s, "j2 queued submitted\nj1 reforming shrunk\nj1 running all_joined\n"
                     "j2 starting placed\nj2 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 1);
    cr_expect_eq(story_job(&s, "j1")->restarts, 0);
    story_exit(&s, "j2", 0, 0);
    story_follow(&s);
    story_expect(&s, "j2 succeeded succeeded\nj1 reforming growing\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
}

Test(sharing, nobody_gives_a_node_back_if_that_would_not_be_enough)
{
    nodes(2);
    submit("elastic", 1, 2, NULL);
    submit("gang", 2, 2, NULL);
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
    cr_expect_eq(state("j2"), JOB_QUEUED);
}

Test(sharing, shrinking_comes_before_ending)
{
    nodes(3);
    submit_priority("elastic", 1, 2, 0);
    submit_priority("rigid", 1, 1, -10);
    s.trace[0] = 0;
    submit_priority("urgent", 1, 1, 100);
    story_expect(&s, "j3 queued submitted\nj1 reforming shrunk\nj1 running all_joined\n"
                     "j3 starting placed\nj3 running all_joined\n");
}

Test(sharing, scaling_down_and_up_in_place)
{
    nodes(3);
    submit("elastic", 1, 3, NULL);
    s.trace[0] = 0;
    story_scale(&s, "j1", 1, 2);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    story_follow(&s);
    story_expect(&s, "j1 reforming scaled\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
    story_scale(&s, "j1", 3, 3);
    story_follow(&s);
    story_expect(&s, "j1 reforming growing\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 3);
    cr_expect_eq(story_job(&s, "j1")->spec->nodes_min, 3);
    story_scale(&s, "j1", 9, 9);
    cr_expect_eq(s.error.code, E_FAILED_PRECONDITION);
    story_scale(&s, "j9", 1, 1);
    cr_expect_eq(s.error.code, E_NOT_FOUND);
}

Test(sharing, scaling_a_job_in_the_queue_lets_it_start)
{
    nodes(2);
    submit_bounded("holder", 1, NULL);
    submit_bounded("gang", 2, NULL);
    cr_expect_eq(state("j2"), JOB_QUEUED);
    story_scale(&s, "j2", 1, 1);
    story_follow(&s);
    cr_expect_eq(state("j2"), JOB_RUNNING);
}

Test(sharing, a_gang_without_topology_uses_as_few_racks_as_can_be)
{
    static const char *const racks[] = {"r1", "r2", "r2", "r1"};
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        story_node_label(&s, names[i], "rack", racks[i]);
        story_node_up(&s, names[i], 1);
    }
    submit("one", 1, 1, NULL);
    submit("two", 2, 2, NULL);
    const struct job *job = story_job(&s, "j2");
    cr_assert_eq(job->current.world, 2);
    cr_expect_str_eq(job_worker(job, job->current.members[0])->node, "b");
    cr_expect_str_eq(job_worker(job, job->current.members[1])->node, "c");
}

Test(sharing, a_silent_node_whose_ranks_demonstrably_train_on_is_not_lost)
{
    nodes(2);
    submit("pair", 2, 2, NULL);
    s.trace[0] = 0;
    story_gone(&s, "b");
    for (int i = 1; i <= 10; i++) {
        story_worker(&s, "j1", 0, NULL)->step = (uint64_t)i;
        story_wait(&s, 1000);
    }
    story_expect(&s, "b unreachable connection_lost\n");
    cr_expect_str_eq(cluster_node(s.cluster, "b")->reason.kind, "still_trains");
    story_wait(&s, EVIDENCE_MS + 2000);
    story_expect(&s, "b lost lease_expired\nj1 restarting node_lost\n");
}

Test(sharing, a_node_that_flaps_within_its_lease_disturbs_nobody)
{
    nodes(2);
    submit("pair", 2, 2, NULL);
    s.trace[0] = 0;
    for (int i = 0; i < 3; i++) {
        story_gone(&s, "b");
        story_wait(&s, 1000);
        story_register(&s, "b", true);
        story_follow(&s);
    }
    story_expect(&s, "b unreachable connection_lost\nb ready reported\n"
                     "b unreachable connection_lost\nb ready reported\n"
                     "b unreachable connection_lost\nb ready reported\n");
    cr_expect_eq(story_job(&s, "j1")->current.generation, 1);
}

Test(sharing, draining_moves_a_gang_to_a_free_node_and_uncordon_lets_it_be_used)
{
    nodes(3);
    submit("gang", 2, 2, NULL);
    s.trace[0] = 0;
    story_node_set(&s, "b", NODE_DRAIN);
    story_follow(&s);
    story_expect(&s, "b draining administrator\nj1 reforming node_drained\n"
                     "j1 running all_joined\nb drained administrator\n");
    cr_expect_eq(cluster_node(s.cluster, "b")->slots_used, 0);
    submit("later", 1, 1, NULL);
    struct reason reasons[8];
    int count = core_why(s.cluster, story_job(&s, "j2"), reasons, 8);
    cr_expect_str_eq(reasons[count - 1].kind, "node_health");
    story_node_set(&s, "b", NODE_UNCORDON);
    story_follow(&s);
    cr_expect_eq(state("j2"), JOB_RUNNING);
}

Test(sharing, a_wish_for_more_nodes_is_tried_at_once)
{
    story_running_pair(&s, &(struct story_spec){.name = "three", .nodes_min = 2, .nodes_max = 3});
    s.nodes[2].breaks = true;
    story_node_up(&s, "c", 1);
    s.nodes[2].breaks = false;
    const struct job *job = story_job(&s, "j1");
    cr_assert_eq(job->grow_after_ms, s.now_ms + GROW_BACKOFF_MS);
    story_scale(&s, "j1", 2, 4);
    story_follow(&s);
    cr_expect_eq(job->current.world, 3);
}

Test(sharing, a_number_of_nodes_that_its_mesh_does_not_divide_is_refused)
{
    story_running_pair(&s, &story_pair);
    story_job(&s, "j1")->spec->mesh_fixed = 2;
    story_scale(&s, "j1", 1, 2);
    cr_expect_eq(s.error.code, E_INVALID_ARGUMENT);
    cr_expect(strstr(s.error.text, "its 1 worker cannot be divided by cp x tp x pp = 2"), "%s",
              s.error.text);
    story_scale(&s, "j1", 2, 2);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
}
