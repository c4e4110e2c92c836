/* What counts while a job waits for nodes again, and what does not: max_runtime, fair share.
 * Stories on virtual time. */
#include <math.h>
#include <string.h>

#include <criterion/criterion.h>

#include "coordinator/model/tenant.h"
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

TestSuite(runtime, .init = begin, .fini = finish);

static const struct story_spec minute = {
    .name = "minute", .nodes_min = 2, .nodes_max = 2, .max_runtime = "60s", .tenant = "red"};
static const struct story_spec urgent = {
    .name = "urgent", .nodes_min = 2, .nodes_max = 2, .priority = 100, .tenant = "blue"};

/* It ran for `ms`, and has given its nodes to j2. */
static struct job *gives_way_after(int64_t ms)
{
    story_running_pair(&s, &minute);
    story_wait(&s, ms);
    story_submit(&s, &urgent);
    story_follow(&s);
    cr_assert_eq(story_job(&s, "j1")->state, JOB_QUEUED);
    cr_assert_eq(story_job(&s, "j2")->state, JOB_RUNNING);
    return story_job(&s, "j1");
}

static void end_urgent(void)
{
    story_cancel(&s, "j2");
    story_follow(&s);
    cr_assert_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    s.trace[0] = 0;
}

Test(runtime, max_runtime_stands_still_while_a_job_that_gave_way_waits)
{
    const struct job *job = gives_way_after(40000);
    story_wait(&s, 3600 * 1000);
    cr_expect_eq(job->state, JOB_QUEUED, "%s", job->reason.text);
    end_urgent();
    story_wait(&s, 18000);
    story_expect(&s, "");
    story_wait(&s, 4000);
    story_expect(&s, "j1 stopping max_runtime\nj1 failed max_runtime\n");
}

Test(runtime, max_runtime_stands_still_while_it_waits_to_start_again)
{
    story_running_pair(&s, &minute);
    const struct job *job = story_job(&s, "j1");
    story_wait(&s, 40000);
    story_node_dies(&s, "b");
    story_wait(&s, 600 * 1000);
    cr_expect_eq(job->state, JOB_RESTARTING, "%s", job->reason.text);
    story_register(&s, "b", true);
    story_follow(&s);
    cr_expect_eq(job->state, JOB_RUNNING);
    story_wait(&s, 10000);
    cr_expect_eq(job->state, JOB_RUNNING, "%s", job->reason.text);
    story_wait(&s, 12000);
    cr_expect_eq(job->state, JOB_FAILED);
}

Test(runtime, it_stands_still_in_the_next_life_of_the_coordinator_too)
{
    const struct job *job = gives_way_after(40000);
    story_restart(&s, 5000);
    story_wait(&s, 3600 * 1000);
    cr_expect_eq(job->state, JOB_QUEUED, "%s", job->reason.text);
    end_urgent();
    story_restart(&s, 5000); /* and counts on in the one after that */
    story_wait(&s, 18000);
    cr_expect_eq(job->state, JOB_RUNNING, "%s", job->reason.text);
    story_wait(&s, 4000);
    cr_expect_eq(job->state, JOB_FAILED);
}

Test(runtime, a_restart_charges_nobody_for_waiting)
{
    enum { DAY_MS = USE_HALF_LIFE_MS };
    (void)gives_way_after(30000);
    story_wait(&s, 600 * 1000);
    s.now_ms += DAY_MS; /* nobody looked, all goes on */
    story_wait(&s, 5000);
    const struct tenant *red = cluster_tenant(s.cluster, "red");
    const struct tenant *blue = cluster_tenant(s.cluster, "blue");
    double red_use = tenant_use(red, s.now_ms), blue_use = tenant_use(blue, s.now_ms);
    cr_expect_lt(red_use, 0.01);
    cr_expect_gt(blue_use, 0.9);
    story_restart(&s, 7000);
    cr_expect_float_eq(tenant_use(red, s.now_ms), red_use, 1e-6, "%g is %g", red_use,
                       tenant_use(red, s.now_ms));
    cr_expect_float_eq(tenant_use(blue, s.now_ms), blue_use, 1e-6, "%g is %g", blue_use,
                       tenant_use(blue, s.now_ms));
    story_wait(&s, 5000);
    story_restart(&s, 9000);
    cr_expect_float_eq(tenant_use(blue, s.now_ms), blue_use, 1e-3);
}

static const struct story_spec warned = {
    .name = "warned", .nodes_min = 2, .max_runtime = "60s", .signal = "USR1@20s"};

/* How often it was recorded; `text`: the sentence, NULL = any. */
static void expect_signalled(int count, const char *text)
{
    const struct story_records *records = story_records(&s, "early_signal");
    cr_expect_eq(records->count, count);
    if (text)
        cr_expect_str_eq(records->newest.reason.text, text);
}

Test(runtime, a_signal_is_sent_once_before_the_time_is_over)
{
    story_running_pair(&s, &warned);
    const struct job *job = story_job(&s, "j1");
    int64_t left_ms = job->runtime_deadline_ms - s.now_ms;
    story_wait(&s, left_ms - 21000);
    expect_signalled(0, NULL);
    story_wait(&s, 2000);
    expect_signalled(1, "USR1 sent 20s before the time limit (max_runtime)");
    story_restart(&s, 1000);
    story_wait(&s, 10000);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    expect_signalled(1, "USR1 sent 20s before the time limit (max_runtime)");
    story_wait(&s, 12000);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_FAILED);
}

/* A program that starts has no handler yet: the signal would end it. */
Test(runtime, a_signal_that_is_due_waits_until_the_gang_runs)
{
    story_running_pair(&s, &warned);
    const struct job *job = story_job(&s, "j1");
    story_wait(&s, job->runtime_deadline_ms - s.now_ms - 20500);
    s.unaware = true; /* it is slow to start */
    story_kill(&s, "j1", 0, 9);
    story_wait(&s, 1500);
    cr_expect_neq(job->state, JOB_RUNNING);
    cr_expect(job->runtime_deadline_ms - s.now_ms < 20000);
    expect_signalled(0, NULL);
    s.unaware = false;
    story_wait(&s, 5000);
    cr_assert_eq(job->state, JOB_RUNNING, "%s", job->reason.text);
    expect_signalled(1, NULL);
    story_wait(&s, 30000);
    cr_expect_eq(job->state, JOB_FAILED);
    expect_signalled(1, NULL);
}
