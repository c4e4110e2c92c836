/* Tokens, tenants and the audit trail. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/env/env.h"
#include "common/rpc/message.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/intake.h"
#include "coordinator/api_rpc/quota.h"
#include "coordinator/api_rpc/scope.h"
#include "coordinator/api_rpc/service_admit.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/service_wait.h"
#include "coordinator/api_rpc/wire.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/folder.h"
#include "coordinator/model/tenant.h"

enum {
    LIST_AUDIT_DEFAULT = 100,
    LIFE_MAX_DAYS = 3650,
    USES_MAX = 1000000,
    WEIGHT_MAX = 1000, /* larger values from older versions stay valid */
};

static void fail_too_large(struct service_call *call)
{
    struct error err;
    error_set(&err, E_RESOURCE_EXHAUSTED, "the answer is too large");
    service_fail(call, &err);
}

static Muster__Token wire_token(const struct store_token *token)
{
    Muster__Token ret = MUSTER__TOKEN__INIT;
    ret.id = rpc_text(token->id);
    ret.name = rpc_text(token->name);
    ret.role = rpc_text(token->role);
    ret.tenant = rpc_text(token->tenant);
    ret.created_wall_ms = token->created_wall_ms;
    ret.expires_wall_ms = token->expires_wall_ms;
    ret.revoked_wall_ms = token->revoked_wall_ms;
    ret.used_wall_ms = token->used_wall_ms;
    ret.uses = token->uses;
    ret.uses_max = token->uses_max;
    return ret;
}

void call_who_am_i(struct service *service, struct service_call *call, bool last_chance)
{
    (void)service, (void)last_chance;
    Muster__Token answer = wire_token(call->caller);
    service_answer(call, &answer.base);
}

/* Tenants */

static bool add_prefixes(struct arena *arena, const struct store_tenant *tenant,
                         Muster__Tenant *ret)
{
    char *at = arena_strdup(arena, tenant->checkpoint_prefixes);
    ret->checkpoint_prefixes = arena_pointers(arena, STORE_PREFIXES_MAX / 2);
    if (!at || !ret->checkpoint_prefixes)
        return false;
    for (char *line; (line = strsep(&at, "\n"));)
        if (*line)
            ret->checkpoint_prefixes[ret->n_checkpoint_prefixes++] = line;
    return true;
}

static Muster__Tenant wire_tenant(struct service *service, const struct store_tenant *tenant)
{
    Muster__Tenant ret = MUSTER__TENANT__INIT;
    ret.name = rpc_text(tenant->name);
    ret.weight = (uint32_t)tenant->weight;
    ret.guaranteed_slots = (uint32_t)tenant->guaranteed_slots;
    ret.limit_slots = (uint32_t)tenant->limit_slots;
    ret.created_wall_ms = tenant->created_wall_ms;
    const struct cluster *cluster = service_cluster(service);
    const struct tenant *shared = cluster_tenant(cluster, tenant->name);
    ret.slots_used = shared ? (uint32_t)shared->slots_used : 0;
    ret.use = shared ? tenant_use(shared, service_now_ms(service)) : 0;
    ret.active_jobs = shared ? (uint32_t)shared->active_jobs : 0;
    return ret;
}

static bool add_quotas(struct service *service, struct arena *arena,
                       const struct store_tenant *tenant, Muster__Tenant *ret)
{
    Muster__Quota *all = arena_array(arena, QUOTA_COUNT, sizeof(*all));
    ret->quotas = arena_pointers(arena, QUOTA_COUNT);
    if (!all || !ret->quotas)
        return false;
    for (int i = 0; i < QUOTA_COUNT; i++) {
        muster__quota__init(&all[i]);
        all[i].name = rpc_text(quota_name((enum quota)i));
        all[i].limit = quota_limit(&tenant->quotas, (enum quota)i);
        all[i].used = quota_used(service, tenant, (enum quota)i);
        all[i].is_default = !tenant->quotas.set[i];
        ret->quotas[i] = &all[i];
    }
    ret->n_quotas = QUOTA_COUNT;
    return add_prefixes(arena, tenant, ret);
}

static bool add_tenant(struct service *service, struct arena *arena,
                       const struct store_tenant *tenant, Muster__ListTenantsAnswer *ret)
{
    Muster__Tenant *one = arena_alloc(arena, sizeof(*one));
    if (one) {
        *one = wire_tenant(service, tenant);
        ret->tenants[ret->n_tenants++] = one;
    }
    return one && add_quotas(service, arena, tenant, one);
}

