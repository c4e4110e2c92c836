/* See access_world.h. */
#include "tests/unit/coordinator_api/access_world.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"

struct access_made made;

void ask(const char *method, const void *message, const char *token, struct answer *ret)
{
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = method,
                        .message = message,
                        .token = token};
    call_now(&world, &call, ret);
}

int refusal(const char *method, const void *message, const char *token, struct error *err)
{
    struct answer answer;
    ask(method, message, token, &answer);
    *err = answer.err;
    answer_fini(&answer);
    return err->code;
}

void make_tenant(const char *name)
{
    struct answer answer;
    Muster__SetTenantRequest message = MUSTER__SET_TENANT_REQUEST__INIT;
    message.name = (char *)name;
    message.create = true;
    client(&world, "SetTenant", &message, &answer);
    answer_fini(&answer);
}

void make_token(const char *name, const char *role, const char *tenant, char ret[TOKEN_MAX])
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

void revoke(const char *id)
{
    struct answer answer;
    Muster__RevokeTokenRequest message = MUSTER__REVOKE_TOKEN_REQUEST__INIT;
    message.id = (char *)id;
    client(&world, "RevokeToken", &message, &answer);
    answer_fini(&answer);
}

char *words[] = {"true"};

void submit(const char *name, const char *tenant, const char *token, struct answer *ret)
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

void must_submit(const char *name, const char *token, char ret[32])
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
void access_init(void)
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

void access_fini(void)
{
    world_fini(&world);
}

/* The very same answer, so that nobody learns which ids there are. */
void same_as_absent(const char *method, void *message, char **id, const char *token,
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
    snprintf(expected, sizeof(expected), "no job has the id or name '%s'", theirs);
    cr_assert_str_eq(hidden.text, expected);
    cr_assert_str_eq(hidden.hint, absent.hint);
    cr_assert_str_eq(hidden.field, absent.field);
}

void newest_entry(struct store_audit *ret)
{
    struct answer answer;
    Muster__ListAuditRequest message = MUSTER__LIST_AUDIT_REQUEST__INIT;
    message.newest = true;
    message.limit = 1;
    const Muster__ListAuditAnswer *got = client(&world, "ListAudit", &message, &answer);
    cr_assert_eq(got->n_entries, 1);
    const Muster__AuditEntry *entry = got->entries[0];
    memset(ret, 0, sizeof(*ret));
    ret->seq = entry->seq;
    (void)str_copy(ret->token_name, sizeof(ret->token_name), entry->token_name);
    (void)str_copy(ret->tenant, sizeof(ret->tenant), entry->tenant);
    (void)str_copy(ret->method, sizeof(ret->method), entry->method);
    (void)str_copy(ret->object, sizeof(ret->object), entry->object);
    (void)str_copy(ret->result, sizeof(ret->result), entry->result);
    (void)str_copy(ret->text, sizeof(ret->text), entry->text);
    answer_fini(&answer);
}
