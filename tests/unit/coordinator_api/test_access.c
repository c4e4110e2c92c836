/* Who may do what: every method with every kind of token, and nothing of another tenant's. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"
#include "coordinator/api_rpc/access.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/api_rpc/service_internal.h"
#include "coordinator/store/store_memory.h"
#include "tests/unit/coordinator_api/world.h"

static struct world world;

static struct {
    char operator[TOKEN_MAX], red[TOKEN_MAX], blue[TOKEN_MAX], viewer[TOKEN_MAX];
    char revoked[TOKEN_MAX], expired[TOKEN_MAX];
    char red_job[32], blue_job[32];
} made;

static void ask(const char *method, const void *message, const char *token, struct answer *ret)
{
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = method,
                        .message = message,
                        .token = token};
    call_now(&world, &call, ret);
}

static int refusal(const char *method, const void *message, const char *token, struct error *err)
{
    struct answer answer;
    ask(method, message, token, &answer);
    *err = answer.err;
    answer_fini(&answer);
    return err->code;
}

static void make_tenant(const char *name)
{
    struct answer answer;
    Muster__SetTenantRequest message = MUSTER__SET_TENANT_REQUEST__INIT;
    message.name = (char *)name;
    message.create = true;
    client(&world, "SetTenant", &message, &answer);
    answer_fini(&answer);
}

static void make_token(const char *name, const char *role, const char *tenant, char ret[TOKEN_MAX])
{
    struct answer answer;
    Muster__CreateTokenRequest message = MUSTER__CREATE_TOKEN_REQUEST__INIT;
    message.name = (char *)name;
    message.role = (char *)role;
    message.tenant = (char *)tenant;
    message.expires = strcmp(name, "expired") == 0 ? "100ms" : "";
    const Muster__CreateTokenAnswer *got = client(&world, "CreateToken", &message, &answer);
    cr_assert_eq(str_copy(ret, TOKEN_MAX, got->plain), 0);
    answer_fini(&answer);
}

static void revoke(const char *id)
{
    struct answer answer;
    Muster__RevokeTokenRequest message = MUSTER__REVOKE_TOKEN_REQUEST__INIT;
    message.id = (char *)id;
    client(&world, "RevokeToken", &message, &answer);
    answer_fini(&answer);
}

static char *words[] = {"true"};

static void submit(const char *name, const char *tenant, const char *token, struct answer *ret)
{
    Muster__JobSpec spec = MUSTER__JOB_SPEC__INIT;
    Muster__SubmitJobRequest message = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    spec.name = (char *)name;
    spec.tenant = (char *)tenant;
    spec.command = words;
    spec.n_command = 1;
    message.spec = &spec;
    ask("SubmitJob", &message, token, ret);
}

static void must_submit(const char *name, const char *token, char ret[32])
{
    struct answer answer;
    submit(name, "", token, &answer);
    cr_assert(answer.message, "%s", answer.err.text);
    (void)str_copy(ret, 32, ((Muster__Job *)answer.message)->id);
    answer_fini(&answer);
}

static void register_node(void)
{
    struct answer answer;
    Muster__RegisterNodeRequest message = MUSTER__REGISTER_NODE_REQUEST__INIT;
    message.name = "n1";
    message.incarnation = 7;
    message.address = "127.0.0.1";
    message.slots = 1;
    message.cpus = 2;
    message.memory_bytes = 1 << 30;
    message.port_first = 30000;
    message.port_last = 30010;
    agent(&world, "RegisterNode", &message, &answer);
    answer_fini(&answer);
}

/* Two tenants that know nothing of one another: red runs on the only slot, blue waits for it. */
static void init(void)
{
    world_init(&world);
    register_node();
    make_tenant("red");
    make_tenant("blue");
    make_token("operator", "operator", "", made.operator);
    make_token("red", "member", "red", made.red);
    make_token("blue", "member", "blue", made.blue);
    make_token("viewer", "viewer", "red", made.viewer);
    make_token("revoked", "admin", "", made.revoked);
    make_token("expired", "admin", "", made.expired);
    revoke("revoked");
    world_run(&world, 150);
    must_submit("red-secret", made.red, made.red_job);
    must_submit("blue-secret", made.blue, made.blue_job);
}

static void fini(void)
{
    world_fini(&world);
}

TestSuite(access, .init = init, .fini = fini);

