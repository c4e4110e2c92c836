/* Enough slots are free, none of them together: parts of elastic gangs move. Stories. */
#include <string.h>

#include <criterion/criterion.h>

#include "coordinator/scheduler/defrag.h"
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

TestSuite(defrag, .init = begin, .fini = finish);

static void submit(const struct story_spec *spec)
{
    story_submit(&s, spec);
    story_follow(&s);
}

/* j2, two nodes, has one slot of each of a and b; c has its one slot free: three in all. */
static void scattered(int priority, const char *elastic)
{
    story_node_up(&s, "a", 2);
    story_node_up(&s, "b", 2);
    story_node_up(&s, "c", 1);
    submit(&(struct story_spec){.name = "early", .nodes_min = 1});
    submit(&(struct story_spec){
        .name = "pair", .nodes_min = 2, .nodes_max = 2, .priority = priority, .elastic = elastic});
    story_cancel(&s, "j1");
    story_follow(&s);
    cr_assert_eq(cluster_node(s.cluster, "a")->slots_used, 1);
    cr_assert_eq(cluster_node(s.cluster, "b")->slots_used, 1);
    cr_assert_eq(cluster_node(s.cluster, "c")->slots_used, 0);
    s.trace[0] = 0;
}

static const struct story_spec both = {.name = "both", .nodes_min = 1, .slots = 2};

Test(defrag, a_part_of_a_gang_moves_and_loses_no_step)
{
    scattered(0, NULL);
    story_progress(&s, "j2", 40);
    submit(&both);
    story_expect(&s, "j3 queued submitted\nj2 reforming moved\nj3 starting placed\n"
                     "j2 running all_joined\nj3 running all_joined\n");
    const struct job *pair = story_job(&s, "j2");
    cr_expect_eq(pair->current.world, 2);
    cr_expect_eq(pair->restarts, 0);
    cr_expect_eq(pair->step, 40);
    cr_expect_eq(cluster_node(s.cluster, "c")->slots_used, 1);
}

Test(defrag, a_plan_says_so_before)
{
    struct forecast forecast;
    scattered(0, NULL);
    struct spec *spec = story_spec_build(&both);
    cr_assert_eq(scheduler_plan(s.cluster, &(struct what_if){.spec = spec}, &forecast, NULL), 0);
    cr_expect(forecast.waits_for_victims);
    cr_assert_eq(forecast.effects_count, 1);
    cr_expect_eq(forecast.effects[0].kind, EFFECT_MOVES);
    cr_expect_str_eq(forecast.effects[0].node->name, "a");
    forecast_fini(&forecast);
    spec_release(spec);
}

Test(defrag, nobody_moves_for_a_lower_priority)
{
    scattered(10, NULL);
    submit(&both);
    story_expect(&s, "j3 queued submitted\n");
}

Test(defrag, a_gang_that_would_have_to_start_again_does_not_move)
{
    scattered(0, "restart");
    submit(&both);
    story_expect(&s, "j3 queued submitted\n");
}

Test(defrag, nobody_moves_where_that_would_not_be_enough)
{
    scattered(0, NULL);
    submit(&(struct story_spec){.name = "wide", .nodes_min = 2, .nodes_max = 2, .slots = 2});
    story_expect(&s, "j3 queued submitted\n");
}

Test(defrag, no_gang_moves_twice_in_a_short_time)
{
    scattered(0, NULL);
    submit(&both);
    story_exit(&s, "j3", 0, 0);
    story_follow(&s);
    /* Again one slot is free beside a part of it, and one on another node. */
    submit(&(struct story_spec){.name = "beside", .nodes_min = 1});
    submit(&(struct story_spec){.name = "another", .nodes_min = 1});
    story_cancel(&s, "j4");
    story_follow(&s);
    s.trace[0] = 0;
    submit(&both);
    story_expect(&s, "j6 queued submitted\n");
    story_wait(&s, DEFRAG_REST_MS + 1000); /* nothing else happens */
    story_follow(&s);
    story_expect(&s, "j2 reforming moved\nj6 starting placed\nj2 running all_joined\n"
                     "j6 running all_joined\n");
}
