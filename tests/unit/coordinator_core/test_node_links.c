/* Links between GPUs that change while the agent of a node runs. */
#include <criterion/criterion.h>

#include <string.h>

#include "coordinator/core/why.h"
#include "tests/unit/coordinator_core/story.h"

static struct story s;

static void begin(void)
{
    story_begin(&s);
}

static void end(void)
{
    story_end(&s);
}

TestSuite(node_links, .init = begin, .fini = end);

/* Two pairs with two NVLinks each; and the first of them without. */
static const char *const whole[] = {"X NV2 SYS SYS", "NV2 X SYS SYS", "SYS SYS X NV2",
                                    "SYS SYS NV2 X"};
static const char *const down[] = {"X PIX SYS SYS", "PIX X SYS SYS", "SYS SYS X NV2",
                                   "SYS SYS NV2 X"};
static const struct story_spec pair = {
    .name = "pair", .nodes_min = 1, .nodes_max = 1, .workers = 2, .slots = 1};

static void node_up(const char *const *links)
{
    s.nodes[s.nodes_count].gpus = true;
    s.nodes[s.nodes_count].links = links;
    s.nodes[s.nodes_count].nvlinks = 2;
    story_node_up(&s, "g", 4);
}

static void report(const char *const *links)
{
    story_node(&s, "g")->links = links;
    story_report(&s, "g");
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
}

static int said(void)
{
    return story_records(&s, "gpu_links")->count;
}

static void expect_said(int count, const char *text, const char *hint)
{
    const struct story_records *records = story_records(&s, "gpu_links");
    cr_expect_eq(records->count, count, "%d", records->count);
    cr_expect_str_eq(records->newest.reason.kind, "gpu_links");
    cr_expect_str_eq(records->newest.node, "g");
    cr_expect_str_eq(records->newest.reason.text, text);
    cr_expect(strstr(records->newest.reason.hint, hint), "%s", records->newest.reason.hint);
}

static void expect_slots(const char *id, int first, int second)
{
    const struct job *job = story_job(&s, id);
    cr_assert_eq(job->state, JOB_RUNNING);
    cr_expect(job->workers[0].slot == first && job->workers[1].slot == second, "%d and %d",
              job->workers[0].slot, job->workers[1].slot);
}

Test(node_links, a_link_that_fails_is_recorded_and_the_next_job_gets_other_gpus)
{
    node_up(whole);
    report(whole);
    cr_expect_eq(said(), 0);
    cr_expect_not(strstr(s.stored, " g "), "stored though nothing changed");
    story_submit(&s, &pair);
    story_follow(&s);
    expect_slots("j1", 0, 1);
    report(down);
    expect_said(1, "GPU 0 is connected with GPU 1 by PIX instead of NV2", "`muster drain g`");
    cr_expect(strstr(s.stored, " g "), "%s", s.stored);
    report(down);
    cr_expect_eq(said(), 1, "a change is recorded once");
    story_follow(&s);
    expect_slots("j1", 0, 1);
    cr_expect_eq(story_job(&s, "j1")->restarts, 0, "a gang that runs is left alone");
    story_cancel(&s, "j1");
    story_follow(&s);
    story_submit(&s, &pair);
    story_follow(&s);
    expect_slots("j2", 2, 3);
    report(whole);
    expect_said(2, "GPU 0 is connected with GPU 1 by NV2 instead of PIX", "keep theirs");
    cr_expect_not(strstr(story_records(&s, "gpu_links")->newest.reason.hint, "drain"));
    story_cancel(&s, "j2");
    story_follow(&s);
    story_submit(&s, &pair);
    story_follow(&s);
    expect_slots("j3", 0, 1);
}

Test(node_links, the_gpu_with_most_changes_is_named_and_the_others_counted)
{
    static const char *const rows[] = {"X SYS NV1 NV1", "SYS X SYS SYS", "NV1 SYS X NV2",
                                       "NV1 SYS NV2 X"};
    static const char *const all[] = {"X NV2 NV2 NV2", "NV2 X NV2 NV2", "NV2 NV2 X NV2",
                                      "NV2 NV2 NV2 X"};
    node_up(all);
    report(rows);
    expect_said(1, "GPU 0 is connected with GPU 1 by SYS instead of NV2; 4 more pairs changed",
                "nvidia-smi nvlink");
    report(all);
    static const char *const fewer[] = {"X NV2 NV2 NV1", "NV2 X NV2 NV1", "NV2 NV2 X NV1",
                                        "NV1 NV1 NV1 X"};
    report(fewer);
    expect_said(3, "GPU 3 is connected with GPUs 0, 1, 2 by NV1 instead of NV2", "drain");
    story_node(&s, "g")->nvlinks = 1;
    report(fewer);
    expect_said(4, "GPU 0 has 1 active NVLink instead of 2", "drain");
}

Test(node_links, what_was_not_known_is_no_change_and_other_gpus_have_no_links_here)
{
    static const char *const none[] = {"", "", "", ""};
    node_up(none);
    report(whole);
    cr_expect_eq(said(), 0);
    cr_expect(strstr(s.stored, " g "), "they are kept: %s", s.stored);
    story_node(&s, "g")->slots = 2;
    report(down);
    story_node(&s, "g")->slots = 4;
    cr_expect_eq(said(), 0, "two rows are not of four GPUs");
    report(NULL);
    cr_expect_eq(said(), 0, "an older agent tells none");
    report(down);
    cr_expect_eq(said(), 1);
}

Test(node_links, an_agent_that_was_restarted_tells_of_a_change_and_a_late_registration_does_not)
{
    node_up(whole);
    story_node(&s, "g")->links = down;
    story_register(&s, "g", true);
    expect_said(1, "GPU 0 is connected with GPU 1 by PIX instead of NV2", "drain");
    report(whole);
    cr_expect_eq(said(), 2);
    story_node(&s, "g")->links = down;
    story_register(&s, "g", false);
    report(whole);
    cr_expect_eq(said(), 2, "its links are older than those of the report");
}
