/* Nodes that are lost, return, are drained, or say things twice. Stories
 * on virtual time: what happens, and the exact trace it leaves. */
#include <criterion/criterion.h>
#include <signal.h>

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

TestSuite(nodes, .init = begin, .fini = finish);

Test(nodes, a_lost_node_shrinks_the_gang_in_place_and_a_returning_one_grows_it)
{
    story_running_pair(&s, &story_pair);
    story_progress(&s, "j1", 5);
    story_node_dies(&s, "b");
    story_wait(&s, LEASE_MS + 1000);
    story_expect(&s, "b unreachable connection_lost\nb lost lease_expired\n"
                     "j1 reforming node_lost\nj1 running all_joined\n");
    struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->current.world, 1);
    cr_expect_eq(job->restarts, 0, "a lost node costs nothing");
    cr_expect_eq(job->recoveries, 1);
    story_register(&s, "b", true);
    story_follow(&s);
    story_expect(&s, "b ready reported\nj1 reforming growing\nj1 running all_joined\n");
    cr_expect_eq(job->current.world, 2);
    cr_expect_eq(job->step, 5);
}

Test(nodes, peers_that_lost_its_ranks_make_a_gone_node_lost_at_once)
{
    story_running_pair(&s, &story_pair);
    struct story_worker *survivor = story_worker(&s, "j1", 0, NULL);
    story_node_dies(&s, "b");
    survivor->broken = 1;
    survivor->lost_ranks[0] = 1;
    survivor->lost_count = 1;
    story_report(&s, "a");
    story_follow(&s);
    story_expect(&s, "b unreachable connection_lost\nb lost peers_saw_it_die\n"
                     "j1 reforming node_lost\nj1 running all_joined\n");
}

Test(nodes, an_agent_that_returns_within_its_lease_costs_nothing)
{
    story_running_pair(&s, &story_pair);
    story_gone(&s, "b");
    story_wait(&s, 1500);
    story_register(&s, "b", true);
    story_follow(&s);
    story_expect(&s, "b unreachable connection_lost\nb ready reported\n");
    cr_expect_eq(story_job(&s, "j1")->current.generation, 1);
}

Test(nodes, repeated_and_late_reports_change_nothing)
{
    story_running_pair(&s, &story_pair);
    struct worker_report gone = {.job = "j1", .uid = 1, .state = WORKER_STARTING, .endpoint = ""};
    struct event late = {.kind = EVENT_NODE_REPORT, .request = 99};
    late.node_report.node = "a";
    late.node_report.incarnation = s.nodes[0].incarnation;
    late.node_report.sequence = 1;
    late.node_report.workers = &gone;
    late.node_report.workers_count = 0;
    int versions = s.versions;
    story_send(&s, &late);
    late.node_report.workers_count = 1;
    story_send(&s, &late);
    story_report(&s, "a");
    s.nodes[0].sequence--;
    story_report(&s, "a");
    story_expect(&s, "");
    cr_expect_eq(s.versions, versions, "nothing was to be told to an agent");
}

Test(nodes, an_agent_of_after_the_backup_is_asked_to_register_not_fenced)
{
    story_running_pair(&s, &story_pair);
    struct node *node = cluster_node(s.cluster, "b");
    uint64_t present = node->incarnation;
    node->incarnation = present + 7; /* what a restored store remembers, and nobody is any more */
    story_report(&s, "b");
    cr_expect_eq(s.error.code, E_NOT_FOUND);
    story_register(&s, "b", false);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    cr_expect_eq(node->incarnation, present);
    cr_expect(node_has_fenced(node, present + 7));
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
}

Test(nodes, an_old_agent_is_fenced)
{
    story_running_pair(&s, &story_pair);
    uint64_t old = s.nodes[1].incarnation;
    story_register(&s, "b", true);
    uint64_t present = s.nodes[1].incarnation;
    s.nodes[1].incarnation = old;
    story_report(&s, "b");
    cr_expect_eq(s.error.code, E_ABORTED);
    story_register(&s, "b", false);
    cr_expect_eq(s.error.code, E_ABORTED, "its registration came late");
    s.nodes[1].incarnation = present;
    s.nodes[1].sequence = 0;
    story_report(&s, "b");
    cr_expect_eq(s.error.code, 0);
    story_expect(&s, "");
}

