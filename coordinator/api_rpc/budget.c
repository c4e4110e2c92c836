#include "coordinator/api_rpc/budget.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/murmur3.h"
#include "coordinator/api_rpc/access.h"

enum { AGENTS, OTHERS };

static const uint64_t agent_key = UINT64_C(1) << 63; /* addresses never have this bit */

static void budget_init(struct budget *budget, enum limit limit, struct budget *above)
{
    *budget = (struct budget){.limit = limit, .above = above};
    list_init(&budget->turn);
    list_init(&budget->ready);
}

void budgets_init(struct budgets *budgets)
{
    static const enum limit limits[BUDGET_KINDS] = {
        [BUDGET_STRANGERS] = LIMIT_STRANGER_CALLS,
        [BUDGET_READERS] = LIMIT_READERS_CALLS,
        [BUDGET_ADMINS] = LIMIT_ADMINS_CALLS,
        [BUDGET_AGENTS] = LIMIT_AGENTS_CALLS,
    };
    *budgets = (struct budgets){.last = OTHERS};
    for (int i = 0; i < BUDGET_KINDS; i++)
        budget_init(&budgets->kinds[i], limits[i], NULL);
    for (int i = 0; i < 2; i++) {
        list_init(&budgets->turns[i]);
        list_init(&budgets->now[i]);
    }
}

void budgets_fini(struct budgets *budgets)
{
    map_free_values(&budgets->callers);
    strmap_free_values(&budgets->tenants);
}

static enum budget_kind kind_of(unsigned role)
{
    if (role == ACCESS_AGENT)
        return BUDGET_AGENTS;
    if (role == ACCESS_ADMIN)
        return BUDGET_ADMINS;
    return role ? BUDGET_READERS : BUDGET_STRANGERS;
}

static enum limit limit_of(unsigned role)
{
    switch (role) {
    case ACCESS_AGENT:
        return LIMIT_AGENT_CALLS;
    case ACCESS_ADMIN:
        return LIMIT_ADMIN_CALLS;
    case ACCESS_OPERATOR:
        return LIMIT_OPERATOR_CALLS;
    case ACCESS_MEMBER:
        return LIMIT_MEMBER_CALLS;
    default:
        return LIMIT_VIEWER_CALLS;
    }
}

/* Memory of a token or a node does not move. */
static uint64_t key_of(const struct budget_ask *ask)
{
    bool shares = ask->role == ACCESS_AGENT && !ask->node;
    return shares ? agent_key | ask->peer : (uint64_t)(uintptr_t)ask->caller;
}

static struct budget *tenant_of(struct budgets *budgets, const struct budget_ask *ask)
{
    struct budget *kind = &budgets->kinds[kind_of(ask->role)];
    if (!access_role_bound(ask->role))
        return kind;
    struct budget *tenant = strmap_get(&budgets->tenants, ask->caller->tenant);
    if (tenant)
        return tenant;
    tenant = malloc(sizeof(*tenant));
    if (!tenant || strmap_set(&budgets->tenants, ask->caller->tenant, tenant, NULL)) {
        free(tenant);
        return NULL;
    }
    budget_init(tenant, LIMIT_TENANT_CALLS, kind);
    return tenant;
}