struct tenant_ledger {
    int64_t ms[LEDGER_COUNT];
    uint64_t rework_steps;
};

static void add_up(struct service *service, struct strmap *ledgers)
{
    const struct cluster *cluster = service_cluster(service);
    for (const struct job *job = cluster_first_job(cluster); job;
         job = cluster_next_job(cluster, job)) {
        int64_t ms[LEDGER_COUNT];
        struct tenant_ledger *sum = strmap_get(ledgers, job->spec->tenant);
        if (!sum)
            continue;
        (void)ledger_read(&job->ledger, service_now_ms(service), ms);
        sum->rework_steps += job->ledger.rework_steps;
        for (int i = 0; i < LEDGER_COUNT; i++)
            sum->ms[i] += ms[i];
    }
}

/* How the seconds of each tenant's jobs were spent, in one pass over the jobs. */
static bool add_ledgers(struct service *service, struct arena *arena,
                        Muster__ListTenantsAnswer *ret)
{
    struct strmap ledgers = {0};
    bool whole = true;
    for (size_t i = 0; whole && i < ret->n_tenants; i++) {
        struct tenant_ledger *one = arena_zalloc(arena, sizeof(*one));
        whole = one && !strmap_set(&ledgers, ret->tenants[i]->name, one, NULL);
    }
    if (whole)
        add_up(service, &ledgers);
    for (size_t i = 0; whole && i < ret->n_tenants; i++) {
        const struct tenant_ledger *one = strmap_get(&ledgers, ret->tenants[i]->name);
        ret->tenants[i]->ledger = wire_ledger(arena, one->ms, one->rework_steps);
        whole = ret->tenants[i]->ledger;
    }
    strmap_fini(&ledgers);
    return whole;
}

void call_list_tenants(struct service *service, struct service_call *call, bool last_chance)
{
    (void)last_chance;
    const Muster__ListTenantsRequest *message = (const void *)call->request;
    Muster__ListTenantsAnswer answer = MUSTER__LIST_TENANTS_ANSWER__INIT;
    const char *own = scope_tenant(call);
    struct error err = {0};
    if (*message->name && ((own && strcmp(own, message->name) != 0) ||
                           !access_tenant(service->access, message->name))) {
        error_set(&err, E_NOT_FOUND, "no tenant is named '%.80s'", message->name);
        error_field(&err, "name");
        service_fail(call, &err);
        return;
    }
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    answer.tenants = arena_pointers(&arena, STORE_TENANTS_MAX);
    bool whole = answer.tenants;
    for (const struct store_tenant *tenant = access_first_tenant(service->access); whole && tenant;
         tenant = access_next_tenant(service->access, tenant)) {
        if ((own && strcmp(own, tenant->name) != 0) ||
            (*message->name && strcmp(message->name, tenant->name) != 0))
            continue;
        whole = add_tenant(service, &arena, tenant, &answer);
    }
    if (whole && add_ledgers(service, &arena, &answer))
        service_answer(call, &answer.base);
    else
        fail_too_large(call);
    arena_fini(&arena);
}

static int bad_field(struct error *err, const char *field, const char *what)
{
    error_set(err, E_INVALID_ARGUMENT, "%s: %s", field, what);
    error_field(err, "%s", field);
    return E_INVALID_ARGUMENT;
}

static int intake_prefixes(const Muster__SetTenantRequest *message, struct store_tenant *ret,
                           struct error *err)
{
    if (message->n_checkpoint_prefixes)
        ret->checkpoint_prefixes[0] = 0;
    for (size_t i = 0; i < message->n_checkpoint_prefixes; i++) {
        char clean[STORE_PREFIXES_MAX + 1];
        const char *prefix = message->checkpoint_prefixes[i];
        size_t used = strlen(ret->checkpoint_prefixes);
        if (!*prefix)
            continue;
        if (*prefix != '/' || strchr(prefix, '\n'))
            return bad_field(err, "checkpoint_prefixes", "absolute paths");
        if (folder_clean("/", prefix, clean, sizeof(clean)) ||
            str_printf(ret->checkpoint_prefixes + used, sizeof(ret->checkpoint_prefixes) - used,
                       "%s%s", used ? "\n" : "", clean))
            return bad_field(err, "checkpoint_prefixes", "more than 1023 bytes in all");
    }
    return 0;
}

