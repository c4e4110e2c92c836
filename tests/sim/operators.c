/* What those do who run the cluster while it is in use: nodes are cordoned, drained and given back,
 * jobs scaled, tenants changed, a token made, used and revoked. Each asks until it is answered, and
 * what was answered stays: checked after each turn. When faults end they have put all right again.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/model/tenant.h"
#include "proto/client.pb-c.h"
#include "tests/sim/stage.h"

enum {
    GAP_MAX_MS = 6000,
    SETTLE_MS = 8000, /* between two changes of one thing: the first is on no wire any more */
    ASK_AGAIN_MS = 300,
    CALL_MS = 2000,
    TOKEN_USE_MS = 700,
};

static bool answered(const struct error *err)
{
    return err->code != E_UNAVAILABLE && err->code != E_DEADLINE_EXCEEDED &&
           err->code != E_RESOURCE_EXHAUSTED;
}

static void call(struct stage *stage, struct sim_change *change, const char *method,
                 const void *request, rpc_done done)
{
    struct rpc_options options = {.timeout_ms = CALL_MS, .retry = true};
    change->asking = rpc_client_call(stage->client, &muster__coordinator__descriptor, method,
                                     request, &options, done, change, NULL) == 0;
}

/* An answer, for good or ill. */
static void changed(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct sim_change *change = arg;
    (void)message;
    change->asking = false;
    if (!answered(err))
        return;
    change->open = false;
    change->holds = err->code == 0;
}

/* Nodes */

static void node_ask(struct world *world, void *arg)
{
    static const char *const actions[] = {"uncordon", "cordon", "drain"};
    struct sim_change *change = arg;
    Muster__SetNodeRequest request = MUSTER__SET_NODE_REQUEST__INIT;
    if (!change->open)
        return;
    if (!change->asking) {
        request.name = world->stage->nodes[change->object].name;
        request.action = (char *)(uintptr_t)actions[change->a];
        call(world->stage, change, "SetNode", &request, changed);
    }
    world_at(world, world->now_ms + ASK_AGAIN_MS, node_ask, change);
    program_run(world->stage->client_program);
}

/* Jobs */

static void job_ask(struct world *world, void *arg)
{
    struct sim_change *change = arg;
    Muster__ScaleJobRequest request = MUSTER__SCALE_JOB_REQUEST__INIT;
    if (!change->open)
        return;
    if (!change->asking) {
        request.id = world->stage->jobs[change->object].id;
        request.min = (uint32_t)change->a;
        request.max = (uint32_t)change->b;
        call(world->stage, change, "ScaleJob", &request, changed);
    }
    world_at(world, world->now_ms + ASK_AGAIN_MS, job_ask, change);
    program_run(world->stage->client_program);
}

/* Tenants */

static void tenant_ask(struct world *world, void *arg)
{
    struct sim_change *change = arg;
    Muster__SetTenantRequest request = MUSTER__SET_TENANT_REQUEST__INIT;
    if (!change->open)
        return;
    if (!change->asking) {
        request.name = (char *)(uintptr_t)world->stage->tenants[change->object].name;
        request.weight = (uint32_t)change->a;
        request.guaranteed_slots = change->object == 1 ? (uint32_t)change->b : 0;
        request.limit_slots = change->object == 0 ? (uint32_t)change->b : 0;
        call(world->stage, change, "SetTenant", &request, changed);
    }
    world_at(world, world->now_ms + ASK_AGAIN_MS, tenant_ask, change);
    program_run(world->stage->client_program);
}

static void begin(struct stage *stage, struct sim_change *change, happening_fn ask)
{
    change->open = true;
    change->holds = false;
    change->since_ms = stage->world->now_ms;
    stage->changes++;
    world_at(stage->world, stage->world->now_ms, ask, change);
}

static bool is_settled(const struct stage *stage, const struct sim_change *change)
{
    return !change->open && stage->world->now_ms - change->since_ms > SETTLE_MS;
}

static void change_node(struct stage *stage, struct rng *rng)
{
    int at = (int)rng_below(rng, (uint64_t)stage->nodes_count);
    struct sim_change *change = &stage->operators->nodes[at];
    if (!is_settled(stage, change))
        return;
    change->object = at;
    change->a = (int)rng_below(rng, 3);
    begin(stage, change, node_ask);
}

