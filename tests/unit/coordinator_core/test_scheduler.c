/* Who is placed where, who waits and with which reason, what is refused at submit. */
#include <string.h>

#include <criterion/criterion.h>

#include "common/base/str.h"
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

TestSuite(scheduler, .init = begin, .fini = finish);

Test(scheduler, higher_priority_goes_first_then_submission_order)
{
    story_submit(&s, &(struct story_spec){.name = "first", .nodes_min = 1});
    story_submit(&s, &(struct story_spec){.name = "second", .nodes_min = 1});
    story_submit(&s, &(struct story_spec){.name = "urgent", .nodes_min = 1, .priority = 100});
    story_node_up(&s, "a", 2);
    cr_expect_eq(story_job(&s, "j3")->state, JOB_RUNNING);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    cr_expect_eq(story_job(&s, "j2")->state, JOB_QUEUED);
}

Test(scheduler, a_waiting_gang_keeps_only_what_it_could_use)
{
    story_node_label(&s, "a", "gpu", "H200");
    story_node_up(&s, "a", 1);
    story_node_label(&s, "b", "gpu", "H200");
    story_node_up(&s, "b", 1);
    story_node_up(&s, "c", 1);
    story_submit(&s, &(struct story_spec){.name = "holder", .nodes_min = 1, .constraint = "H200"});
    story_follow(&s);
    story_submit(&s, &(struct story_spec){
                         .name = "gang", .nodes_min = 2, .nodes_max = 2, .constraint = "H200"});
    story_submit(&s, &(struct story_spec){.name = "small", .nodes_min = 1, .constraint = "H200"});
    story_submit(&s, &(struct story_spec){.name = "other", .nodes_min = 1});
    story_follow(&s);
    cr_expect_str_eq(story_job(&s, "j2")->reason.kind, "waiting_for_slots");
    cr_expect_eq(story_job(&s, "j3")->state, JOB_QUEUED);
    cr_expect_str_eq(story_job(&s, "j3")->reason.kind, "behind", "%s",
                     story_job(&s, "j3")->reason.text);
    cr_expect_eq(story_job(&s, "j4")->state, JOB_RUNNING, "node c is of no use to the gang");
    struct reason reasons[4];
    cr_expect_eq(core_why(s.cluster, story_job(&s, "j3"), reasons, 4), 2);
    cr_expect_str_eq(reasons[0].kind, "behind");
    cr_expect(strstr(story_text(&s, &reasons[1]), "j2 (gang"), "names who is before it: %s",
              reasons[1].text);
}

Test(scheduler, a_gang_that_cannot_fit_the_cluster_holds_nobody_up)
{
    story_node_up(&s, "a", 1);
    story_node_up(&s, "b", 1);
    story_submit(
        &s, &(struct story_spec){.name = "gang", .nodes_min = 2, .nodes_max = 2, .elastic = "off"});
    story_follow(&s);
    story_node_dies(&s, "b");
    story_wait(&s, 5000);
    story_submit(&s, &(struct story_spec){.name = "small", .nodes_min = 1});
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RESTARTING);
    cr_expect_eq(story_job(&s, "j2")->state, JOB_RUNNING);
}

Test(scheduler, a_reason_names_what_is_short)
{
    struct reason reason;
    story_node_up(&s, "a", 4);
    cluster_node(s.cluster, "a")->cpus_milli = 2000;
    for (int i = 0; i < 3; i++)
        story_submit(&s, &(struct story_spec){.name = "one", .nodes_min = 1});
    story_follow(&s);
    cr_assert_eq(core_why(s.cluster, story_job(&s, "j3"), &reason, 1), 1);
    cr_expect_str_eq(story_text(&s, &reason),
                     "needs 1 node with 1 free slot and 1 free CPU; 0 of 1 ready node has that; in "
                     "use by one, one");
    cluster_node(s.cluster, "a")->cpus_milli = 64000;
    story_submit(&s, &(struct story_spec){.name = "wide", .nodes_min = 1, .slots = 4});
    cr_assert_eq(core_why(s.cluster, story_job(&s, "j4"), &reason, 1), 1);
    cr_expect(strstr(reason.text, "needs 1 node with 4 free slots; 0 of"), "%s", reason.text);
}

/* With nothing left to give a pass seeks room for the first few only. The others must not go on
 * saying who was in their way before. */
