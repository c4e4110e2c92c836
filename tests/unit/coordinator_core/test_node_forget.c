/* Lost nodes are forgotten, and no others; what would be missed stays. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/base/str.h"
#include "coordinator/core/node_forget.h"
#include "coordinator/model/cluster_nodes.h"
#include "coordinator/model/cluster_walk.h"
#include "tests/unit/coordinator_core/story.h"

enum { HOUR_MS = 3600000 };

static struct story s;

static void begin(void)
{
    story_begin(&s);
}

static void finish(void)
{
    story_end(&s);
}

TestSuite(node_forget, .init = begin, .fini = finish);

/* A lost node of one slot: here for that long, and not seen for that long now. */
static struct node *lose(const char *name, int64_t here_ms, int64_t silent_ms)
{
    story_node_up(&s, name, 1);
    story_node_dies(&s, name);
    story_wait(&s, LEASE_MS + 1000);
    struct node *node = cluster_node(s.cluster, name);
    cr_assert_eq(node->state, NODE_LOST);
    node->seen_wall_ms = s.now_ms + s.wall_offset_ms - silent_ms;
    node->joined_wall_ms = node->seen_wall_ms - here_ms;
    return node;
}

static void forget(int keep, int64_t lost_ms, int64_t old_ms, int64_t set_aside_ms)
{
    int64_t wall_ms = s.now_ms + s.wall_offset_ms;
    struct event event = {.kind = EVENT_NODES_FORGET};
    event.nodes_forget = (struct nodes_forget){.max = 100,
                                               .keep = keep,
                                               .beyond_before_wall_ms = wall_ms - lost_ms,
                                               .old_before_wall_ms = wall_ms - old_ms,
                                               .set_aside_before_wall_ms = wall_ms - set_aside_ms};
    story_send(&s, &event);
}

/* The names that are known: "a b". */
static const char *known(void)
{
    static char names[128];
    names[0] = 0;
    for (const struct node *node = cluster_first_node(s.cluster); node;
         node = cluster_next_node(s.cluster, node))
        (void)str_printf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
                         names[0] ? " " : "", node->name);
    return names;
}

static const int64_t never_ms = INT64_C(1) << 40;

Test(node_forget, beyond_the_number_brief_nodes_go_first_and_then_those_seen_longest_ago)
{
    story_node_up(&s, "living", 1);
    lose("a", 9 * HOUR_MS, 5 * HOUR_MS);
    lose("b", 9 * HOUR_MS, 6 * HOUR_MS);
    lose("c", 1000, 2 * HOUR_MS);
    lose("d", 1000, HOUR_MS / 2);
    forget(4, HOUR_MS, never_ms, never_ms);
    cr_expect_str_eq(known(), "a b c d living", "four are kept");
    forget(3, HOUR_MS, never_ms, never_ms);
    cr_expect_str_eq(known(), "a b d living", "c was here for a second");
    forget(2, HOUR_MS, never_ms, never_ms);
    cr_expect_str_eq(known(), "a d living", "d is not lost for an hour yet, b is seen before a");
    forget(0, HOUR_MS, never_ms, never_ms);
    cr_expect_str_eq(known(), "d living");
    forget(0, 0, never_ms, never_ms);
    cr_expect_str_eq(known(), "living");
    cr_expect_eq(story_records(&s, "node_forgotten")->count, 4);
    cr_expect_str_eq(story_records(&s, "node_forgotten")->newest.node, "d");
    cr_expect_str_eq(story_records(&s, "node_forgotten")->newest.reason.kind, "forgotten");
}

Test(node_forget, at_most_so_many_go_at_once)
{
    for (int i = 0; i < 5; i++)
        lose((const char *[]){"a", "b", "c", "d", "e"}[i], 1000, HOUR_MS);
    struct event event = {.kind = EVENT_NODES_FORGET};
    event.nodes_forget = (struct nodes_forget){.max = 3, .beyond_before_wall_ms = INT64_MAX};
    story_send(&s, &event);
    cr_expect_str_eq(known(), "d e");
}