static void change_job(struct stage *stage, struct rng *rng)
{
    int at = (int)rng_below(rng, (uint64_t)stage->jobs_count);
    struct sim_job *job = &stage->jobs[at];
    struct sim_change *change = &stage->operators->jobs[at];
    int lasting = stage->nodes_count - (stage->doomed != NULL);
    int most = strcmp(job->tenant, "red") == 0 ? stage->tenants[0].limit / job->workers : lasting;
    /* A deaf program is only told from an unaware one by peers: it must have some. */
    if (!job->id[0] || job->cancel_at_ms || job->script.deaf_once || !is_settled(stage, change))
        return;
    change->object = at;
    change->a = (int)rng_between(rng, 1, most < lasting ? most : lasting);
    change->b = (int)rng_between(rng, change->a, stage->nodes_count);
    begin(stage, change, job_ask);
}

/* No lower limit than at first: every job must fit into it. */
static void change_tenant(struct stage *stage, struct rng *rng)
{
    int at = (int)rng_below(rng, SIM_TENANTS_MAX), total = 0;
    struct sim_change *change = &stage->operators->tenants[at];
    if (!stage->tenants[at].set || !is_settled(stage, change))
        return;
    for (int i = 0; i < stage->nodes_count; i++)
        total += stage->nodes[i].slots;
    change->object = at;
    change->a = (int)rng_between(rng, 1, 5);
    change->b = (int)rng_between(rng, at == 0 ? stage->tenants[0].limit : 0, total);
    begin(stage, change, tenant_ask);
}

static void operator_due(struct world *world, void *arg)
{
    struct stage *stage = world->stage;
    struct rng *rng = &stage->operators->rng;
    (void)arg;
    if (stage->calm)
        return;
    uint64_t kind = rng_below(rng, 3);
    if (!stage->store_lost && kind == 0)
        change_node(stage, rng);
    else if (!stage->store_lost && kind == 1)
        change_job(stage, rng);
    else if (!stage->store_lost)
        change_tenant(stage, rng);
    world_at(world, world->now_ms + rng_between(rng, 500, GAP_MAX_MS), operator_due, NULL);
}

/* Nodes are given back, so that every job can end. */
static void put_right_due(struct world *world, void *arg)
{
    struct stage *stage = world->stage;
    bool open = false;
    (void)arg;
    for (int i = 0; i < stage->nodes_count; i++) {
        struct sim_change *change = &stage->operators->nodes[i];
        open |= change->open;
        if (change->open || (change->a == 0 && change->holds) || !change->since_ms)
            continue;
        change->a = 0;
        begin(stage, change, node_ask);
        open = true;
    }
    if (open)
        world_at(world, world->now_ms + ASK_AGAIN_MS, put_right_due, NULL);
}

/* The token: made, used, revoked; from then on nobody may use it. */

static void token_due(struct world *world, void *arg);

static void token_made(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct stage *stage = arg;
    struct sim_operators *mine = stage->operators;
    const Muster__CreateTokenAnswer *answer = (const Muster__CreateTokenAnswer *)message;
    mine->token_asking = false;
    if (err->code == E_ALREADY_EXISTS)
        mine->token_number++; /* it was made, and its answer is lost with the secret */
    if (err->code)
        return;
    insist(rpc_client_new(&stage->client_program->env, stage->client_program->loop, mine->url,
                          answer->plain, &mine->token_client, NULL) == 0);
    mine->token_state = SIM_TOKEN_MADE;
}

static void token_used(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct stage *stage = arg;
    struct sim_operators *mine = stage->operators;
    (void)message;
    mine->token_asking = false;
    if (err->code == 0 && mine->token_refused_from_ms &&
        mine->token_asked_ms >= mine->token_refused_from_ms)
        world_fail(stage->world, "a revoked token is good again");
    if (err->code == E_UNAUTHENTICATED && mine->token_state == SIM_TOKEN_MADE)
        world_fail(stage->world, "a token that was given out is not known");
    mine->token_uses += err->code == 0;
}

static void token_revoked(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct stage *stage = arg;
    (void)message;
    stage->operators->token_asking = false;
    if (!answered(err))
        return;
    stage->operators->token_state = SIM_TOKEN_REVOKED;
    if (err->code == 0)
        stage->operators->token_refused_from_ms = stage->world->now_ms;
}

static void make_token(struct stage *stage, char name[24], const struct rpc_options *options)
{
    Muster__CreateTokenRequest request = MUSTER__CREATE_TOKEN_REQUEST__INIT;
    request.name = name;
    request.role = (char *)(uintptr_t) "member";
    request.tenant = (char *)(uintptr_t) "default";
    stage->operators->token_asking =
        rpc_client_call(stage->client, &muster__coordinator__descriptor, "CreateToken",
                        &request.base, options, token_made, stage, NULL) == 0;
}