static int intake_settings(const Muster__SetTenantRequest *message,
                           const struct store_tenant *known, struct store_tenant *ret,
                           struct error *err)
{
    enum quota quota;
    int rc = 0;
    if (known) {
        ret->quotas = known->quotas;
        (void)str_copy(ret->checkpoint_prefixes, sizeof(ret->checkpoint_prefixes),
                       known->checkpoint_prefixes);
    }
    for (size_t i = 0; !rc && i < message->n_quotas; i++) {
        const Muster__Quota *one = message->quotas[i];
        rc = quota_find(one->name, &quota, err);
        if (!rc && one->is_default)
            ret->quotas.set[quota] = false;
        else if (!rc)
            rc = quota_set(&ret->quotas, quota, one->limit, err);
    }
    if (rc)
        return rc;
    return intake_prefixes(message, ret, err);
}

static int intake_tenant(struct service *service, const Muster__SetTenantRequest *message,
                         struct store_tenant *ret, struct error *err)
{
    int rc = intake_name(message->name, "name", err);
    if (rc)
        return rc;
    const struct store_tenant *known = access_tenant(service->access, message->name);
    if (known && message->create)
        return error_set(err, E_ALREADY_EXISTS, "there is a tenant '%s' already", message->name);
    if (!known && !message->create)
        return access_no_tenant(service->access, message->name, err);
    if (message->weight > WEIGHT_MAX || (known && message->weight == 0))
        return bad_field(err, "weight",
                         "1 to 1000; a change has all figures, also those that "
                         "stay");
    if (message->guaranteed_slots > TENANT_SLOTS_MAX || message->limit_slots > TENANT_SLOTS_MAX)
        return bad_field(err, "guaranteed_slots", "more than any cluster has");
    if (message->limit_slots && message->guaranteed_slots > message->limit_slots)
        return bad_field(err, "limit_slots", "below what is guaranteed");
    (void)str_copy(ret->name, sizeof(ret->name), message->name);
    ret->weight = message->weight ? (int)message->weight : 1;
    ret->guaranteed_slots = (int)message->guaranteed_slots;
    ret->limit_slots = (int)message->limit_slots;
    ret->created_wall_ms = known ? known->created_wall_ms : service_wall_ms(service);
    return intake_settings(message, known, ret, err);
}

void call_set_tenant(struct service *service, struct service_call *call,
                     const struct service_request *request)
{
    const Muster__SetTenantRequest *message = (const void *)request->message;
    struct change change = {.kind = CHANGE_TENANT};
    struct error err = {0};
    char detail[512];
    service_trace(call, message->name, NULL);
    int rc = intake_tenant(service, message, &change.tenant, &err);
    if (!rc)
        rc = access_put_tenant(service->access, &change.tenant, &err);
    if (rc) {
        service_refuse(call, &err);
        return;
    }
    (void)str_printf(detail, sizeof(detail), "%sweight %d, guaranteed %d, limit %d",
                     message->create ? "new: " : "", change.tenant.weight,
                     change.tenant.guaranteed_slots, change.tenant.limit_slots);
    for (size_t i = 0; i < message->n_quotas; i++)
        (void)str_printf(detail + strlen(detail), sizeof(detail) - strlen(detail), ", %s %lld",
                         message->quotas[i]->name, (long long)message->quotas[i]->limit);
    if (message->n_checkpoint_prefixes)
        (void)str_printf(detail + strlen(detail), sizeof(detail) - strlen(detail),
                         ", checkpoint prefixes changed");
    service_trace(call, message->name, detail);
    struct tenant facts = {.weight = change.tenant.weight,
                           .guaranteed_slots = change.tenant.guaranteed_slots,
                           .limit_slots = change.tenant.limit_slots};
    (void)str_copy(facts.name, sizeof(facts.name), change.tenant.name);
    struct event event = {.kind = EVENT_TENANT_SET, .tenant_set = {.facts = &facts}};
    service->options.host.step(service->options.host.self, &event);
    service_write(call, &change);
}

void written_tenant(struct service *service, struct service_call *call)
{
    const struct store_tenant *tenant = access_tenant(service->access, call->trace->object);
    insist(tenant);
    Muster__Tenant answer = wire_tenant(service, tenant);
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    if (add_quotas(service, &arena, tenant, &answer))
        service_answer(call, &answer.base);
    else
        fail_too_large(call);
    arena_fini(&arena);
}

/* Tokens */

void call_list_tokens(struct service *service, struct service_call *call, bool last_chance)
{
    (void)last_chance;
    Muster__ListTokensAnswer answer = MUSTER__LIST_TOKENS_ANSWER__INIT;
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    const struct store_token **tokens = access_tokens(service->access);
    size_t count = (size_t)access_tokens_count(service->access);
    Muster__Token *messages = arena_array(&arena, count, sizeof(*messages));
    answer.tokens = arena_pointers(&arena, count);
    if (tokens && messages && answer.tokens) {
        for (size_t i = 0; i < count; i++) {
            messages[i] = wire_token(tokens[i]);
            answer.tokens[i] = &messages[i];
        }
        answer.n_tokens = count;
        service_answer(call, &answer.base);
    } else {
        fail_too_large(call);
    }
    free(tokens);
    arena_fini(&arena);
}

