/* Tokens and tenants: made, used, revoked, stored. */
#include <criterion/criterion.h>
#include <string.h>

#include "coordinator/model/tenant.h"
#include "coordinator/store/store_memory.h"
#include "tests/unit/coordinator_api/access_world.h"

TestSuite(tokens, .init = access_init, .fini = access_fini);

Test(tokens, a_revoked_token_ends_its_long_polls)
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

Test(tokens, tokens_and_tenants_survive_a_restart)
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

Test(tokens, uses_are_told_and_stored_lazily)
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

Test(tokens, the_last_admin_token_stays)
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

Test(tokens, bad_tokens_and_tenants_are_refused_with_the_field)
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
    cr_assert_eq(refusal("SetTenant", &tenant, world.admin, &err), E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.field, "weight", "no change makes it 1 unasked");
    tenant.weight = 2;
    tenant.guaranteed_slots = 8;
    tenant.limit_slots = 4;
    cr_assert_eq(refusal("SetTenant", &tenant, world.admin, &err), E_INVALID_ARGUMENT);
    tenant.name = "green";
    cr_assert_eq(refusal("SetTenant", &tenant, world.admin, &err), E_NOT_FOUND);
}

Test(tokens, a_tenants_figures_reach_the_scheduler_and_survive_a_restart)
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

Test(tokens, what_could_not_be_stored_did_not_happen)
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
Test(tokens, what_is_refused_for_a_change_fails_with_that_change)
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
