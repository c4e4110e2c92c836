/* The cluster at a glance: the counts are of all jobs, not of the newest, and the queue stands in
 * the order in which the scheduler serves it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_api/access_world.h"

TestSuite(overview, .init = access_init, .fini = access_fini);

static const Muster__OverviewAnswer *overview(const char *token, uint32_t limit,
                                              struct answer *answer)
{
    Muster__OverviewRequest message = MUSTER__OVERVIEW_REQUEST__INIT;
    message.limit = limit;
    ask("Overview", &message, token, answer);
    cr_assert(answer->message, "%s", answer->err.text);
    return (const void *)answer->message;
}

static void allow_priority(const char *tenant, int64_t highest)
{
    struct answer answer;
    Muster__Quota quota = MUSTER__QUOTA__INIT, *quotas[] = {&quota};
    Muster__SetTenantRequest message = MUSTER__SET_TENANT_REQUEST__INIT;
    quota.name = (char *)"priority";
    quota.limit = highest;
    message.name = (char *)tenant;
    message.weight = 1;
    message.quotas = quotas;
    message.n_quotas = 1;
    client(&world, "SetTenant", &message, &answer);
    cr_assert(answer.message, "%s", answer.err.text);
    answer_fini(&answer);
}

static void submit_with(const char *name, const char *priority, const char *token)
{
    struct answer answer;
    Muster__JobSpec spec = spec_of(name);
    Muster__SubmitJobRequest message = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    spec.priority = (char *)priority;
    message.spec = &spec;
    ask("SubmitJob", &message, token, &answer);
    cr_assert(answer.message, "%s", answer.err.text);
    answer_fini(&answer);
}

Test(overview, counts_what_two_hundred_newer_jobs_would_hide)
{
    struct answer answer;
    for (int i = 0; i < 210; i++)
        submit_with("sweep", "", made.red);
    const Muster__OverviewAnswer *got = overview(world.admin, 0, &answer);
    cr_expect_eq(got->jobs->starting, 1);
    cr_expect_eq(got->jobs->queued, 211);
    cr_expect_eq(got->jobs->waiting, 211);
    cr_expect_eq(got->jobs->active, 212);
    cr_expect_eq(got->jobs->all, 212);
    cr_expect_eq(got->nodes->ready, 1);
    cr_expect_eq(got->slots, 1);
    cr_expect_eq(got->slots_used, 1);
    cr_assert_eq(got->n_running, 1);
    cr_expect_str_eq(got->running[0]->id, made.red_job);
    cr_expect_eq(got->n_queue, 20);
    cr_expect_neq(got->waiting_since_wall_ms, 0);
    answer_fini(&answer);
}

Test(overview, the_queue_is_in_the_order_of_the_scheduler)
{
    struct answer answer;
    allow_priority("blue", 1000);
    submit_with("last", "low", made.blue);
    submit_with("urgent", "high", made.blue);
    const Muster__OverviewAnswer *got = overview(world.admin, 2, &answer);
    cr_assert_eq(got->n_queue, 2);
    cr_expect_eq(got->queue[0]->place, 1);
    cr_expect_str_eq(got->queue[0]->job->spec->name, "urgent");
    cr_expect_eq(got->queue[1]->place, 2);
    cr_expect_str_eq(got->queue[1]->job->id, made.blue_job);
    answer_fini(&answer);
}

Test(overview, a_member_sees_its_jobs_and_its_place_among_all)
{
    struct answer answer;
    submit_with("mine", "low", made.red);
    const Muster__OverviewAnswer *got = overview(made.red, 0, &answer);
    cr_expect_eq(got->jobs->all, 2);
    cr_expect_eq(got->jobs->waiting, 1);
    cr_assert_eq(got->n_queue, 1);
    cr_expect_eq(got->queue[0]->place, 2, "blue's is before it");
    cr_expect_str_eq(got->queue[0]->job->spec->name, "mine");
    answer_fini(&answer);
}

Test(overview, jobs_of_others_in_a_reason_are_said_once)
{
    struct answer answer;
    Muster__RegisterNodeRequest node = MUSTER__REGISTER_NODE_REQUEST__INIT;
    node.name = "n2";
    node.incarnation = 8;
    node.address = "127.0.0.2";
    node.slots = 3;
    node.cpus = 8;
    node.memory_bytes = 1 << 30;
    node.port_first = 30000;
    node.port_last = 30010;
    agent(&world, "RegisterNode", &node, &answer); /* blue's job runs there */
    answer_fini(&answer);
    submit_with("theirs-a", "", made.red);
    submit_with("theirs-b", "", made.red);
    Muster__JobSpec spec = spec_of("wide");
    Muster__JobSpec__Resources each = MUSTER__JOB_SPEC__RESOURCES__INIT;
    Muster__SubmitJobRequest message = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    each.slots = 3;
    spec.resources = &each;
    message.spec = &spec;
    ask("SubmitJob", &message, made.blue, &answer);
    cr_assert(answer.message, "%s", answer.err.text);
    answer_fini(&answer);
    const Muster__OverviewAnswer *got = overview(made.blue, 0, &answer);
    cr_assert_eq(got->n_queue, 1);
    const char *text = got->queue[0]->job->reason->text;
    cr_expect(strstr(text, "in use by blue-secret, (another tenant's)"), "%s", text);
    cr_expect(!strstr(text, "(another tenant's), (another tenant's)"), "%s", text);
    answer_fini(&answer);
}

Test(overview, slots_of_nodes_that_take_no_work_are_not_counted)
{
    struct answer answer, set;
    Muster__SetNodeRequest cordon = MUSTER__SET_NODE_REQUEST__INIT;
    cordon.name = "n1";
    cordon.action = "cordon";
    client(&world, "SetNode", &cordon, &set);
    answer_fini(&set);
    const Muster__OverviewAnswer *got = overview(world.admin, 0, &answer);
    cr_expect_eq(got->nodes->cordoned, 1);
    cr_expect_eq(got->slots, 0);
    cr_expect_eq(got->slots_used, 0);
    answer_fini(&answer);
}

Test(overview, what_ended_last_comes_first)
{
    struct answer answer, done;
    Muster__CancelJobRequest cancel = MUSTER__CANCEL_JOB_REQUEST__INIT;
    submit_with("a", "", made.red);
    submit_with("b", "", made.red);
    for (const char *const *name = (const char *const[]){"b", "a", NULL}; *name; name++) {
        cancel.id = (char *)*name;
        world_run(&world, 10);
        client(&world, "CancelJob", &cancel, &done);
        answer_fini(&done);
    }
    const Muster__OverviewAnswer *got = overview(world.admin, 0, &answer);
    cr_expect_eq(got->jobs->cancelled, 2);
    cr_assert_eq(got->n_ended, 2);
    cr_expect_str_eq(got->ended[0]->spec->name, "a");
    cr_expect_str_eq(got->ended[1]->spec->name, "b");
    answer_fini(&answer);
}
