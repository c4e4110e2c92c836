/* muster token, muster tenant: permissions and shares */
#include <inttypes.h>
#include <string.h>

#include "cli/client.h"
#include "cli/table.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/rpc/message.h"

static const char *const roles[] = {"admin", "operator", "member", "viewer", "agent", NULL};
static const char *const token_actions[] = {"create", "list", "revoke", "whoami", NULL};
static const char *const tenant_actions[] = {"create", "list", "show", "set", NULL};

static const struct args_option token_options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "role",
     .kind = ARGS_OPTION,
     .choices = roles,
     .fallback = "member",
     .help = "role of a new token: what it may do"},
    {.name = "tenant", .kind = ARGS_OPTION, .help = "tenant of a new member or viewer"},
    {.name = "expires",
     .kind = ARGS_OPTION,
     .value_name = "TIME",
     .help = "how long a new token is valid, for example 30d (else until it is revoked)"},
    {.name = "uses",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 1,
     .max = 1000000,
     .help = "how many new nodes may join with a new agent's token (else any number); nodes that "
             "have joined do not need it"},
    {.name = "all", .letter = 'a', .kind = ARGS_FLAG, .help = "list revoked ones too"},
    {.name = "action",
     .kind = ARGS_POSITIONAL,
     .required = true,
     .choices = token_actions,
     .help = "what to do"},
    {.name = "name",
     .kind = ARGS_POSITIONAL,
     .values = "token",
     .help = "name of a new token; id or name to revoke"},
    {0},
};
static const char *const token_examples[] = {
    "muster token create ci --role member --tenant vision --expires 90d",
    "muster token create racks --role agent --expires 1d --uses 20",
    "muster token revoke ci",
    NULL,
};
static const struct args_command token_command = {
    .program = "muster token",
    .summary = "make, list and revoke access tokens",
    .description = "Roles: admin may do everything; operator changes nodes and reads everything; "
                   "member changes jobs of its tenant; viewer reads jobs of its tenant; agent is "
                   "for agents. A new token is shown once; only its hash is kept.",
    .options = token_options,
    .examples = token_examples,
};

static const struct args_option tenant_options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "weight",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 1,
     .max = 1000,
     .help = "share of the slots that are not guaranteed, relative to the weights of other tenants "
             "(1)"},
    {.name = "guaranteed",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 0,
     .max = 10000000,
     .value_name = "SLOTS",
     .help = "number of slots that it can always have (0)"},
    {.name = "limit",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 0,
     .max = 10000000,
     .value_name = "SLOTS",
     .help = "number of slots that it can have at most; 0 is no limit (0)"},
    {.name = "quota",
     .kind = ARGS_REPEATED,
     .value_name = "NAME=VALUE",
     .help = "limit of what its members may have, for example waiting_jobs=500 or "
             "output_bytes=20GiB (`show` lists all); NAME=default resets it"},
    {.name = "checkpoint-prefix",
     .kind = ARGS_REPEATED,
     .value_name = "DIR",
     .help = "folder below which its jobs must keep checkpoints; empty: anywhere outside other "
             "tenants' folders"},
    {.name = "action",
     .kind = ARGS_POSITIONAL,
     .required = true,
     .choices = tenant_actions,
     .help = "what to do"},
    {.name = "name", .kind = ARGS_POSITIONAL, .values = "tenant", .help = "of the tenant"},
    {0},
};
static const char *const tenant_examples[] = {
    "muster tenant create vision --weight 2 --guaranteed 8 --limit 32",
    "muster tenant set vision --limit 64",
    "muster tenant set vision --quota waiting_jobs=500 --quota priority=100",
    "muster tenant set vision --checkpoint-prefix /shared/vision",
    NULL,
};
static const struct args_command tenant_command = {
    .program = "muster tenant",
    .summary = "make, list and change tenants",
    .options = tenant_options,
    .examples = tenant_examples,
};