static int intake_tenant_of_token(struct service *service, unsigned role, const char *tenant,
                                  struct error *err)
{
    if (!access_role_bound(role))
        return *tenant ? bad_field(err, "tenant", "a token of this role belongs to none") : 0;
    if (!*tenant)
        return bad_field(err, "tenant", "a token of role member or viewer needs one");
    return access_tenant(service->access, tenant) ? 0
                                                  : access_no_tenant(service->access, tenant, err);
}

static int intake_token(struct service *service, const Muster__CreateTokenRequest *message,
                        struct store_token *ret, struct error *err)
{
    int64_t life_ms = 0, now = service_wall_ms(service);
    unsigned role = access_role(message->role);
    int rc = intake_name(message->name, "name", err);
    if (rc)
        return rc;
    if (!role)
        return bad_field(err, "role", "admin, operator, member, viewer or agent");
    if (message->uses && (role != ACCESS_AGENT || message->uses > USES_MAX))
        return bad_field(err, "uses", "of role agent only, and 1000000 at most");
    rc = intake_tenant_of_token(service, role, message->tenant, err);
    if (!rc && *message->expires) {
        rc = parse_duration(message->expires, &life_ms, err);
        if (!rc && (life_ms <= 0 || life_ms > LIFE_MAX_DAYS * 86400000LL))
            rc = error_set(err, E_INVALID_ARGUMENT, "a time such as 30d, %d days at most",
                           LIFE_MAX_DAYS);
        if (rc) {
            error_field(err, "expires");
            return error_wrap(err, "expires");
        }
    }
    if (rc)
        return rc;
    if (access_role_bound(role) && quota_allows_token(service, message->tenant, err))
        return err->code;
    if (access_token(service->access, message->name, now)) {
        error_set(err, E_ALREADY_EXISTS, "there is a token '%s' already", message->name);
        error_hint(err, "revoke it first, or take another name");
        return E_ALREADY_EXISTS;
    }
    (void)str_copy(ret->name, sizeof(ret->name), message->name);
    (void)str_copy(ret->role, sizeof(ret->role), message->role);
    (void)str_copy(ret->tenant, sizeof(ret->tenant), message->tenant);
    ret->created_wall_ms = now;
    ret->uses_max = message->uses;
    ret->expires_wall_ms = life_ms ? now + life_ms : 0;
    return 0;
}

void call_create_token(struct service *service, struct service_call *call,
                       const struct service_request *request)
{
    const Muster__CreateTokenRequest *message = (const void *)request->message;
    struct change change = {.kind = CHANGE_TOKEN};
    struct error err = {0};
    uint8_t secret[TOKEN_SECRET_BYTES];
    char detail[256];
    service_trace(call, message->name, NULL);
    int rc = intake_token(service, message, &change.token, &err);
    if (!rc) {
        struct env *env = service->options.env;
        env->rng.fill(env->rng.self, secret, sizeof(secret));
        insist(!token_compose(message->role, secret, call->trace->plain));
        explicit_bzero(secret, sizeof(secret));
        access_name_token(call->trace->plain, &change.token);
        service_add_pin(service, call->trace->plain);
        rc = access_put_token(service->access, &change.token, &err);
    }
    if (rc) {
        service_refuse(call, &err);
        return;
    }
    (void)str_printf(detail, sizeof(detail), "%s: %s%s%s%s%s", message->name, message->role,
                     *message->tenant ? " of " : "", message->tenant,
                     *message->expires ? " for " : "", message->expires);
    if (message->uses)
        (void)str_printf(detail + strlen(detail), sizeof(detail) - strlen(detail),
                         ", lets %u nodes in", message->uses);
    service_trace(call, change.token.id, detail);
    service_write(call, &change);
}

static const struct store_token *traced_token(struct service *service,
                                              const struct service_call *call)
{
    const struct store_token *token =
        access_token(service->access, call->trace->object, service_wall_ms(service));
    insist(token);
    return token;
}