static void revoke_token(struct stage *stage, char name[24], const struct rpc_options *options)
{
    Muster__RevokeTokenRequest request = MUSTER__REVOKE_TOKEN_REQUEST__INIT;
    request.id = name;
    stage->operators->token_state = SIM_TOKEN_GOING;
    stage->operators->token_asking =
        rpc_client_call(stage->client, &muster__coordinator__descriptor, "RevokeToken",
                        &request.base, options, token_revoked, stage, NULL) == 0;
}

static void use_token(struct stage *stage, const struct rpc_options *options)
{
    Muster__WhoAmIRequest request = MUSTER__WHO_AM_IREQUEST__INIT;
    stage->operators->token_asked_ms = stage->world->now_ms;
    stage->operators->token_asking =
        rpc_client_call(stage->operators->token_client, &muster__coordinator__descriptor, "WhoAmI",
                        &request.base, options, token_used, stage, NULL) == 0;
}

static void token_due(struct world *world, void *arg)
{
    struct stage *stage = world->stage;
    struct sim_operators *mine = stage->operators;
    struct rpc_options options = {.timeout_ms = CALL_MS, .retry = true};
    char name[24];
    (void)arg;
    (void)snprintf(name, sizeof(name), "token-%d", mine->token_number);
    bool revoke = mine->token_state == SIM_TOKEN_GOING ||
                  (mine->token_state == SIM_TOKEN_MADE && world->now_ms >= mine->revoke_at_ms);
    if (!mine->token_asking && mine->token_state == SIM_TOKEN_NONE)
        make_token(stage, name, &options);
    else if (!mine->token_asking && revoke)
        revoke_token(stage, name, &options);
    else if (!mine->token_asking)
        use_token(stage, &options);
    program_run(stage->client_program);
    if (!stage->calm)
        world_at(world, world->now_ms + TOKEN_USE_MS, token_due, NULL);
}

void operators_init(struct stage *stage, const char *url, int64_t until_ms)
{
    static struct sim_operators operators; /* one world per process */
    enum { REVOKE_SPAN_MS = 40000 };
    struct world *world = stage->world;
    stage->operators = &operators;
    memset(&operators, 0, sizeof(operators));
    operators.url = url;
    rng_fork(&world->rng, &operators.rng);
    operators.revoke_at_ms = world->now_ms + rng_between(&operators.rng, 0, REVOKE_SPAN_MS);
    if (rng_chance(&operators.rng, 0.5))
        world_at(world, world->now_ms + rng_between(&operators.rng, 1, GAP_MAX_MS), operator_due,
                 NULL);
    world_at(world, world->now_ms + rng_between(&operators.rng, 1, GAP_MAX_MS), token_due, NULL);
    world_at(world, until_ms, put_right_due, NULL);
}

/* What was answered stays. */
void operators_check(struct stage *stage, const struct cluster *cluster)
{
    const struct sim_operators *mine = stage->operators;
    for (int i = 0; mine && i < stage->nodes_count; i++) {
        const struct sim_change *change = &mine->nodes[i];
        const struct node *node = cluster_node(cluster, stage->nodes[i].name);
        bool clear = change->a == 0, drain = change->a == 2;
        if (change->holds && node &&
            ((clear && (node->want_drain || node->want_cordon)) || (drain && !node->want_drain) ||
             (!clear && !drain && !node->want_cordon)))
            world_fail(stage->world, "%s: what was set (%d) is not so", node->name, change->a);
    }
    for (int i = 0; mine && i < stage->jobs_count; i++) {
        const struct sim_change *change = &mine->jobs[i];
        const struct job *job = cluster_job(cluster, stage->jobs[i].id);
        if (change->holds && job && (job->nodes_min != change->a || job->nodes_max != change->b))
            world_fail(stage->world, "%s was scaled to %d..%d and is %d..%d", job->id, change->a,
                       change->b, job->nodes_min, job->nodes_max);
    }
    for (int i = 0; mine && i < SIM_TENANTS_MAX; i++) {
        const struct sim_change *change = &mine->tenants[i];
        const struct tenant *tenant = cluster_tenant(cluster, stage->tenants[i].name);
        int slots = tenant ? (i == 0 ? tenant->limit_slots : tenant->guaranteed_slots) : -1;
        if (change->holds && (slots != change->b || tenant->weight != change->a))
            world_fail(stage->world, "tenant %s was changed and is as before",
                       stage->tenants[i].name);
    }
}
