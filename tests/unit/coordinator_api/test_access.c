/* Nothing of another tenant's: its jobs do not exist for others. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/coordinator_api/access_world.h"

TestSuite(access, .init = access_init, .fini = access_fini);

static void hidden_from(const char *token, const char *theirs)
{
    Muster__GetJobRequest get = MUSTER__GET_JOB_REQUEST__INIT;
    Muster__WatchJobRequest watch = MUSTER__WATCH_JOB_REQUEST__INIT;
    Muster__GetLogsRequest logs = MUSTER__GET_LOGS_REQUEST__INIT;
    Muster__GetRanksRequest ranks = MUSTER__GET_RANKS_REQUEST__INIT;
    Muster__GetMetricsRequest metrics = MUSTER__GET_METRICS_REQUEST__INIT;
    Muster__ListEventsRequest events = MUSTER__LIST_EVENTS_REQUEST__INIT;
    same_as_absent("GetJob", &get, &get.id, token, theirs);
    same_as_absent("WhyJob", &get, &get.id, token, theirs);
    same_as_absent("ListCheckpoints", &get, &get.id, token, theirs);
    same_as_absent("WatchJob", &watch, &watch.id, token, theirs);
    same_as_absent("GetLogs", &logs, &logs.id, token, theirs);
    same_as_absent("GetMetrics", &metrics, &metrics.id, token, theirs);
    same_as_absent("GetRanks", &ranks, &ranks.id, token, theirs);
    same_as_absent("ListEvents", &events, &events.job, token, theirs);
}

Test(access, jobs_of_others_answer_as_if_there_were_none)
{
    Muster__CancelJobRequest cancel = MUSTER__CANCEL_JOB_REQUEST__INIT;
    hidden_from(made.red, made.blue_job);
    hidden_from(made.red, "blue-secret");
    hidden_from(made.viewer, made.blue_job);
    hidden_from(made.blue, made.red_job);
    same_as_absent("CancelJob", &cancel, &cancel.id, made.red, made.blue_job);
    struct answer answer;
    Muster__GetJobRequest get = MUSTER__GET_JOB_REQUEST__INIT;
    get.id = made.blue_job;
    ask("GetJob", &get, made.operator, & answer);
    cr_assert(answer.message, "an operator reads everything: %s", answer.err.text);
    cr_assert_neq(((Muster__Job *)answer.message)->state, MUSTER__JOB__STATE__cancelled);
    answer_fini(&answer);
}

Test(access, a_name_means_the_callers_own_job)
{
    char mine[32], theirs[32];
    must_submit("same", made.red, mine);
    must_submit("same", made.blue, theirs);
    struct answer answer;
    Muster__GetJobRequest get = MUSTER__GET_JOB_REQUEST__INIT;
    get.id = "same";
    ask("GetJob", &get, made.red, &answer);
    cr_assert_str_eq(((Muster__Job *)answer.message)->id, mine);
    answer_fini(&answer);
    ask("GetJob", &get, made.blue, &answer);
    cr_assert_str_eq(((Muster__Job *)answer.message)->id, theirs);
    answer_fini(&answer);
}

/* No text of the answer holds the word, whatever field it is in. */
static void never_says(const char *method, const void *message, const char *token, const char *word)
{
    struct answer answer;
    static uint8_t packed[1 << 20];
    ask(method, message, token, &answer);
    cr_assert(answer.message, "%s: %s", method, answer.err.text);
    size_t size = protobuf_c_message_get_packed_size(answer.message);
    cr_assert_lt(size, sizeof(packed));
    protobuf_c_message_pack(answer.message, packed);
    cr_assert_null(memmem(packed, size, word, strlen(word)), "%s tells of %s", method, word);
    answer_fini(&answer);
}

Test(access, nothing_that_can_be_read_tells_of_another_tenant)
{
    Muster__ListJobsRequest jobs = MUSTER__LIST_JOBS_REQUEST__INIT;
    Muster__ListEventsRequest events = MUSTER__LIST_EVENTS_REQUEST__INIT;
    Muster__ListNodesRequest nodes = MUSTER__LIST_NODES_REQUEST__INIT;
    Muster__ListTenantsRequest tenants = MUSTER__LIST_TENANTS_REQUEST__INIT;
    Muster__GetJobRequest get = MUSTER__GET_JOB_REQUEST__INIT;
    events.limit = 1000;
    get.id = made.blue_job;
    const char *const theirs[] = {"red-secret", made.red_job};
    for (int i = 0; i < 2; i++) {
        never_says("ListJobs", &jobs, made.blue, theirs[i]);
        never_says("ListEvents", &events, made.blue, theirs[i]);
        never_says("ListNodes", &nodes, made.blue, theirs[i]);
        never_says("GetJob", &get, made.blue, theirs[i]);
        never_says("WhyJob", &get, made.blue, theirs[i]);
    }
    never_says("ListTenants", &tenants, made.blue, "red");
    jobs.tenant = "red";
    never_says("ListJobs", &jobs, made.blue, "red-secret");
    Muster__PlanRequest plan = MUSTER__PLAN_REQUEST__INIT;
    plan.drain = (char *[]){"n1"};
    plan.n_drain = 1;
    for (int i = 0; i < 2; i++) {
        plan.job = "";
        never_says("Plan", &plan, made.blue, theirs[i]);
        plan.job = made.blue_job;
        never_says("Plan", &plan, made.blue, theirs[i]);
    }
    /* And the reason is there for those who may know it. */
    struct answer answer;
    ask("WhyJob", &get, world.admin, &answer);
    const Muster__WhyJobAnswer *why = (void *)answer.message;
    cr_assert(why && strstr(why->summary, "red-secret"), "%s", why ? why->summary : "");
    answer_fini(&answer);
}