Test(nodes, a_lost_node_below_the_minimum_is_replaced_by_a_free_one)
{
    story_running_pair(&s, &story_rigid);
    story_node_up(&s, "c", 1);
    s.trace[0] = 0;
    story_node_dies(&s, "b");
    story_wait(&s, LEASE_MS + 1000);
    story_expect(&s, "b unreachable connection_lost\nb lost lease_expired\n"
                     "j1 reforming node_lost\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
}

Test(nodes, a_replacement_is_not_put_where_a_dead_worker_is_replaced)
{
    story_node_up(&s, "a", 2);
    story_node_up(&s, "b", 2);
    story_node_up(&s, "c", 2);
    story_submit(&s, &(struct story_spec){.name = "three", .nodes_min = 3, .nodes_max = 3});
    story_follow(&s);
    s.trace[0] = 0;
    story_gone(&s, "c");
    struct story_worker *a = story_worker(&s, "j1", 0, NULL), *b = story_worker(&s, "j1", 1, NULL);
    b->exited = true;
    b->exit = (struct exit_info){.code = 1, .wall_ms = 1};
    a->broken = 1;
    a->lost_ranks[0] = 1;
    a->lost_ranks[1] = 2;
    a->lost_count = 2;
    story_report(&s, "a");
    story_report(&s, "b");
    story_follow(&s);
    story_expect(&s, "c unreachable connection_lost\nc lost peers_saw_it_die\n"
                     "j1 restarting node_lost\n");
}

Test(nodes, a_registration_that_comes_again_late_says_nothing_of_now)
{
    story_running_pair(&s, &story_pair);
    int count = s.nodes[1].workers_count;
    s.nodes[1].workers_count = 0;
    story_register(&s, "b", false);
    s.nodes[1].workers_count = count;
    story_wait(&s, 2000);
    story_expect(&s, "");
    cr_expect_eq(story_job(&s, "j1")->current.generation, 1);
}

Test(nodes, without_a_free_node_the_gang_waits_and_starts_again)
{
    story_running_pair(&s, &story_rigid);
    story_node_dies(&s, "b");
    story_wait(&s, LEASE_MS + 1000);
    story_expect(&s, "b unreachable connection_lost\nb lost lease_expired\n"
                     "j1 restarting node_lost\n");
    cr_expect_str_eq(story_job(&s, "j1")->reason.kind, "too_few_nodes");
    story_register(&s, "b", true);
    story_follow(&s);
    story_expect(&s, "b ready reported\nj1 starting placed\nj1 running all_joined\n");
}

Test(nodes, a_node_that_returns_with_old_workers_gets_new_ones_when_they_have_ended)
{
    story_running_pair(&s, &story_pair);
    story_gone(&s, "b");
    story_wait(&s, LEASE_MS + 1000);
    s.trace[0] = 0;
    s.nodes[1].workers[0].ignores_term = true;
    story_register(&s, "b", true);
    story_expect(&s, "b joining clearing\n");
    story_follow(&s);
    story_wait(&s, STOP_GRACE_MS + 1000);
    story_expect(&s, "b ready reported\nj1 reforming growing\nj1 running all_joined\n");
}

Test(nodes, a_process_that_cannot_be_killed_closes_its_node_until_it_has_gone)
{
    story_running_pair(&s, &story_pair);
    struct story_worker *w = story_worker(&s, "j1", 1, NULL);
    w->stuck = true;
    story_report(&s, "b");
    story_follow(&s);
    story_expect(&s, "b cordoned unkillable\nj1 reforming worker_lost\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.nodes, 1, "nobody waits for its slots");
    const struct node *b = cluster_node(s.cluster, "b");
    cr_expect(strstr(b->reason.text, "process 4711 of j1 cannot be killed"), "%s", b->reason.text);
    story_node_set(&s, "b", NODE_UNCORDON);
    story_wait(&s, 60000);
    story_expect(&s, "");
    cr_expect_eq(b->state, NODE_CORDONED, "an administrator's word does not free its slots");
    w->stuck = false;
    story_report(&s, "b");
    story_follow(&s);
    story_expect(&s, "b ready reported\nj1 reforming growing\nj1 running all_joined\n");
}

Test(nodes, what_an_administrator_wants_of_a_node_with_a_stuck_process_counts_after_it)
{
    story_running_pair(&s, &story_pair);
    struct story_worker *w = story_worker(&s, "j1", 1, NULL);
    w->stuck = true;
    story_report(&s, "b");
    story_follow(&s);
    s.trace[0] = 0;
    story_node_set(&s, "b", NODE_CORDON);
    const struct node *b = cluster_node(s.cluster, "b");
    cr_expect_str_eq(b->reason.kind, "unkillable");
    w->stuck = false;
    story_report(&s, "b");
    story_follow(&s);
    story_expect(&s, "");
    cr_expect_eq(b->state, NODE_CORDONED);
    cr_expect_str_eq(b->reason.kind, "administrator");
    w = story_worker(&s, "j1", 0, NULL);
    w->stuck = true;
    story_node_set(&s, "a", NODE_DRAIN);
    story_report(&s, "a");
    story_wait(&s, 2000);
    const struct node *a = cluster_node(s.cluster, "a");
    cr_expect_eq(a->state, NODE_DRAINING, "it is not empty");
    cr_expect_str_eq(a->reason.kind, "unkillable");
    w->stuck = false;
    story_report(&s, "a");
    story_follow(&s);
    cr_expect_eq(a->state, NODE_DRAINED);
    cr_expect_not(strstr(a->reason.text, "4711"), "%s", a->reason.text);
}

Test(nodes, draining_moves_a_gang_away)
{
    story_running_pair(&s, &story_pair);
    story_node_set(&s, "b", NODE_DRAIN);
    story_follow(&s);
    story_expect(&s, "b draining administrator\nj1 reforming node_drained\n"
                     "j1 running all_joined\nb drained administrator\n");
    cr_expect_eq(story_node(&s, "b")->workers_count, 0);
    const struct node *b = cluster_node(s.cluster, "b");
    cr_expect(strstr(b->reason.text, "nothing runs there"), "%s", b->reason.text);
    cr_expect(strstr(b->reason.hint, "muster uncordon b"), "%s", b->reason.hint);
    cr_expect_str_eq(story_records(&s, "worker_exited")->newest.reason.kind, "stopped");
    cr_expect_str_eq(story_records(&s, "worker_exited")->newest.reason.text,
                     "rank 1 was asked to stop (node b is being emptied): killed by signal 15");
    story_node_set(&s, "b", NODE_UNCORDON);
    story_follow(&s);
    story_expect(&s, "b ready reported\nj1 reforming growing\nj1 running all_joined\n");
}

static void note_complete(void *arg, const struct assignment *assignment)
{
    int *complete = arg;
    if (assignment->reform)
        *complete = assignment->complete;
}

/* With rank 1 on its way out. */
static int stays_complete(const char *node)
{
    int complete = -1;
    cluster_assignments(s.cluster, node, note_complete, &complete);
    return complete;
}

Test(nodes, who_leaves_a_gang_that_is_complete_has_time_to_end_its_step)
{
    story_running_pair(&s, &story_pair);
    story_worker(&s, "j1", 1, NULL)->ignores_term = true;
    story_worker(&s, "j1", 0, NULL)->never_joins = true; /* it is still in the step */
    story_node_set(&s, "b", NODE_DRAIN);
    story_follow(&s);
    cr_expect_eq(stays_complete("a"), 1);
    story_worker(&s, "j1", 1, NULL)->ignores_term = false;
    story_follow(&s);
    cr_expect_eq(stays_complete("a"), 0, "rank 1 has gone, the step will not end");
}

Test(nodes, a_rigid_gang_leaves_a_drained_node_and_waits)
{
    story_running_pair(&s, &(struct story_spec){.name = "r", .nodes_min = 2, .elastic = "off"});
    story_node_set(&s, "b", NODE_DRAIN);
    story_follow(&s);
    story_expect(&s, "b draining administrator\nj1 restarting node_drained\n"
                     "b drained administrator\n");
    cr_expect_eq(story_job(&s, "j1")->restarts, 0);
    story_node_set(&s, "b", NODE_UNCORDON);
    story_follow(&s);
    story_expect(&s, "b ready reported\nj1 starting placed\nj1 running all_joined\n");
}

Test(nodes, one_that_flaps_beyond_its_lease_costs_a_re_forming_each_time_and_no_restart)
{
    story_running_pair(&s, &story_pair);
    for (int i = 0; i < 3; i++) {
        story_node_dies(&s, "b");
        story_wait(&s, LEASE_MS + 1000);
        story_register(&s, "b", true);
        story_follow(&s);
        story_expect(&s, "b unreachable connection_lost\nb lost lease_expired\n"
                         "j1 reforming node_lost\nj1 running all_joined\nb ready reported\n"
                         "j1 reforming growing\nj1 running all_joined\n");
    }
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
    cr_expect_eq(story_job(&s, "j1")->restarts, 0);
}

Test(nodes, a_node_may_come_back_smaller_than_what_runs_there)
{
    story_node_up(&s, "a", 2);
    story_submit(&s, &(struct story_spec){.name = "j", .nodes_min = 1, .slots = 2});
    story_follow(&s);
    story_node(&s, "a")->slots = 1;
    story_register(&s, "a", true);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
}

Test(nodes, a_report_that_comes_twice_is_taken_once)
{
    story_running_pair(&s, &story_rigid);
    story_report(&s, "b");
    story_node(&s, "b")->sequence--;
    story_exit(&s, "j1", 1, 3);
    story_expect(&s, "");
    story_report(&s, "b");
    story_expect(&s, "j1 reforming worker_failed\n");
}

Test(nodes, the_end_of_an_earlier_connection_says_nothing_of_this_one)
{
    story_two_nodes(&s);
    struct event event = {.kind = EVENT_NODE_GONE};
    event.node_gone.node = "b";
    event.node_gone.incarnation = story_node(&s, "b")->incarnation;
    story_register(&s, "b", true);
    s.trace[0] = 0;
    story_send(&s, &event);
    story_expect(&s, "");
}

static void hold(uint32_t slots)
{
    story_node(&s, "g")->held = slots;
    story_report(&s, "g");
    story_follow(&s);
}

static void gpu_node(void)
{
    s.nodes[s.nodes_count].gpus = true;
    story_node_up(&s, "g", 2);
}

Test(nodes, a_slot_whose_gpu_has_memory_in_use_gets_no_job_until_it_is_free)
{
    const struct story_spec both = {.name = "both", .nodes_min = 1, .nodes_max = 1, .slots = 2};
    const struct story_spec one = {.name = "one", .nodes_min = 1, .nodes_max = 1, .slots = 1};
    gpu_node();
    hold(1);
    s.trace[0] = 0;
    story_submit(&s, &both);
    const char *why = story_text(&s, &story_job(&s, "j1")->reason);
    cr_expect(strstr(why, "0 of 1 ready node has that; 1 GPU is not free, as memory of ended "
                          "workers is still in use"),
              "%s", why);
    story_submit(&s, &one);
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j2")->state, JOB_RUNNING);
    cr_expect_eq(story_job(&s, "j2")->workers[0].slot, 1);
    story_cancel(&s, "j2");
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_QUEUED);
    hold(0);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
}

static void lose(uint32_t slots)
{
    story_node(&s, "g")->lost = slots;
    story_report(&s, "g");
    story_follow(&s);
}

Test(nodes, a_gpu_that_cannot_be_read_gets_no_job_until_it_can)
{
    const struct story_spec both = {.name = "both", .nodes_min = 1, .nodes_max = 1, .slots = 2};
    const struct story_spec one = {.name = "one", .nodes_min = 1, .nodes_max = 1, .slots = 1};
    gpu_node();
    lose(1);
    story_submit(&s, &both);
    const struct reason *reason = &story_job(&s, "j1")->reason;
    const char *why = story_text(&s, reason);
    cr_expect(strstr(why, "0 of 1 ready node has that; 1 GPU cannot be read any more"), "%s", why);
    cr_expect(strstr(reason->hint, "comes back when its machine"), "%s", reason->hint);
    story_submit(&s, &one);
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j2")->workers[0].slot, 1);
    story_cancel(&s, "j2");
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_QUEUED);
    lose(0);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    lose(3);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING, "its worker may still be fine");
}

/* Else its new rank would be refused there, again and again. */
Test(nodes, a_gang_leaves_a_node_where_its_lost_rank_would_get_a_held_slot)
{
    s.nodes[0].gpus = s.nodes[1].gpus = true;
    story_running_pair(&s, &story_pair);
    story_node(&s, "b")->held = 1;
    story_kill(&s, "j1", 1, SIGKILL);
    story_follow(&s);
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->state, JOB_RUNNING);
    cr_expect_eq(job->current.nodes, 1);
    story_node(&s, "b")->held = 0;
    story_report(&s, "b");
    story_follow(&s);
    cr_expect_eq(job->current.nodes, 2, "it grows");
}

Test(nodes, a_slot_that_no_gpu_has_cannot_be_held)
{
    story_two_nodes(&s);
    story_node(&s, "a")->held = 0xff;
    story_report(&s, "a");
    story_submit(&s, &story_rigid);
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
}
