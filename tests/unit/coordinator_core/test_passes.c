/* Many events of one moment, and one pass over the queue for all of them. */
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "coordinator/model/cluster_pass.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/scheduler/pass.h"
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

TestSuite(passes, .init = begin, .fini = finish);

static const struct story_spec one_slot = {.name = "job", .nodes_min = 1, .nodes_max = 1};

static void pass(void)
{
    story_send(&s, &(struct event){.kind = EVENT_PASS});
}

static int in_state(enum job_state state)
{
    int count = 0;
    for (const struct job *job = cluster_first_job(s.cluster); job;
         job = cluster_next_job(s.cluster, job))
        count += job->state == state;
    return count;
}

Test(passes, ends_that_share_a_pass_free_all_their_slots_for_it)
{
    story_node_up(&s, "a", 4);
    for (int i = 0; i < 8; i++)
        (void)story_submit(&s, &one_slot);
    story_follow(&s);
    cr_assert_eq(in_state(JOB_RUNNING), 4);
    uint64_t before = cluster_passes(s.cluster);
    s.pass_later = true;
    for (int i = 1; i <= 4; i++) {
        char id[8];
        (void)snprintf(id, sizeof(id), "j%d", i);
        story_exit(&s, id, 0, 0);
        story_report(&s, "a");
    }
    cr_assert_eq(in_state(JOB_SUCCEEDED), 4);
    cr_assert_eq(in_state(JOB_QUEUED), 4, "none starts before the pass");
    cr_assert(cluster_wants_pass(s.cluster));
    s.pass_later = false;
    pass();
    cr_assert_not(cluster_wants_pass(s.cluster));
    cr_assert_eq(in_state(JOB_STARTING), 4);
    cr_assert_eq(cluster_passes(s.cluster), before + 1);
}

Test(passes, every_job_that_was_submitted_before_a_pass_has_its_reason_after_it)
{
    enum { SUBMITTED = 3 * PASS_TRIES_MAX }; /* no pass looks so far */
    story_node_up(&s, "a", 1);
    (void)story_submit(&s, &one_slot);
    s.pass_later = true;
    for (int i = 0; i < SUBMITTED; i++)
        (void)story_submit(&s, &one_slot);
    cr_assert_str_eq(cluster_last_job(s.cluster)->reason.kind, "submitted");
    s.pass_later = false;
    pass();
    for (const struct job *job = cluster_first_waiting(s.cluster); job;
         job = cluster_next_job(s.cluster, job))
        cr_assert_str_eq(job->reason.kind, "waiting_for_slots", "%s: %s", job->id,
                         job->reason.kind);
    cr_assert_eq(in_state(JOB_QUEUED), SUBMITTED);
}

Test(passes, nothing_is_looked_at_where_nothing_changed)
{
    story_node_up(&s, "a", 1);
    (void)story_submit(&s, &one_slot);
    (void)story_submit(&s, &one_slot);
    story_follow(&s);
    uint64_t before = cluster_passes(s.cluster);
    story_wait(&s, 5000);
    cr_assert_eq(cluster_passes(s.cluster), before);
}