static struct budget *caller_new(struct budgets *budgets, const struct budget_ask *ask,
                                 uint64_t key, struct error *err)
{
    struct budget *above = tenant_of(budgets, ask);
    struct budget *caller = above ? malloc(sizeof(*caller)) : NULL;
    if (!caller || map_set(&budgets->callers, key, caller, NULL)) {
        free(caller);
        error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    budget_init(caller, limit_of(ask->role), above);
    caller->key = key;
    caller->agent = ask->role == ACCESS_AGENT;
    caller->stays = ask->node;
    return caller;
}

static struct budget *caller_of(struct budgets *budgets, const struct budget_ask *ask,
                                struct error *err)
{
    if (!ask->caller)
        return &budgets->kinds[BUDGET_STRANGERS];
    struct budget *known = ask->known ? *ask->known : NULL;
    if (known)
        return known;
    uint64_t key = key_of(ask);
    struct budget *caller = map_get(&budgets->callers, key);
    if (!caller)
        caller = caller_new(budgets, ask, key, err);
    if (caller && caller->stays && ask->known)
        *ask->known = caller;
    return caller;
}

uint64_t budget_owner_key(const struct store_token *caller)
{
    uint64_t digest[2];
    const char *name = access_role_bound(access_role(caller->role)) ? caller->tenant : caller->id;
    murmur3(name, strlen(name), digest);
    return digest[0] | 1;
}

static void forget_idle(struct budgets *budgets, struct budget *caller)
{
    if (!caller->key || caller->open > 0 || caller->stays)
        return;
    map_remove(&budgets->callers, caller->key);
    list_remove(&caller->turn);
    free(caller);
}

void budget_forget_node(struct budgets *budgets, const struct store_token *node)
{
    struct budget *caller = map_get(&budgets->callers, (uint64_t)(uintptr_t)node);
    if (!caller)
        return;
    never(caller->open > 0);
    caller->stays = false;
    forget_idle(budgets, caller);
}

int budget_refuse(struct budgets *budgets, enum limit limit, struct error *err)
{
    budgets->refused[limit]++;
    return limit_refuse(limit, err);
}

static int check_limits(struct budgets *budgets, const struct budget *caller,
                        const struct budget_ask *ask, struct error *err)
{
    for (const struct budget *level = caller; level; level = level->above)
        if (level->open >= limit_number(level->limit))
            return budget_refuse(budgets, level->limit, err);
    if (ask->forwarded && caller->open >= MAX_AGENT_FORWARDS)
        return budget_refuse(budgets, LIMIT_AGENT_FORWARDS, err);
    if (ask->plan && caller->plans >= MAX_PLAN_CALLS)
        return budget_refuse(budgets, LIMIT_PLAN_CALLS, err);
    if (ask->plan && budgets->plans >= MAX_PLANS_CALLS)
        return budget_refuse(budgets, LIMIT_PLANS_CALLS, err);
    return 0;
}

int budget_check(struct budgets *budgets, const struct budget_ask *ask, struct error *err)
{
    struct budget *caller = caller_of(budgets, ask, err);
    if (!caller)
        return E_RESOURCE_EXHAUSTED;
    int rc = check_limits(budgets, caller, ask, err);
    forget_idle(budgets, caller);
    return rc;
}

struct budget *budget_open(struct budgets *budgets, const struct budget_ask *ask, struct error *err)
{
    struct budget *caller = caller_of(budgets, ask, err);
    if (!caller)
        return NULL;
    if (check_limits(budgets, caller, ask, err)) {
        forget_idle(budgets, caller);
        return NULL;
    }
    for (struct budget *level = caller; level; level = level->above)
        level->open++;
    caller->plans += ask->plan;
    budgets->plans += ask->plan;
    return caller;
}

void budget_close(struct budgets *budgets, struct budget *caller, bool plan)
{
    for (struct budget *level = caller; level; level = level->above)
        level->open--;
    caller->plans -= plan;
    budgets->plans -= plan;
    forget_idle(budgets, caller);
}

/* Turns */

static struct list *turns_of(struct budgets *budgets, const struct budget *caller)
{
    return &budgets->turns[caller->agent ? AGENTS : OTHERS];
}

void budget_ready(struct budgets *budgets, struct budget *caller, struct budget_ready *ready)
{
    ready->turn = budgets->turn;
    list_push_back(&caller->ready, &ready->link);
    if (list_empty(&caller->turn))
        list_push_back(turns_of(budgets, caller), &caller->turn);
}

void budgets_begin(struct budgets *budgets)
{
    budgets->turn++;
    budgets->planned = false;
    for (int i = 0; i < 2; i++)
        list_splice_back(&budgets->now[i], &budgets->turns[i]);
}

static bool must_wait(const struct budgets *budgets, const struct budget_ready *ready,
                      int64_t now_ms)
{
    return ready->turn == budgets->turn ||
           (ready->plan && (budgets->planned || now_ms < budgets->plan_again_ms));
}

/* The next of one list; callers that have to wait get the next turn. */
static struct budget_ready *next_of(struct budgets *budgets, int which, int64_t now_ms)
{
    struct budget *caller;
    while ((caller = list_first(&budgets->now[which], struct budget, turn))) {
        struct budget_ready *ready = list_first(&caller->ready, struct budget_ready, link);
        list_remove(&caller->turn);
        if (!ready)
            continue;
        if (must_wait(budgets, ready, now_ms)) {
            list_push_back(&budgets->turns[which], &caller->turn);
            continue;
        }
        list_remove(&ready->link);
        if (!list_empty(&caller->ready))
            list_push_back(&budgets->now[which], &caller->turn);
        return ready;
    }
    return NULL;
}

struct budget_ready *budgets_next(struct budgets *budgets, int64_t now_ms)
{
    for (int i = 1; i <= 2; i++) {
        int which = (budgets->last + i) % 2;
        struct budget_ready *ready = next_of(budgets, which, now_ms);
        if (ready) {
            budgets->last = which;
            return ready;
        }
    }
    return NULL;
}

void budgets_planned(struct budgets *budgets, int64_t from_ms, int64_t to_ms)
{
    budgets->planned = true;
    budgets->plan_again_ms = to_ms + (to_ms - from_ms);
}

int64_t budgets_end(struct budgets *budgets, int64_t now_ms)
{
    int64_t again_ms = INT64_MAX;
    for (int i = 0; i < 2; i++) { /* those without a turn stay in front */
        list_splice_back(&budgets->now[i], &budgets->turns[i]);
        list_splice_back(&budgets->turns[i], &budgets->now[i]);
    }
    for (int i = 0; i < 2; i++) {
        struct budget *caller;
        list_each(caller, &budgets->turns[i], turn) {
            const struct budget_ready *ready =
                list_first(&caller->ready, struct budget_ready, link);
            if (!ready)
                continue;
            if (!ready->plan || budgets->plan_again_ms <= now_ms)
                return now_ms;
            again_ms = budgets->plan_again_ms;
        }
    }
    return again_ms;
}