void written_new_token(struct service *service, struct service_call *call)
{
    Muster__CreateTokenAnswer answer = MUSTER__CREATE_TOKEN_ANSWER__INIT;
    Muster__Token token = wire_token(traced_token(service, call));
    answer.token = &token;
    char plain[TOKEN_TEXT_MAX];
    (void)str_copy(plain, sizeof(plain), call->trace->plain);
    answer.plain = plain;
    service_answer(call, &answer.base);
    explicit_bzero(plain, sizeof(plain));
}

void written_token(struct service *service, struct service_call *call)
{
    Muster__Token answer = wire_token(traced_token(service, call));
    service_answer(call, &answer.base);
}

static const struct store_token *token_to_revoke(struct service *service, const char *id,
                                                 struct error *err)
{
    int64_t now = service_wall_ms(service);
    const struct store_token *token = access_token(service->access, id, now);
    if (!token) {
        error_set(err, E_NOT_FOUND, "no token has the id or name '%.80s'", id);
        error_field(err, "id");
        error_hint(err, "muster token list shows them");
        return NULL;
    }
    if (access_role(token->role) == ACCESS_ADMIN && access_is_valid(token, now) &&
        access_count_valid(service->access, ACCESS_ADMIN, now) == 1) {
        error_set(err, E_FAILED_PRECONDITION, "this is the last admin token");
        error_hint(err, "make another one first");
        return NULL;
    }
    return token;
}

/* End long polls of the token now, not at their deadline. */
static void wake_calls_of(struct service *service, const struct store_token *token)
{
    struct service_call *found;
    do {
        found = NULL;
        for (struct map_entry *e = map_first(&service->calls); e && !found; e = map_next(e)) {
            struct service_call *call = e->value;
            if (call->key[0] && call->caller == token)
                found = call;
        }
        if (found)
            service_wake_call(found);
    } while (found);
}

void call_revoke_token(struct service *service, struct service_call *call,
                       const struct service_request *request)
{
    const Muster__RevokeTokenRequest *message = (const void *)request->message;
    struct error err = {0};
    service_trace(call, message->id, NULL);
    const struct store_token *token = token_to_revoke(service, message->id, &err);
    struct change change = {.kind = CHANGE_TOKEN};
    if (!token) {
        service_refuse(call, &err);
        return;
    }
    change.token = *token;
    if (!change.token.revoked_wall_ms)
        change.token.revoked_wall_ms = service_wall_ms(service);
    insist(!access_put_token(service->access, &change.token, &err));
    wake_calls_of(service, token);
    service_trace(call, token->id, token->name);
    service_write(call, &change);
}

/* Audit */

struct audit_page {
    struct arena *arena;
    Muster__ListAuditAnswer *answer;
    bool failed;
};

static void add_entry(void *arg, const struct store_audit *entry)
{
    struct audit_page *page = arg;
    struct store_audit *copy = arena_copy(page->arena, entry, sizeof(*entry));
    Muster__AuditEntry *one = arena_alloc(page->arena, sizeof(*one));
    if (!copy || !one) {
        page->failed = true;
        return;
    }
    muster__audit_entry__init(one);
    one->seq = copy->seq;
    one->wall_ms = copy->wall_ms;
    one->token = copy->token;
    one->token_name = copy->token_name;
    one->role = copy->role;
    one->tenant = copy->tenant;
    one->carrier = copy->carrier;
    one->peer = copy->peer;
    one->method = copy->method;
    one->object = copy->object;
    one->result = copy->result;
    one->text = copy->text;
    page->answer->entries[page->answer->n_entries++] = one;
    page->answer->next = copy->seq;
}

void call_list_audit(struct service *service, struct service_call *call, bool last_chance)
{
    (void)last_chance;
    const Muster__ListAuditRequest *message = (const void *)call->request;
    Muster__ListAuditAnswer answer = MUSTER__LIST_AUDIT_ANSWER__INIT;
    struct error err = {0};
    struct arena arena;
    uint32_t limit = message->limit ? message->limit : LIST_AUDIT_DEFAULT;
    struct store_events_query query = {
        .after = message->after,
        .limit = limit > STORE_AUDIT_PAGE_MAX ? STORE_AUDIT_PAGE_MAX : (int)limit,
        .newest = message->newest,
    };
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    struct audit_page page = {.arena = &arena, .answer = &answer};
    answer.next = message->after;
    answer.entries = arena_pointers(&arena, (size_t)query.limit);
    struct store *store = service->options.store;
    int rc = 0;
    if (answer.entries)
        rc = store->verbs->list_audit(store, &query, add_entry, &page, &err);
    if (rc)
        service_fail(call, &err);
    else if (!answer.entries || page.failed)
        fail_too_large(call);
    else
        service_answer(call, &answer.base);
    arena_fini(&arena);
}