Test(node_forget, old_ones_go_however_few_and_those_set_aside_by_a_limit_of_their_own)
{
    lose("old", 9 * HOUR_MS, 50 * HOUR_MS);
    lose("new", 9 * HOUR_MS, 40 * HOUR_MS);
    lose("bad", 9 * HOUR_MS, 60 * HOUR_MS);
    lose("empty", 9 * HOUR_MS, 80 * HOUR_MS);
    story_node_set(&s, "bad", NODE_CORDON);
    story_node_set(&s, "empty", NODE_DRAIN);
    forget(0, never_ms, 45 * HOUR_MS, 70 * HOUR_MS);
    cr_expect_str_eq(known(), "bad new");
    forget(0, 0, never_ms, never_ms);
    cr_expect_str_eq(known(), "bad", "what an administrator set is never lost for numbers");
    forget(0, 0, never_ms, 50 * HOUR_MS);
    cr_expect_str_eq(known(), "");
    const struct record *record = &story_records(&s, "node_forgotten")->newest;
    cr_expect_str_eq(record->node, "bad");
    cr_expect(strstr(record->reason.text, "cordoned"), "%s", record->reason.text);
}

/* The rank on b has finished, the one on a trains on: b is a place of the group. */
Test(node_forget, a_node_that_a_job_in_progress_refers_to_stays)
{
    story_running_pair(&s, &story_pair);
    story_exit(&s, "j1", 1, 0);
    story_node_dies(&s, "b");
    story_wait(&s, LEASE_MS + 1000);
    cr_assert_eq(cluster_node(s.cluster, "b")->state, NODE_LOST);
    cr_assert_eq(story_job(&s, "j1")->current.world, 2);
    cr_expect(node_is_referred_to(s.cluster, cluster_node(s.cluster, "b")));
    forget(0, -1, -1, -1);
    cr_expect_str_eq(known(), "a b");
    story_exit(&s, "j1", 0, 0);
    story_follow(&s);
    cr_assert_eq(story_job(&s, "j1")->state, JOB_SUCCEEDED);
    forget(0, -1, -1, -1);
    cr_expect_str_eq(known(), "a", "ended jobs may refer to nodes that are no more");
    story_wait(&s, 2000);
}

Test(node_forget, a_node_with_a_fence_stays)
{
    lose("rekeyed", HOUR_MS, HOUR_MS);
    (void)str_copy(cluster_node(s.cluster, "rekeyed")->key, NODE_KEY_MAX, "k1");
    story_node_set(&s, "rekeyed", NODE_REKEY);
    lose("faulty", HOUR_MS, HOUR_MS)->fault_until_ms = s.now_ms + HOUR_MS;
    forget(0, -1, -1, -1);
    cr_expect_str_eq(known(), "faulty rekeyed");
    s.now_ms += HOUR_MS;
    forget(0, -1, -1, -1);
    cr_expect_str_eq(known(), "rekeyed");
}

Test(node_forget, a_forgotten_node_that_comes_back_is_a_new_one)
{
    lose("a", HOUR_MS, HOUR_MS);
    struct node *node = cluster_node(s.cluster, "a");
    uint64_t incarnation = node->incarnation;
    cluster_set_let_in_by(s.cluster, node, "0123456789ab");
    cr_expect_eq(cluster_nodes_let_in_by(s.cluster, "0123456789ab"), 1);
    forget(0, 0, never_ms, never_ms);
    cr_expect_eq(cluster_nodes_let_in_by(s.cluster, "0123456789ab"), 0);
    story_report(&s, "a");
    cr_expect_eq(s.error.code, E_NOT_FOUND, "its agent is asked to register");
    story_register(&s, "a", false);
    node = cluster_node(s.cluster, "a");
    cr_assert(node && node->incarnation == incarnation);
    cr_expect_eq(node->state, NODE_READY);
    story_submit(&s, &story_pair);
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
}