/* Which roles the table lets in, told by the code of the refusal alone: a message that makes no
 * sense is refused for what it says only to those who may call. */
static void try_method(const struct service_method *method)
{
    const ProtobufCServiceDescriptor *service = strcmp(method->service, "Nodes") == 0
                                                    ? &muster__nodes__descriptor
                                                    : &muster__coordinator__descriptor;
    const ProtobufCMethodDescriptor *descriptor =
        protobuf_c_service_descriptor_get_method_by_name(service, method->name);
    const struct {
        const char *token;
        unsigned role;
    } callers[] = {{NULL, 0}, {"", 0}, {"nonsense", 0},
                   {"mst_admin_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 0},
                   {"mst_worker_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 0},
                   {made.revoked, 0}, {made.expired, 0}, {world.admin, ACCESS_ADMIN},
                   {
                       made.operator,
                       ACCESS_OPERATOR },
                       {made.red, ACCESS_MEMBER},
                       {made.viewer, ACCESS_VIEWER},
                       {world.agent, ACCESS_AGENT},
    };
    char storage[512] = {0};
    cr_assert_leq(descriptor->input->sizeof_message, sizeof storage);
    ProtobufCMessage *message = (void *)storage;
    descriptor->input->message_init(message);
    for (size_t i = 0; i < sizeof callers / sizeof *callers; i++) {
        struct answer answer;
        struct call call = {.service = service,
                            .method = method->name,
                            .message = message,
                            .token = callers[i].token,
                            .timeout_ms = 300};
        call_now(&world, &call, &answer);
        int code = answer.err.code;
        if (method->roles == 0 || (callers[i].role & method->roles))
            cr_assert(code != E_UNAUTHENTICATED && code != E_PERMISSION_DENIED,
                      "%s is refused to role %u: %s", method->name, callers[i].role,
                      answer.err.text);
        else
            cr_assert_eq(code, callers[i].role ? E_PERMISSION_DENIED : E_UNAUTHENTICATED,
                         "%s with token %zu: %s %s", method->name, i, error_name(code),
                         answer.err.text);
        answer_fini(&answer);
    }
}

Test(access, every_method_lets_in_whom_the_table_says_and_nobody_else)
{
    int count = 0;
    for (const struct service_method *method = service_methods; method->name; method++, count++)
        try_method(method);
    cr_assert_eq((unsigned)count,
                 muster__coordinator__descriptor.n_methods + muster__nodes__descriptor.n_methods,
                 "a method of the schema is not in the table");
}

/* Whatever the fields hold: an answer, the same when repeated, and never our mistake. */
static void fill_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, bool large)
{
    static char many[20001];
    void *at = (char *)message + field->offset;
    memset(many, 'x', sizeof many - 1);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        *(char **)at = large ? many : (char *)"\xff\"\n{$(reboot)}'; DROP TABLE jobs;--";
        return;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
        *(uint32_t *)at = large ? UINT32_MAX : 1;
        return;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_INT64:
        *(uint64_t *)at = large ? UINT64_MAX : 1;
        return;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = large;
        return;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)at = large ? 1e308 : -1;
        return;
    case PROTOBUF_C_TYPE_BYTES:
        *(ProtobufCBinaryData *)at = (ProtobufCBinaryData){sizeof many - 1, (uint8_t *)many};
        return;
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_MESSAGE:
        return;
    }
}

static void try_nonsense(const struct service_method *method, bool large)
{
    bool nodes = strcmp(method->service, "Nodes") == 0;
    const ProtobufCServiceDescriptor *service =
        nodes ? &muster__nodes__descriptor : &muster__coordinator__descriptor;
    const ProtobufCMethodDescriptor *descriptor =
        protobuf_c_service_descriptor_get_method_by_name(service, method->name);
    char storage[512] = {0};
    ProtobufCMessage *message = (void *)storage;
    descriptor->input->message_init(message);
    for (unsigned i = 0; i < descriptor->input->n_fields; i++)
        fill_field(message, &descriptor->input->fields[i], large);
    int codes[2];
    for (int i = 0; i < 2; i++) {
        struct answer answer;
        struct call call = {.service = service,
                            .method = method->name,
                            .message = message,
                            .token = nodes ? world.agent : world.admin,
                            .key = large ? "key" : NULL,
                            .timeout_ms = 300};
        call_now(&world, &call, &answer);
        codes[i] = answer.err.code;
        cr_assert_neq(codes[i], E_INTERNAL, "%s: %s", method->name, answer.err.text);
        answer_fini(&answer);
    }
    cr_assert_eq(codes[0], codes[1], "%s answers a repeat with %s, not %s", method->name,
                 error_name(codes[1]), error_name(codes[0]));
}