/* The name a verb needs; NULL after saying that it is missing. */
static const char *needed_name(const struct args *args)
{
    const char *name = args_text(args, "name");
    if (!name) {
        struct error err;
        error_set(&err, E_INVALID_ARGUMENT, "%s needs a name", args_text(args, "action"));
        client_fail(&err);
    }
    return name;
}

static const char *when(int64_t wall_ms, const char *never, char ret[FORMAT_MAX])
{
    return wall_ms ? format_time(wall_ms, ret) : never;
}

static void token_row(struct table *table, const Muster__Token *token)
{
    char time[FORMAT_MAX], age[FORMAT_MAX];
    table_cell(table, "%s", token->id);
    table_cell(table, "%s", token->name);
    table_cell(table, "%s", token->role);
    table_cell(table, "%s", token->tenant);
    table_cell(table, "%s", when(token->created_wall_ms, "", time));
    table_cell(table, "%s", when(token->expires_wall_ms, "never", time));
    table_cell(table, "%s", token->used_wall_ms ? age_text(token->used_wall_ms, age) : "never");
    if (token->uses_max)
        table_cell(table, "%" PRId64 " of %" PRId64, token->uses_max - token->uses,
                   token->uses_max);
    else
        table_cell(table, "%s", strcmp(token->role, "agent") == 0 ? "any" : "");
    table_cell(table, "%s", token->revoked_wall_ms ? when(token->revoked_wall_ms, "", time) : "");
}

static void print_tokens(Muster__Token *const *tokens, size_t count, bool all)
{
    static const char *const titles[] = {"ID",      "NAME",  "ROLE",       "TENANT",  "CREATED",
                                         "EXPIRES", ">USED", ">USES LEFT", "REVOKED", NULL};
    struct table table;
    table_init(&table, titles);
    for (size_t i = 0; i < count; i++)
        if (all || !tokens[i]->revoked_wall_ms)
            token_row(&table, tokens[i]);
    table_print(&table, stdout, "no tokens");
    table_fini(&table);
}

static int create_token(const struct args *args)
{
    Muster__CreateTokenRequest request = MUSTER__CREATE_TOKEN_REQUEST__INIT;
    Muster__CreateTokenAnswer *answer = NULL;
    const char *name = needed_name(args), *tenant = args_text(args, "tenant");
    const char *expires = args_text(args, "expires");
    if (!name)
        return EXIT_USAGE;
    request.name = (char *)name;
    request.role = (char *)args_text(args, "role");
    request.tenant = (char *)(tenant ? tenant : "");
    request.expires = (char *)(expires ? expires : "");
    if (args_given(args, "uses"))
        request.uses = (uint32_t)args_integer(args, "uses");
    int code = client_ask(args, "CreateToken", &request, &answer);
    if (code != 0)
        return code;
    if (!client_printed(args, answer)) {
        printf("%s\n", answer->plain);
        fprintf(stderr, "token %s (%s): keep it, it is not shown again\n", answer->token->id,
                answer->token->name);
    }
    rpc_message_free(answer);
    return EXIT_DONE;
}

static int list_tokens(const struct args *args)
{
    Muster__ListTokensRequest request = MUSTER__LIST_TOKENS_REQUEST__INIT;
    Muster__ListTokensAnswer *answer = NULL;
    int code = client_ask(args, "ListTokens", &request, &answer);
    if (code == 0 && !client_printed(args, answer))
        print_tokens(answer->tokens, answer->n_tokens, args_flag(args, "all"));
    rpc_message_free(answer);
    return code;
}

static int show_token(const struct args *args, const char *method, const void *request)
{
    Muster__Token *token = NULL;
    int code = client_ask(args, method, request, &token);
    if (code == 0 && !client_printed(args, token))
        print_tokens(&token, 1, true);
    rpc_message_free(token);
    return code;
}