Test(access, a_plan_is_about_ones_own_jobs)
{
    struct error err;
    struct answer answer;
    Muster__JobSpec spec = MUSTER__JOB_SPEC__INIT;
    Muster__PlanRequest plan = MUSTER__PLAN_REQUEST__INIT;
    same_as_absent("Plan", &plan, &plan.job, made.blue, made.red_job);
    plan.job = "";
    plan.n_without_jobs = 1;
    plan.without_jobs = (char *[]){made.red_job};
    same_as_absent("Plan", &plan, &plan.without_jobs[0], made.blue, made.red_job);
    plan.n_without_jobs = 0;
    plan.n_without_tenants = 1;
    plan.without_tenants = (char *[]){"red"};
    cr_assert_eq(refusal("Plan", &plan, made.blue, &err), E_NOT_FOUND);
    cr_assert_str_eq(err.text, "no tenant is named 'red'");
    spec.name = "x";
    spec.tenant = "red";
    spec.command = words;
    spec.n_command = 1;
    plan.n_without_tenants = 0;
    plan.spec = &spec;
    cr_assert_eq(refusal("Plan", &plan, made.blue, &err), E_PERMISSION_DENIED);
    spec.tenant = "";
    plan.job = made.blue_job;
    cr_assert_eq(refusal("Plan", &plan, made.blue, &err), E_INVALID_ARGUMENT);
    plan.job = "";
    plan.n_without_tenants = 1;
    ask("Plan", &plan, world.admin, &answer);
    const Muster__PlanAnswer *got = (void *)answer.message;
    cr_assert(got && !got->starts, "%s", answer.err.text);
    cr_assert_eq(got->n_effects, 1);
    cr_assert_str_eq(got->effects[0]->effect, "starts");
    cr_assert_str_eq(got->effects[0]->job, made.blue_job);
    answer_fini(&answer);
    plan.job = made.red_job;
    plan.spec = NULL;
    cr_assert_eq(refusal("Plan", &plan, made.red, &err), E_FAILED_PRECONDITION, "it runs: %s",
                 err.text);
}

Test(access, a_job_belongs_to_its_submitters_tenant)
{
    struct answer answer;
    submit("a", "blue", made.red, &answer);
    cr_assert_eq(answer.err.code, E_PERMISSION_DENIED);
    submit("a", "default", made.red, &answer);
    cr_assert_str_eq(((Muster__Job *)answer.message)->spec->tenant, "red");
    answer_fini(&answer);
    submit("a", "blu", world.admin, &answer);
    cr_assert_eq(answer.err.code, E_INVALID_ARGUMENT);
    cr_assert_str_eq(answer.err.field, "tenant");
    cr_assert(strstr(answer.err.hint, "blue"), "%s", answer.err.hint);
    submit("a", "blue", world.admin, &answer);
    cr_assert_str_eq(((Muster__Job *)answer.message)->spec->tenant, "blue");
    answer_fini(&answer);
}

Test(access, only_its_own_can_scale_a_job)
{
    struct error err;
    Muster__ScaleJobRequest message = MUSTER__SCALE_JOB_REQUEST__INIT;
    message.min = 1;
    message.max = 2;
    same_as_absent("ScaleJob", &message, &message.id, made.red, made.blue_job);
    message.id = made.blue_job;
    cr_assert_eq(refusal("ScaleJob", &message, made.viewer, &err), E_PERMISSION_DENIED);
    struct answer answer;
    ask("ScaleJob", &message, made.blue, &answer);
    cr_assert(answer.message, "%s", answer.err.text);
    cr_assert_eq(((Muster__Job *)answer.message)->spec->nodes->max, 2u);
    answer_fini(&answer);
    struct store_audit entry;
    newest_entry(&entry);
    cr_assert_str_eq(entry.text, "1..2 nodes");
    message.min = 0;
    cr_assert_eq(refusal("ScaleJob", &message, made.blue, &err), E_INVALID_ARGUMENT);
}
