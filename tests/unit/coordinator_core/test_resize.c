/* Gangs that cannot change their size in place start again with another one: they grow, obey scale
 * both ways, and do not thrash. Stories on virtual time. */
#include <signal.h>
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

TestSuite(resize, .init = begin, .fini = finish);

static const struct story_spec elastic = {.name = "torch", .nodes_min = 1, .nodes_max = 3};

/* On nodes a and b of a slot each. */
static struct job *running_silently(const struct story_spec *spec)
{
    s.unaware = true;
    story_two_nodes(&s);
    story_submit(&s, spec);
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    story_expect(&s, "j1 queued submitted\nj1 starting placed\nj1 running all_started\n");
    return story_job(&s, "j1");
}

static const struct reason *why_of_kind(struct job *job, const char *kind)
{
    static struct reason reasons[4];
    int count = core_why(s.cluster, job, reasons, 4);
    for (int i = 0; i < count; i++)
        if (strcmp(reasons[i].kind, kind) == 0)
            return &reasons[i];
    return NULL;
}

static const struct reason *why(struct job *job)
{
    return why_of_kind(job, "growing");
}

Test(resize, a_silent_program_grows_again_after_a_node_was_lost)
{
    struct job *job = running_silently(&elastic);
    cr_assert_eq(job->current.nodes, 2);
    story_node_dies(&s, "b");
    story_wait(&s, LEASE_MS + UNAWARE_AFTER_MS + 2000);
    cr_assert_eq(job->current.nodes, 1);
    cr_expect(why(job) && strstr(why(job)->text, "has 1 of up to 3 nodes"));
    s.trace[0] = 0;
    story_register(&s, "b", true);
    story_wait(&s, RESIZE_CAPACITY_MS - 2000);
    cr_assert_not_null(why(job));
    cr_expect(strstr(why(job)->text, "starts again from its checkpoint with more in "), "%s",
              why(job)->text);
    cr_expect(strstr(why(job)->hint, "may be importing"), "%s", why(job)->hint);
    cr_expect_eq(job->current.nodes, 1, "it has only just begun to run");
    story_wait(&s, FIRST_WORD_MS);
    story_expect(&s, "b ready reported\nj1 restarting growing\n"
                     "j1 starting placed\nj1 running all_started\n");
    cr_expect_eq(job->current.nodes, 2);
    cr_expect_eq(job->restarts, 0, "growing costs nothing");
}

Test(resize, one_that_is_elastic_by_restart_grows_though_it_knows_us)
{
    story_running_pair(&s, &(struct story_spec){
                               .name = "r", .nodes_min = 1, .nodes_max = 3, .elastic = "restart"});
    const struct job *job = story_job(&s, "j1");
    story_wait(&s, RESIZE_SETTLE_MS);
    story_node_up(&s, "c", 1);
    s.trace[0] = 0;
    story_wait(&s, RESIZE_CAPACITY_MS + 1000);
    story_expect(&s, "j1 restarting growing\nj1 starting placed\nj1 running all_joined\n");
    cr_expect_eq(job->current.nodes, 3);
}

Test(resize, room_that_goes_again_changes_nothing)
{
    struct job *job = running_silently(&elastic);
    story_wait(&s, RESIZE_SETTLE_MS);
    story_node_up(&s, "c", 1);
    for (int i = 0; i < 5; i++) {
        story_wait(&s, RESIZE_CAPACITY_MS - 3000);
        story_node_set(&s, "c", NODE_CORDON);
        story_wait(&s, 1000);
        story_node_set(&s, "c", NODE_UNCORDON);
    }
    cr_expect_eq(job->current.generation, 1);
}

Test(resize, a_node_that_comes_and_goes_is_used_ever_more_rarely)
{
    struct job *job = running_silently(&elastic);
    story_node_up(&s, "c", 1);
    for (int i = 0; i < 60; i++) { /* an hour: there for half a minute, gone for half a minute */
        story_wait(&s, 30000);
        story_node_dies(&s, "c");
        story_wait(&s, 30000);
        story_register(&s, "c", true);
    }
    cr_expect_lt(job->next_generation, 25, "%d generations", (int)job->next_generation);
    cr_expect_gt(job->next_generation, 5);
}

Test(resize, nobody_gives_its_place_up_for_more_while_others_wait_for_it)
{
    struct job *job = running_silently(&elastic);
    story_node_up(&s, "c", 1);
    story_submit(&s, &(struct story_spec){.name = "big", .nodes_min = 2, .priority = 0});
    s.trace[0] = 0;
    story_wait(&s, 5 * RESIZE_SETTLE_MS);
    cr_expect_eq(job->current.generation, 1, "%s", s.trace);
}

Test(resize, scale_is_obeyed_up_and_down_and_at_once)
{
    s.reports = true; /* so that they are known not to join */
    struct job *job = running_silently(&elastic);
    story_scale(&s, "j1", 1, 1);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 2000);
    story_expect(&s, "j1 restarting scaled\nj1 starting placed\nj1 running all_started\n");
    cr_expect_eq(job->current.nodes, 1);
    story_scale(&s, "j1", 2, 3);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 2000);
    story_expect(&s, "j1 restarting growing\nj1 starting placed\nj1 running all_started\n");
    cr_expect_eq(job->current.nodes, 2);
    cr_expect_eq(job->restarts, 0);
}