static int run_token(const struct args *args)
{
    const char *action = args_text(args, "action");
    if (strcmp(action, "create") == 0)
        return create_token(args);
    if (strcmp(action, "list") == 0)
        return list_tokens(args);
    if (strcmp(action, "whoami") == 0) {
        Muster__WhoAmIRequest request = MUSTER__WHO_AM_IREQUEST__INIT;
        return show_token(args, "WhoAmI", &request);
    }
    Muster__RevokeTokenRequest request = MUSTER__REVOKE_TOKEN_REQUEST__INIT;
    request.id = (char *)needed_name(args);
    return request.id ? show_token(args, "RevokeToken", &request) : EXIT_USAGE;
}

static void tenant_row(struct table *table, const Muster__Tenant *tenant)
{
    table_cell(table, "%s", tenant->name);
    table_cell(table, "%u", tenant->weight);
    table_cell(table, "%u", tenant->guaranteed_slots);
    if (tenant->limit_slots)
        table_cell(table, "%u", tenant->limit_slots);
    else
        table_cell(table, "none");
    table_cell(table, "%u", tenant->slots_used);
    table_cell(table, "%u", tenant->active_jobs);
}

static void print_tenants(Muster__Tenant *const *tenants, size_t count)
{
    static const char *const titles[] = {"NAME",   ">WEIGHT",      ">GUARANTEED", ">LIMIT",
                                         ">SLOTS", ">ACTIVE JOBS", NULL};
    struct table table;
    table_init(&table, titles);
    for (size_t i = 0; i < count; i++)
        tenant_row(&table, tenants[i]);
    table_print(&table, stdout, "no tenants");
    table_fini(&table);
}

static void print_quotas(const Muster__Tenant *tenant)
{
    static const char *const titles[] = {"QUOTA", ">USED", ">LIMIT", "SET", NULL};
    struct table table;
    table_init(&table, titles);
    for (size_t i = 0; i < tenant->n_quotas; i++) {
        const Muster__Quota *quota = tenant->quotas[i];
        char used[FORMAT_MAX], limit[FORMAT_MAX];
        bool bytes = str_ends(quota->name, "_bytes");
        table_cell(&table, "%s", quota->name);
        if (bytes) {
            table_cell(&table, "%s", format_bytes((uint64_t)quota->used, used));
            table_cell(&table, "%s", format_bytes((uint64_t)quota->limit, limit));
        } else {
            table_cell(&table, "%" PRId64, quota->used);
            table_cell(&table, "%" PRId64, quota->limit);
        }
        table_cell(&table, "%s", quota->is_default ? "" : "by an administrator");
    }
    printf("\n");
    table_print(&table, stdout, "no quotas");
    table_fini(&table);
    for (size_t i = 0; i < tenant->n_checkpoint_prefixes; i++)
        printf("%s%s\n", i ? "                    " : "\ncheckpoints below  ",
               tenant->checkpoint_prefixes[i]);
}

static int list_tenants(const struct args *args, const char *name)
{
    Muster__ListTenantsRequest request = MUSTER__LIST_TENANTS_REQUEST__INIT;
    Muster__ListTenantsAnswer *answer = NULL;
    request.name = (char *)name;
    int code = client_ask(args, "ListTenants", &request, &answer);
    if (code == 0 && !client_printed(args, answer))
        print_tenants(answer->tenants, answer->n_tenants);
    if (code == 0 && *name && answer->n_tenants == 1 &&
        strcmp(args_text(args, "output"), "table") == 0)
        print_quotas(answer->tenants[0]);
    rpc_message_free(answer);
    return code;
}

static int read_quota(const char *text, struct arena *arena, Muster__Quota *ret, struct error *err)
{
    const char *equals = strchr(text, '=');
    ret->name = equals ? arena_strndup(arena, text, (size_t)(equals - text)) : NULL;
    if (!ret->name)
        return error_set(err, E_INVALID_ARGUMENT, "--quota %s: expected NAME=VALUE", text);
    ret->is_default = strcmp(equals + 1, "default") == 0;
    if (ret->is_default || !parse_i64(equals + 1, INT64_MIN, INT64_MAX, &ret->limit, NULL))
        return 0;
    uint64_t bytes = 0;
    int rc = parse_bytes(equals + 1, &bytes, err);
    ret->limit = (int64_t)bytes;
    if (rc)
        return error_wrap(err, "--quota %s", text);
    return 0;
}

