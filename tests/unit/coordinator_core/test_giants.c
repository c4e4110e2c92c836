/* Gangs for which many others give way, and several that get room in one pass. Stories. */
#include <stdio.h>

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

TestSuite(giants, .init = begin, .fini = finish);

static void nodes(int count, int slots)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    for (int i = 0; i < count; i++)
        story_node_up(&s, names[i], slots);
    s.trace[0] = 0;
}

static void submit(const char *tenant, int priority, int min, int max, int slots)
{
    story_submit(&s, &(struct story_spec){.name = "job",
                                          .nodes_min = min,
                                          .nodes_max = max,
                                          .slots = slots,
                                          .priority = priority,
                                          .tenant = tenant});
    story_follow(&s);
}

static enum job_state state(const char *id)
{
    return story_job(&s, id)->state;
}

Test(giants, a_gang_starts_though_more_than_256_nodes_must_be_given_back)
{
    enum { LENDERS = 40, NODES = 8 };
    nodes(NODES, LENDERS);
    for (int i = 0; i < LENDERS; i++) {
        submit(NULL, 0, 1, NODES, 1);
        s.trace[0] = 0;
    }
    submit(NULL, 0, NODES - 1, NODES - 1, LENDERS);
    const struct job *giant = story_job(&s, "j41");
    cr_expect_eq(giant->state, JOB_RUNNING);
    for (int i = 1; i <= LENDERS; i++) {
        char id[8];
        snprintf(id, sizeof(id), "j%d", i);
        cr_expect_eq(state(id), JOB_RUNNING);
        cr_expect_eq(story_job(&s, id)->current.nodes, 1, "of %s", id);
        cr_expect_eq(story_job(&s, id)->current.generation, 2, "each gives all at once");
    }
}

/* The last word is one event: both find all they need in one pass. */
Test(giants, two_gangs_get_room_in_one_pass)
{
    nodes(4, 1);
    submit("guest", 0, 2, 2, 1);
    submit("guest", 0, 2, 2, 1);
    submit("owner", 0, 2, 2, 1);
    submit("owner", 0, 2, 2, 1);
    s.trace[0] = 0;
    story_tenant(&s, "owner", 1, 4, 0);
    story_expect(&s, "j2 preempting preempted\nj1 preempting preempted\n");
    cr_expect_str_eq(story_job(&s, "j2")->beneficiary, "j3");
    cr_expect_str_eq(story_job(&s, "j1")->beneficiary, "j4");
    story_follow(&s);
    cr_expect_eq(state("j3"), JOB_RUNNING);
    cr_expect_eq(state("j4"), JOB_RUNNING);
}

Test(giants, one_gang_gives_to_two_with_one_re_forming)
{
    nodes(5, 1);
    submit("guest", 0, 1, 5, 1);
    submit("owner", -10, 2, 2, 1);
    submit("owner", -10, 2, 2, 1);
    cr_assert_eq(story_job(&s, "j1")->current.nodes, 5);
    s.trace[0] = 0;
    story_tenant(&s, "owner", 1, 4, 0);
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j1")->current.nodes, 1);
    cr_expect_eq(story_job(&s, "j1")->current.generation, 2);
    cr_expect_eq(state("j2"), JOB_RUNNING);
    cr_expect_eq(state("j3"), JOB_RUNNING);
}

/* The second has none left: it keeps its turn, and nobody gives what would not be enough. */
Test(giants, room_is_counted_once)
{
    nodes(3, 1);
    submit("guest", 0, 2, 2, 1);
    submit("guest", 0, 1, 1, 1);
    submit("owner", 0, 2, 2, 1);
    submit("owner", 0, 2, 2, 1);
    story_tenant(&s, "owner", 1, 4, 0);
    story_follow(&s);
    cr_expect_eq(state("j1"), JOB_QUEUED);
    cr_expect_eq(state("j2"), JOB_RUNNING);
    cr_expect_eq(state("j3"), JOB_RUNNING);
    cr_expect_eq(state("j4"), JOB_QUEUED);
}

/* Guaranteed 2, the owner takes 2 back, not 2 for each of its gangs. */
Test(giants, what_is_guaranteed_is_reclaimed_once)
{
    nodes(4, 1);
    submit("guest", 0, 2, 2, 1);
    submit("guest", 0, 2, 2, 1);
    submit("owner", 0, 2, 2, 1);
    submit("owner", 0, 2, 2, 1);
    story_tenant(&s, "owner", 1, 2, 0);
    story_follow(&s);
    cr_expect_eq(state("j1") == JOB_RUNNING, true);
    cr_expect_eq(state("j3"), JOB_RUNNING);
    cr_expect_eq(state("j4"), JOB_QUEUED);
}

/* The small gang ends for the first; were the large one to end for the second, what the small one
 * gave would have been covered. */
Test(giants, two_gangs_together_do_not_take_what_is_covered)
{
    story_tenant(&s, "x", 1, 1, 0);
    nodes(4, 1);
    submit("x", 0, 1, 1, 1);
    submit("x", 0, 3, 3, 1);
    story_wait(&s, 5000); /* the large one has more to lose */
    submit("y", 0, 1, 1, 1);
    submit("y", 0, 3, 3, 1);
    s.trace[0] = 0;
    story_tenant(&s, "y", 1, 4, 0);
    story_expect(&s, "j1 preempting preempted\n");
    story_follow(&s);
    cr_expect_eq(state("j3"), JOB_RUNNING);
}

/* The example in preempt.h: how many nodes low, even and high keep when a job asks for so many. */
Test(giants, the_victims_are_those_of_the_example_of_the_scheduler)
{
    static const struct {
        int needs, low, even, high;
    } rows[] = {{2, 1, 2, 1}, {3, 1, 1, 1}, {4, 0, 1, 1}, {5, 3, 2, 1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        nodes(6, 1);
        submit(NULL, 1, 1, 3, 1);
        submit(NULL, 5, 1, 2, 1);
        submit(NULL, 9, 1, 1, 1);
        submit(NULL, 5, rows[i].needs, rows[i].needs, 1);
        cr_expect_eq(state("j4"), rows[i].needs < 5 ? JOB_RUNNING : JOB_QUEUED);
        cr_expect_eq(story_job(&s, "j1")->current.nodes, rows[i].low, "%d", rows[i].needs);
        cr_expect_eq(story_job(&s, "j2")->current.nodes, rows[i].even, "%d", rows[i].needs);
        cr_expect_eq(story_job(&s, "j3")->current.nodes, rows[i].high, "%d", rows[i].needs);
        story_end(&s);
        story_begin(&s);
    }
}