Test(access, every_method_answers_nonsense_and_does_so_again)
{
    for (const struct service_method *method = service_methods; method->name; method++) {
        try_nonsense(method, false);
        try_nonsense(method, true);
    }
}

/* The very same answer, so that nobody learns which ids there are. */
static void same_as_absent(const char *method, void *message, char **id, const char *token,
                           const char *theirs)
{
    struct error absent, hidden;
    char expected[256];
    *id = "j987654";
    refusal(method, message, token, &absent);
    *id = (char *)theirs;
    cr_assert_eq(refusal(method, message, token, &hidden), E_NOT_FOUND, "%s: %s", method,
                 hidden.text);
    cr_assert_eq(absent.code, E_NOT_FOUND);
    snprintf(expected, sizeof expected, "no job has the id or name '%s'", theirs);
    cr_assert_str_eq(hidden.text, expected);
    cr_assert_str_eq(hidden.hint, absent.hint);
    cr_assert_str_eq(hidden.field, absent.field);
}

static void hidden_from(const char *token, const char *theirs)
{
    Muster__GetJobRequest get = MUSTER__GET_JOB_REQUEST__INIT;
    Muster__WatchJobRequest watch = MUSTER__WATCH_JOB_REQUEST__INIT;
    Muster__GetLogsRequest logs = MUSTER__GET_LOGS_REQUEST__INIT;
    Muster__GetMetricsRequest metrics = MUSTER__GET_METRICS_REQUEST__INIT;
    Muster__ListEventsRequest events = MUSTER__LIST_EVENTS_REQUEST__INIT;
    same_as_absent("GetJob", &get, &get.id, token, theirs);
    same_as_absent("WhyJob", &get, &get.id, token, theirs);
    same_as_absent("ListCheckpoints", &get, &get.id, token, theirs);
    same_as_absent("WatchJob", &watch, &watch.id, token, theirs);
    same_as_absent("GetLogs", &logs, &logs.id, token, theirs);
    same_as_absent("GetMetrics", &metrics, &metrics.id, token, theirs);
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
    cr_assert_lt(size, sizeof packed);
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

/* Every field of every method that could name something, with another tenant's id and name in it:
 * whatever is answered, it tells nothing that the caller did not say himself. */
static void name_theirs(const struct service_method *method, const char *theirs, const char *hidden)
{
    const ProtobufCMethodDescriptor *descriptor = protobuf_c_service_descriptor_get_method_by_name(
        &muster__coordinator__descriptor, method->name);
    static uint8_t packed[1 << 20];
    char *list[] = {(char *)theirs};
    for (unsigned i = 0; i < descriptor->input->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->input->fields[i];
        char storage[512] = {0};
        ProtobufCMessage *message = (void *)storage;
        struct answer answer;
        if (field->type != PROTOBUF_C_TYPE_STRING)
            continue;
        descriptor->input->message_init(message);
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            *(char ***)(storage + field->offset) = list;
            *(size_t *)(storage + field->quantifier_offset) = 1;
        } else {
            *(char **)(storage + field->offset) = (char *)theirs;
        }
        struct call call = {.service = &muster__coordinator__descriptor,
                            .method = method->name,
                            .message = message,
                            .token = made.blue,
                            .timeout_ms = 300};
        call_now(&world, &call, &answer);
        size_t size = answer.message ? protobuf_c_message_pack(answer.message, packed) : 0;
        cr_assert(!answer.message || !memmem(packed, size, hidden, strlen(hidden)),
                  "%s with %s = %s tells %s", method->name, field->name, theirs, hidden);
        cr_assert(!strstr(answer.err.text, hidden) && !strstr(answer.err.hint, hidden),
                  "%s with %s = %s: %s", method->name, field->name, theirs, answer.err.text);
        answer_fini(&answer);
    }
}

