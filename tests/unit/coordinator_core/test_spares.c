/* Hot spares, as stories: a gang at its full size keeps nodes beside it and uses them at once. */
#include <string.h>

#include <criterion/criterion.h>

#include "coordinator/model/tenant.h"
#include "coordinator/scheduler/plan.h"
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

TestSuite(spares, .init = begin, .fini = finish);

static void nodes(int count)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < count; i++)
        story_node_up(&s, names[i], 1);
    s.trace[0] = 0;
}

static void submit(const char *name, int min, int max, int keeps)
{
    story_submit(&s, &(struct story_spec){
                         .name = name, .nodes_min = min, .nodes_max = max, .spares = keeps});
    story_follow(&s);
}

static void submit_priority(const char *name, int priority)
{
    story_submit(&s, &(struct story_spec){.name = name, .nodes_min = 1, .priority = priority});
    story_follow(&s);
}

/* "c d": the nodes it keeps. */
static const char *kept(const char *id)
{
    static char text[64];
    const struct job *job = story_job(&s, id);
    text[0] = 0;
    for (int i = 0; i < job->workers_count; i++) {
        const struct worker *worker = &job->workers[i];
        if (!worker->spare || worker->state == WORKER_EXITED)
            continue;
        (void)strcat(text, text[0] ? " " : "");
        (void)strcat(text, worker->node);
    }
    return text;
}

static void loses(const char *node)
{
    story_node_dies(&s, node);
    story_wait(&s, LEASE_MS + 1000);
}

Test(spares, a_rigid_gang_that_loses_a_node_keeps_its_size)
{
    nodes(3);
    submit("gang", 2, 2, 1);
    story_expect(&s, "j1 queued submitted\nj1 starting placed\nj1 running all_joined\n");
    cr_expect_str_eq(kept("j1"), "c");
    cr_expect_eq(cluster_tenant(s.cluster, "default")->slots_used, 3, "it is its tenant's");
    submit("other", 1, 1, 0);
    cr_expect_str_eq(story_job(&s, "j2")->reason.kind, "waiting_for_slots");
    s.trace[0] = 0;
    loses("b");
    story_expect(&s, "b unreachable connection_lost\nb lost lease_expired\n"
                     "j1 reforming node_lost\nj1 running all_joined\n");
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->current.world, 2);
    cr_expect_str_eq(job_worker(job, job->current.members[1])->node, "c");
    cr_expect_eq(job->restarts, 0);
    cr_expect_str_empty(kept("j1"));
    story_register(&s, "b", true);
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j2")->state, JOB_RUNNING, "who waits goes before a spare");
    story_exit(&s, "j2", 0, 0);
    story_follow(&s);
    cr_expect_str_eq(kept("j1"), "b", "and it has one again");
}