Test(scheduler, those_in_front_of_the_queue_say_what_they_wait_for_now)
{
    enum { WAITING = 150 };
    struct reason now;
    char id[JOB_ID_MAX + 1];
    story_node_up(&s, "a", 4);
    story_node_up(&s, "b", 4);
    story_submit(&s,
                 &(struct story_spec){.name = "stays", .nodes_min = 1, .slots = 4, .priority = 10});
    story_submit(&s, &(struct story_spec){.name = "ends", .nodes_min = 1, .slots = 4});
    story_follow(&s);
    story_submit(&s,
                 &(struct story_spec){
                     .name = "gang", .nodes_min = 2, .nodes_max = 2, .slots = 4, .priority = 1});
    for (int i = 0; i < WAITING; i++)
        story_submit(&s, &(struct story_spec){.name = "one", .nodes_min = 1, .slots = 1 + i % 4});
    story_exit(&s, "j2", 0, 0);
    story_follow(&s);
    story_wait(&s, FRONT_REASONS_MS);
    for (int i = 0; i < WAITING; i++) {
        (void)str_printf(id, sizeof(id), "j%d", 4 + i);
        const struct job *job = story_job(&s, id);
        cr_assert_eq(job->state, JOB_QUEUED);
        cr_assert(core_why(s.cluster, job, &now, 1) == 1);
        cr_expect_str_eq(job->reason.text, now.text);
        cr_expect_str_eq(job->reason.kind, "behind", "%s: %s", id, job->reason.text);
    }
}

Test(scheduler, a_reason_names_the_nodes_that_are_away)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct reason reason;
    for (int i = 0; i < 5; i++)
        story_node_up(&s, names[i], 1);
    for (int i = 1; i < 5; i++)
        story_node_set(&s, names[i], NODE_CORDON);
    story_submit(&s, &(struct story_spec){.name = "gang", .nodes_min = 5, .nodes_max = 5});
    cr_assert_eq(core_why(s.cluster, story_job(&s, "j1"), &reason, 1), 1);
    cr_expect_str_eq(reason.text,
                     "needs 5 nodes; 5 could run it, 1 of them is there; not there: b, c, d and 1 "
                     "more");
}

static void expect_refused(const struct story_spec *spec, const char *field, const char *word)
{
    story_submit(&s, spec);
    cr_expect_eq(s.error.code, E_FAILED_PRECONDITION, "%s", s.error.text);
    cr_expect_str_eq(s.error.field, field);
    cr_expect(strstr(s.error.text, word), "%s", s.error.text);
    cr_expect_neq(s.error.hint[0], 0);
}

Test(scheduler, what_can_never_run_is_refused_with_what_would_fit)
{
    story_node_label(&s, "a", "rack", "r1");
    story_node_up(&s, "a", 4);
    story_node_label(&s, "b", "rack", "r2");
    story_node_up(&s, "b", 2);
    expect_refused(&(struct story_spec){.name = "x", .nodes_min = 1, .slots = 8}, "resources",
                   "1 worker needs 8 slots and 1 CPU on one node; the closest, a, has 4 slots, ");
    expect_refused(&(struct story_spec){.name = "x", .nodes_min = 3, .nodes_max = 3}, "nodes.min",
                   "needs 3 nodes; 2 could run it");
    expect_refused(&(struct story_spec){.name = "x", .nodes_min = 1, .constraint = "H200"},
                   "constraints", "gpu: H200");
    expect_refused(
        &(struct story_spec){.name = "x", .nodes_min = 2, .nodes_max = 2, .topology = "rack"},
        "topology", "same rack");
    cr_expect_eq(cluster_jobs_count(s.cluster), 0);
}

Test(scheduler, a_gang_too_large_for_all_nodes_is_told_the_one_that_lacks_least)
{
    story_node_up(&s, "a", 16);
    story_node_up(&s, "b", 4);
    cluster_node(s.cluster, "a")->cpus_milli = 2000;
    expect_refused(&(struct story_spec){.name = "x", .nodes_min = 1, .workers = 8}, "resources",
                   "8 workers need 8 slots and 8 CPUs on one node; the closest, b, has 4 slots, ");
}

Test(scheduler, a_topology_puts_the_gang_under_one_value)
{
    static const char *const racks[] = {"r1", "r2", "r2"};
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        story_node_label(&s, names[i], "rack", racks[i]);
        story_node_up(&s, names[i], 1);
    }
    story_submit(
        &s, &(struct story_spec){.name = "x", .nodes_min = 2, .nodes_max = 3, .topology = "rack"});
    story_follow(&s);
    const struct job *job = story_job(&s, "j1");
    cr_assert_eq(job->current.world, 2);
    cr_expect_str_eq(job_worker(job, job->current.members[0])->node, "b");
    cr_expect_str_eq(job_worker(job, job->current.members[1])->node, "c");
    cr_expect_eq(job->forming.generation, 0, "it does not grow to another rack");
}

Test(scheduler, workers_get_adjacent_slots_and_ranks_are_adjacent_on_a_node)
{
    story_node_up(&s, "a", 4);
    story_node_up(&s, "b", 4);
    story_submit(&s, &(struct story_spec){
                         .name = "x", .nodes_min = 2, .nodes_max = 2, .workers = 2, .slots = 2});
    story_follow(&s);
    const struct job *job = story_job(&s, "j1");
    for (int rank = 0; rank < 4; rank++) {
        const struct worker *w = job_worker(job, job->current.members[rank]);
        cr_expect_str_eq(w->node, rank < 2 ? "a" : "b");
        cr_expect_eq(w->local_rank, rank % 2);
        cr_expect_eq(w->slot, rank % 2 * 2);
        cr_expect_eq(job->current.places[rank].node_rank, rank / 2);
    }
}