Test(access, no_method_tells_of_another_tenant_by_id_or_by_name)
{
    for (const struct service_method *method = service_methods; method->name; method++) {
        if (strcmp(method->service, "Coordinator") != 0)
            continue;
        name_theirs(method, made.red_job, "red-secret");
        name_theirs(method, "red-secret", made.red_job);
        name_theirs(method, "red", "red-secret");
    }
    struct answer answer;
    Muster__GetJobRequest get = MUSTER__GET_JOB_REQUEST__INIT;
    get.id = made.red_job;
    ask("GetJob", &get, made.red, &answer);
    cr_assert_neq(((Muster__Job *)answer.message)->state, MUSTER__JOB__STATE__cancelled);
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

Test(access, a_revoked_token_ends_its_long_polls)
{
    struct answer waiting;
    Muster__WatchJobRequest watch = MUSTER__WATCH_JOB_REQUEST__INIT;
    watch.id = made.blue_job;
    struct answer now;
    ask("WatchJob", &watch, made.blue, &now);
    watch.version = ((Muster__Job *)now.message)->version;
    answer_fini(&now);
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "WatchJob",
                        .message = &watch.base,
                        .token = made.blue,
                        .timeout_ms = 30000};
    call_start(&world, &call, &waiting);
    world_run(&world, 100);
    cr_assert_not(waiting.done);
    revoke("blue");
    world_run(&world, 5);
    cr_assert(waiting.done);
    cr_assert_eq(waiting.err.code, E_UNAUTHENTICATED);
}

Test(access, tokens_and_tenants_survive_a_restart)
{
    struct error err;
    Muster__WhoAmIRequest who = MUSTER__WHO_AM_IREQUEST__INIT;
    world_restart(&world);
    cr_assert_eq(refusal("WhoAmI", &who, made.revoked, &err), E_UNAUTHENTICATED);
    struct answer answer;
    ask("WhoAmI", &who, made.viewer, &answer);
    const Muster__Token *token = (void *)answer.message;
    cr_assert_str_eq(token->role, "viewer");
    cr_assert_str_eq(token->tenant, "red");
    cr_assert_str_eq(token->name, "viewer");
    answer_fini(&answer);
}

Test(access, uses_are_told_and_stored_lazily)
{
    struct answer answer;
    Muster__ListTokensRequest list = MUSTER__LIST_TOKENS_REQUEST__INIT;
    Muster__WhoAmIRequest who = MUSTER__WHO_AM_IREQUEST__INIT;
    world_run(&world, 61000); /* all uses so far are stored */
    ask("WhoAmI", &who, made.viewer, &answer);
    int64_t used = ((Muster__Token *)answer.message)->used_wall_ms;
    cr_assert_gt(used, 0);
    answer_fini(&answer);
    world_run(&world, 61000);
    world_restart(&world);
    const Muster__ListTokensAnswer *tokens = client(&world, "ListTokens", &list, &answer);
    int64_t stored = 0;
    for (size_t i = 0; i < tokens->n_tokens; i++)
        if (strcmp(tokens->tokens[i]->name, "viewer") == 0)
            stored = tokens->tokens[i]->used_wall_ms;
    cr_assert_eq(stored, used);
    answer_fini(&answer);
}

Test(access, the_last_admin_token_stays)
{
    struct error err;
    Muster__RevokeTokenRequest message = MUSTER__REVOKE_TOKEN_REQUEST__INIT;
    message.id = "admin";
    cr_assert_eq(refusal("RevokeToken", &message, world.admin, &err), E_FAILED_PRECONDITION);
    char another[TOKEN_MAX];
    make_token("second", "admin", "", another);
    revoke("admin");
    Muster__WhoAmIRequest who = MUSTER__WHO_AM_IREQUEST__INIT;
    cr_assert_eq(refusal("WhoAmI", &who, world.admin, &err), E_UNAUTHENTICATED);
    cr_assert_eq(refusal("WhoAmI", &who, another, &err), 0);
}