Test(resize, a_silent_program_is_scaled_after_the_time_for_its_first_word)
{
    struct job *job = running_silently(&elastic);
    story_scale(&s, "j1", 1, 1);
    story_wait(&s, FIRST_WORD_MS - 5000);
    story_expect(&s, "");
    const struct reason *waits = why_of_kind(job, "scaled");
    cr_assert_not_null(waits);
    cr_expect(strstr(waits->text, "has 2 nodes and is to have 1: its program has said nothing yet "
                                  "and may be importing; in "),
              "%s", waits->text);
    story_wait(&s, 5000 + UNAWARE_AFTER_MS + 2000);
    story_expect(&s, "j1 restarting scaled\nj1 starting placed\nj1 running all_started\n");
    cr_expect_eq(job->current.nodes, 1);
    story_wait(&s, FIRST_WORD_MS);
    story_scale(&s, "j1", 2, 3);
    story_wait(&s, UNAWARE_AFTER_MS + 2000);
    cr_expect_eq(job->current.nodes, 2, "nothing is waited for any more: %s", s.trace);
}

Test(resize, a_program_that_imports_gives_its_nodes_back_in_place)
{
    struct job *job = running_silently(&elastic);
    story_scale(&s, "j1", 1, 1);
    story_wait(&s, 20000);
    story_expect(&s, "");
    s.unaware = false; /* it says Hello, and asks to join */
    story_wait(&s, 5000);
    cr_expect_null(strstr(s.trace, "restarting"), "%s", s.trace);
    cr_expect_eq(job->current.nodes, 1, "%s", s.trace);
    cr_expect_eq(job->restarts, 0);
    cr_expect(job->current.joined);
    cr_expect_null(why_of_kind(job, "scaled"));
}

Test(resize, a_program_that_imports_grows_in_place)
{
    struct job *job = running_silently(&elastic);
    story_node_up(&s, "c", 1);
    story_scale(&s, "j1", 1, 3);
    story_wait(&s, RESIZE_SETTLE_MS + RESIZE_CAPACITY_MS);
    cr_expect_eq(job->current.generation, 1, "%s", s.trace);
    s.unaware = false;
    story_wait(&s, 5000);
    cr_expect_null(strstr(s.trace, "restarting"), "%s", s.trace);
    cr_expect_eq(job->current.nodes, 3, "%s", s.trace);
    cr_expect_eq(job->restarts, 0);
}

Test(resize, one_rank_that_reports_and_does_not_join_is_enough_to_know)
{
    struct job *job = running_silently(&elastic);
    job_worker(job, job->current.members[1])->reports = true;
    story_scale(&s, "j1", 1, 1);
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 2000);
    cr_expect_eq(job->current.nodes, 1, "%s", s.trace);
}

Test(resize, a_larger_minimum_waits_for_room_and_what_runs_goes_on)
{
    struct job *job = running_silently(&elastic);
    story_scale(&s, "j1", 4, 4); /* more than there ever were */
    cr_expect_neq(s.error.code, 0);
    story_node_up(&s, "c", 1);
    story_node_set(&s, "c", NODE_CORDON);
    story_scale(&s, "j1", 3, 3);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    story_wait(&s, 60000);
    cr_expect_eq(job->current.generation, 1, "not before there is room for all three");
    story_node_set(&s, "c", NODE_UNCORDON);
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 2000);
    cr_expect_eq(job->current.nodes, 3);
}

Test(resize, scaled_down_while_it_starts_it_gives_back_when_it_runs)
{
    s.unaware = true;
    story_two_nodes(&s);
    story_submit(&s, &elastic);
    story_follow(&s);
    const struct job *job = story_job(&s, "j1");
    cr_assert_eq(job->state, JOB_STARTING);
    story_scale(&s, "j1", 1, 1);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    story_wait(&s, FIRST_WORD_MS + 2 * UNAWARE_AFTER_MS + 4000);
    cr_expect_eq(job->state, JOB_RUNNING);
    cr_expect_eq(job->current.nodes, 1);
}

Test(resize, off_is_a_fixed_size)
{
    static const struct story_spec off = {
        .name = "off", .nodes_min = 2, .nodes_max = 2, .elastic = "off"};
    struct job *job = running_silently(&off);
    story_scale(&s, "j1", 1, 1);
    cr_expect_eq(s.error.code, E_FAILED_PRECONDITION);
    cr_expect(strstr(s.error.text, "has a fixed size"), "%s", s.error.text);
    story_scale(&s, "j1", 2, 3);
    cr_expect_eq(s.error.code, E_FAILED_PRECONDITION);
    story_scale(&s, "j1", 2, 2);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    story_node_up(&s, "c", 1);
    story_wait(&s, 2 * RESIZE_SETTLE_MS);
    cr_expect_eq(job->current.generation, 1);
    story_node_dies(&s, "a");
    story_wait(&s, LEASE_MS + UNAWARE_AFTER_MS + 2000);
    cr_expect_eq(job->current.nodes, 2);
}