Test(spares, an_elastic_gang_goes_on_at_once_and_grows_by_its_spare)
{
    nodes(3);
    submit("gang", 1, 2, 1);
    cr_expect_str_eq(kept("j1"), "c");
    submit("other", 1, 1, 0);
    s.trace[0] = 0;
    cr_expect_str_empty(kept("j1"), "an equal that waits is given it");
    story_exit(&s, "j2", 0, 0);
    story_follow(&s);
    cr_expect_str_eq(kept("j1"), "c");
    s.trace[0] = 0;
    loses("b");
    story_expect(&s, "b unreachable connection_lost\nb lost lease_expired\n"
                     "j1 reforming node_lost\nj1 running all_joined\n"
                     "j1 reforming growing\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
    cr_expect_str_empty(kept("j1"));
}

Test(spares, nothing_is_kept_before_the_gang_is_whole)
{
    nodes(2);
    submit("gang", 1, 3, 1);
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
    cr_expect_str_empty(kept("j1"));
    story_node_up(&s, "c", 1);
    story_node_up(&s, "d", 1);
    cr_expect_eq(story_job(&s, "j1")->current.world, 3);
    cr_expect_str_eq(kept("j1"), "d");
}

Test(spares, a_higher_priority_takes_the_spare_and_harms_nobody)
{
    nodes(3);
    submit("gang", 2, 2, 1);
    submit_priority("equal", 0);
    cr_expect_eq(story_job(&s, "j2")->state, JOB_QUEUED, "a rigid gang gives an equal nothing");
    s.trace[0] = 0;
    submit_priority("urgent", 10);
    story_expect(&s, "j3 queued submitted\nj3 starting placed\nj3 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
    cr_expect_str_empty(kept("j1"));
}

Test(spares, a_spare_on_a_node_that_is_drained_or_lost_is_replaced)
{
    nodes(4);
    submit("gang", 2, 2, 1);
    s.trace[0] = 0;
    story_node_set(&s, "c", NODE_DRAIN);
    story_follow(&s);
    cr_expect_str_eq(kept("j1"), "d");
    cr_expect_eq(cluster_node(s.cluster, "c")->slots_used, 0);
    story_node_set(&s, "c", NODE_UNCORDON);
    loses("d");
    cr_expect_str_eq(kept("j1"), "c");
    story_expect(&s, "c draining administrator\nc ready reported\n"
                     "d unreachable connection_lost\nd lost lease_expired\n");
}

Test(spares, limits_of_tenants_hold_and_a_restart_of_the_coordinator_keeps_them)
{
    story_tenant(&s, "default", 1, 0, 3);
    nodes(4);
    submit("gang", 2, 2, 2);
    cr_expect_str_eq(kept("j1"), "c", "one of two: the tenant may use no more");
    story_send(&s, &(struct event){.kind = EVENT_RESTORED});
    story_wait(&s, 3000);
    cr_expect_str_eq(kept("j1"), "c");
    story_cancel(&s, "j1");
    story_follow(&s);
    cr_expect_eq(cluster_tenant(s.cluster, "default")->slots_used, 0);
}

Test(spares, a_plan_counts_on_them)
{
    struct forecast forecast;
    nodes(3);
    submit("gang", 2, 2, 1);
    struct what_if drain = {.drained = {cluster_node(s.cluster, "b")}, .drained_count = 1};
    cr_assert_eq(scheduler_plan(s.cluster, &drain, &forecast, NULL), 0);
    cr_assert_eq(forecast.effects_count, 1);
    cr_expect_eq(forecast.effects[0].kind, EFFECT_MOVES);
    s.trace[0] = 0;
    story_node_set(&s, "b", NODE_DRAIN);
    story_follow(&s);
    story_expect(&s, "b draining administrator\nj1 reforming node_drained\n"
                     "j1 running all_joined\nb drained administrator\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
}

/* A gang of `min` nodes, of the first of a and b, that starts again to grow; and one on x and y
 * that keeps a spare; v and w are cordoned. */
static void beside_one_that_grows(int min, int max)
{
    nodes(min);
    story_submit(&s,
                 &(struct story_spec){
                     .name = "grows", .nodes_min = min, .nodes_max = max, .elastic = "restart"});
    story_follow(&s);
    for (const char *const *name = (const char *const[]){"x", "y", "v", "w", NULL}; *name; name++) {
        story_node_up(&s, *name, 1);
        story_node_set(&s, *name, NODE_CORDON);
    }
    submit("gang", 2, 2, 1);
    story_node_set(&s, "x", NODE_UNCORDON);
    story_node_set(&s, "y", NODE_UNCORDON);
    story_wait(&s, RESIZE_SETTLE_MS);
    cr_assert_eq(story_job(&s, "j1")->current.nodes, min, "%s", s.trace);
    cr_assert_eq(story_job(&s, "j2")->current.nodes, 2, "%s", s.trace);
    s.trace[0] = 0;
}

Test(spares, one_is_kept_though_another_gang_is_to_grow_later)
{
    beside_one_that_grows(1, 2);
    story_node_set(&s, "v", NODE_UNCORDON);
    cr_expect_str_eq(kept("j2"), "v");
    story_wait(&s, 2 * RESIZE_SETTLE_MS);
    story_expect(&s, "v ready reported\n");
    cr_expect_str_eq(kept("j2"), "v", "it stays where it is");
}

/* What is free while it ends is for it, beyond what it needs, too. */
Test(spares, none_is_kept_while_a_gang_starts_again_to_grow)
{
    beside_one_that_grows(2, 2);
    story_scale(&s, "j1", 2, 4);
    cr_assert_eq(s.error.code, 0, "%s", s.error.text);
    s.trace[0] = 0;
    story_node_set(&s, "v", NODE_UNCORDON);
    story_node_set(&s, "w", NODE_UNCORDON);
    cr_expect_str_empty(kept("j2"));
    story_follow(&s);
    story_expect(&s, "v ready reported\nj1 restarting growing\nw ready reported\n"
                     "j1 starting placed\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.nodes, 4);
    cr_expect_str_empty(kept("j2"));
    story_scale(&s, "j1", 2, 3);
    story_follow(&s);
    cr_expect_neq(kept("j2")[0], 0, "one is kept again where nothing grows");
}

Test(spares, a_gang_that_is_to_have_more_nodes_takes_its_spare_first)
{
    nodes(4);
    submit("gang", 2, 2, 1);
    cr_expect_str_eq(kept("j1"), "c");
    story_node_set(&s, "d", NODE_CORDON);
    s.trace[0] = 0;
    story_scale(&s, "j1", 3, 3);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    story_follow(&s);
    story_expect(&s, "j1 reforming growing\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.nodes, 3);
    cr_expect_str_eq(story_records(&s, "spare")->newest.reason.text, "node c becomes a member");
    cr_expect_str_empty(kept("j1"));
}