Test(access, bad_tokens_and_tenants_are_refused_with_the_field)
{
    struct error err;
    Muster__CreateTokenRequest token = MUSTER__CREATE_TOKEN_REQUEST__INIT;
    Muster__SetTenantRequest tenant = MUSTER__SET_TENANT_REQUEST__INIT;
    token.name = "x";
    token.role = "king";
    cr_assert_eq(refusal("CreateToken", &token, world.admin, &err), E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.field, "role");
    token.role = "member";
    cr_assert_eq(refusal("CreateToken", &token, world.admin, &err), E_INVALID_ARGUMENT);
    token.tenant = "rde";
    cr_assert_eq(refusal("CreateToken", &token, world.admin, &err), E_NOT_FOUND);
    cr_assert(strstr(err.hint, "red"), "%s", err.hint);
    token.role = "admin";
    cr_assert_eq(refusal("CreateToken", &token, world.admin, &err), E_INVALID_ARGUMENT);
    token.tenant = "";
    token.expires = "soon";
    cr_assert_eq(refusal("CreateToken", &token, world.admin, &err), E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.field, "expires");
    token.expires = "";
    token.name = "red";
    cr_assert_eq(refusal("CreateToken", &token, world.admin, &err), E_ALREADY_EXISTS);
    tenant.name = "red";
    tenant.create = true;
    cr_assert_eq(refusal("SetTenant", &tenant, world.admin, &err), E_ALREADY_EXISTS);
    tenant.create = false;
    tenant.guaranteed_slots = 8;
    tenant.limit_slots = 4;
    cr_assert_eq(refusal("SetTenant", &tenant, world.admin, &err), E_INVALID_ARGUMENT);
    tenant.name = "green";
    cr_assert_eq(refusal("SetTenant", &tenant, world.admin, &err), E_NOT_FOUND);
}

/* The audit trail */

static void newest_entry(struct store_audit *ret)
{
    struct answer answer;
    Muster__ListAuditRequest message = MUSTER__LIST_AUDIT_REQUEST__INIT;
    message.newest = true;
    message.limit = 1;
    const Muster__ListAuditAnswer *got = client(&world, "ListAudit", &message, &answer);
    cr_assert_eq(got->n_entries, 1);
    const Muster__AuditEntry *entry = got->entries[0];
    memset(ret, 0, sizeof *ret);
    ret->seq = entry->seq;
    (void)str_copy(ret->token_name, sizeof ret->token_name, entry->token_name);
    (void)str_copy(ret->tenant, sizeof ret->tenant, entry->tenant);
    (void)str_copy(ret->method, sizeof ret->method, entry->method);
    (void)str_copy(ret->object, sizeof ret->object, entry->object);
    (void)str_copy(ret->result, sizeof ret->result, entry->result);
    (void)str_copy(ret->text, sizeof ret->text, entry->text);
    answer_fini(&answer);
}

Test(access, changes_and_attempts_leave_a_trace)
{
    struct store_audit entry, later;
    struct error err;
    newest_entry(&entry);
    cr_assert_str_eq(entry.method, "SubmitJob");
    cr_assert_str_eq(entry.token_name, "blue");
    cr_assert_str_eq(entry.tenant, "blue");
    cr_assert_str_eq(entry.object, made.blue_job);
    cr_assert_str_eq(entry.result, "OK");
    cr_assert_str_eq(entry.text, "blue-secret");
    Muster__CancelJobRequest cancel = MUSTER__CANCEL_JOB_REQUEST__INIT;
    cancel.id = made.blue_job;
    refusal("CancelJob", &cancel, made.red, &err);
    newest_entry(&later);
    cr_assert_eq(later.seq, entry.seq + 1);
    cr_assert_str_eq(later.token_name, "red");
    cr_assert_str_eq(later.object, made.blue_job);
    cr_assert_str_eq(later.result, "NOT_FOUND");
    refusal("CancelJob", &cancel, made.viewer, &err);
    newest_entry(&later);
    cr_assert_str_eq(later.result, "PERMISSION_DENIED");
    Muster__SetNodeRequest node = MUSTER__SET_NODE_REQUEST__INIT;
    node.name = "n1";
    node.action = "cordon";
    node.reason = "fans";
    cr_assert_eq(refusal("SetNode", &node, made.operator, & err), 0);
    newest_entry(&later);
    cr_assert_str_eq(later.token_name, "operator");
    cr_assert_str_eq(later.object, "n1");
    cr_assert_str_eq(later.text, "cordon: fans");
    uint64_t before = later.seq;
    world_restart(&world);
    newest_entry(&later);
    cr_assert_eq(later.seq, before, "reading leaves no trace, and a restart loses none");
}