static int read_settings(const struct args *args, struct arena *arena,
                         Muster__SetTenantRequest *request, struct error *err)
{
    size_t quotas = 0, prefixes = 0;
    int rc = 0;
    while (args_repeated(args, "quota", quotas))
        quotas++;
    while (args_repeated(args, "checkpoint-prefix", prefixes))
        prefixes++;
    Muster__Quota *all = arena_array(arena, quotas + 1, sizeof(*all));
    request->quotas = arena_array(arena, quotas + 1, sizeof(void *));
    request->checkpoint_prefixes = arena_array(arena, prefixes + 1, sizeof(void *));
    if (!all || !request->quotas || !request->checkpoint_prefixes)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    for (size_t i = 0; !rc && i < quotas; i++) {
        muster__quota__init(&all[i]);
        request->quotas[i] = &all[i];
        rc = read_quota(args_repeated(args, "quota", i), arena, &all[i], err);
    }
    for (size_t i = 0; i < prefixes; i++)
        request->checkpoint_prefixes[i] = (char *)args_repeated(args, "checkpoint-prefix", i);
    request->n_quotas = quotas;
    request->n_checkpoint_prefixes = prefixes;
    return rc;
}

/* Values not given stay unchanged. */
static int known_figures(const struct args *args, const char *name,
                         Muster__SetTenantRequest *request)
{
    Muster__ListTenantsRequest ask = MUSTER__LIST_TENANTS_REQUEST__INIT;
    Muster__ListTenantsAnswer *answer = NULL;
    ask.name = (char *)name;
    int code = client_ask(args, "ListTenants", &ask, &answer);
    if (code == 0 && answer->n_tenants == 1) {
        request->weight = answer->tenants[0]->weight;
        request->guaranteed_slots = answer->tenants[0]->guaranteed_slots;
        request->limit_slots = answer->tenants[0]->limit_slots;
    }
    rpc_message_free(answer);
    return code;
}

static int set_tenant(const struct args *args, const char *name, bool create)
{
    Muster__SetTenantRequest request = MUSTER__SET_TENANT_REQUEST__INIT;
    Muster__Tenant *tenant = NULL;
    int code = create ? 0 : known_figures(args, name, &request);
    if (code != 0)
        return code;
    request.name = (char *)name;
    request.create = create;
    if (args_given(args, "weight"))
        request.weight = (uint32_t)args_integer(args, "weight");
    if (args_given(args, "guaranteed"))
        request.guaranteed_slots = (uint32_t)args_integer(args, "guaranteed");
    if (args_given(args, "limit"))
        request.limit_slots = (uint32_t)args_integer(args, "limit");
    struct arena arena;
    struct error err = {0};
    arena_init(&arena, 1 << 20);
    code = read_settings(args, &arena, &request, &err)
               ? client_fail(&err)
               : client_ask(args, "SetTenant", &request, &tenant);
    if (code == 0 && !client_printed(args, tenant)) {
        print_tenants(&tenant, 1);
        print_quotas(tenant);
    }
    rpc_message_free(tenant);
    arena_fini(&arena);
    return code;
}

static int run_tenant(const struct args *args)
{
    const char *action = args_text(args, "action");
    if (strcmp(action, "list") == 0)
        return list_tenants(args, "");
    const char *name = needed_name(args);
    if (!name)
        return EXIT_USAGE;
    if (strcmp(action, "show") == 0)
        return list_tenants(args, name);
    return set_tenant(args, name, strcmp(action, "create") == 0);
}

const struct verb verb_token = {.name = "token", .command = &token_command, .run = run_token};
const struct verb verb_tenant = {.name = "tenant", .command = &tenant_command, .run = run_tenant};