Test(access, a_tenants_figures_reach_the_scheduler_and_survive_a_restart)
{
    struct error err;
    Muster__SetTenantRequest message = MUSTER__SET_TENANT_REQUEST__INIT;
    message.name = "red";
    message.weight = 5;
    message.guaranteed_slots = 2;
    message.limit_slots = 3;
    cr_assert_eq(refusal("SetTenant", &message, world.admin, &err), 0);
    for (int i = 0; i < 2; i++) {
        const struct tenant *red = cluster_tenant(coordinator_cluster(world.coordinator), "red");
        cr_assert(red && red->weight == 5 && red->guaranteed_slots == 2 && red->limit_slots == 3);
        world_restart(&world);
    }
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

static void same_answer(const char *key, struct answer *ret)
{
    Muster__JobSpec spec = MUSTER__JOB_SPEC__INIT;
    Muster__SubmitJobRequest message = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    spec.name = "again";
    spec.command = words;
    spec.n_command = 1;
    message.spec = &spec;
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "SubmitJob",
                        .message = &message.base,
                        .token = made.red,
                        .key = key};
    call_now(&world, &call, ret);
}

Test(access, a_repeated_submit_is_one_change_and_its_key_is_the_tenants_own)
{
    struct answer first, second;
    struct store_audit before, after;
    same_answer("k", &first);
    newest_entry(&before);
    same_answer("k", &second);
    newest_entry(&after);
    cr_assert_str_eq(((Muster__Job *)first.message)->id, ((Muster__Job *)second.message)->id);
    cr_assert_eq(before.seq, after.seq);
    answer_fini(&first);
    answer_fini(&second);
}

static void see_entries(void *arg, const struct store_audit *entry)
{
    const char *plain = arg;
    cr_assert_null(strstr(entry->text, plain), "the audit trail holds a token");
    cr_assert_null(strstr(entry->object, plain), "the audit trail holds a token");
    cr_assert_null(strstr(entry->text, "mst_"), "the audit trail holds a token");
}

Test(access, secrets_never_reach_the_audit_trail)
{
    char plain[TOKEN_MAX];
    make_token("ci", "member", "red", plain);
    struct store_events_query query = {.limit = STORE_AUDIT_PAGE_MAX};
    cr_assert_eq(world.store->verbs->list_audit(world.store, &query, see_entries, plain, NULL), 0);
}

Test(access, what_could_not_be_stored_did_not_happen)
{
    struct error err;
    char ignored[TOKEN_MAX];
    Muster__CreateTokenRequest message = MUSTER__CREATE_TOKEN_REQUEST__INIT;
    message.name = "late";
    message.role = "operator";
    store_memory_fail_commits(world.store, 1, E_RESOURCE_EXHAUSTED);
    cr_assert_eq(refusal("CreateToken", &message, world.admin, &err), E_RESOURCE_EXHAUSTED);
    Muster__SetTenantRequest tenant = MUSTER__SET_TENANT_REQUEST__INIT;
    tenant.name = "late";
    tenant.create = true;
    world_run(&world, 3000); /* it can be written again */
    store_memory_fail_commits(world.store, 1, E_UNAVAILABLE);
    cr_assert_eq(refusal("SetTenant", &tenant, world.admin, &err), E_UNAVAILABLE);
    world_run(&world, 3000);
    Muster__ListTenantsRequest list = MUSTER__LIST_TENANTS_REQUEST__INIT;
    list.name = "late";
    cr_assert_eq(refusal("ListTenants", &list, world.admin, &err), E_NOT_FOUND);
    make_token("late", "operator", "", ignored);
    make_tenant("late");
}

/* Two in one turn: the second is refused for the first, which then is not stored. */
Test(access, what_is_refused_for_a_change_fails_with_that_change)
{
    struct answer first, second;
    Muster__SetTenantRequest tenant = MUSTER__SET_TENANT_REQUEST__INIT;
    tenant.name = "green";
    tenant.create = true;
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "SetTenant",
                        .message = &tenant.base,
                        .token = world.admin};
    store_memory_fail_commits(world.store, 1, E_UNAVAILABLE);
    call_start(&world, &call, &first);
    call_start(&world, &call, &second);
    world_run(&world, 5);
    cr_assert(first.done && second.done);
    cr_expect_eq(first.err.code, E_UNAVAILABLE);
    cr_expect_eq(second.err.code, E_UNAVAILABLE, "%s", second.err.text);
    world_run(&world, 3000); /* it can be written again */
    call_start(&world, &call, &first);
    call_start(&world, &call, &second);
    world_run(&world, 5);
    cr_expect_eq(first.err.code, 0, "%s", first.err.text);
    cr_expect_eq(second.err.code, E_ALREADY_EXISTS, "%s", second.err.text);
    answer_fini(&first);
    answer_fini(&second);
}
