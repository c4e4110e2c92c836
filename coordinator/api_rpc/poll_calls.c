/* Poll: sends an agent the assignments of its node. Data shared by the workers of a job is sent
 * once, until the agent has it, so an answer stays small whatever a node runs. */
#include <string.h>

#include "common/base/buf.h"
#include "common/rpc/message.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/intake.h"
#include "coordinator/api_rpc/node_calls.h"
#include "coordinator/api_rpc/scope.h"
#include "coordinator/api_rpc/secret_delivery.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/service_wait.h"
#include "coordinator/api_rpc/stored_spec.h"
#include "coordinator/api_rpc/terminal_calls.h"
#include "coordinator/api_rpc/wire.h"
#include "coordinator/core/limits.h"
#include "coordinator/model/assignment.h"
#include "coordinator/model/reason.h"
#include "coordinator/model/stop_reason.h"
#include "coordinator/rendezvous/secret.h"

enum {
    SHARED_MAX_BYTES = 2 << 20, /* in one answer; its assignments need at most as much */
    MEMBERSHIP_MAX = 8192,      /* members */
};

struct poll { /* an answer under construction */
    struct service *service;
    const struct node *node;
    struct arena *arena;
    Muster__NodePollAnswer *answer;
    Muster__JobHeld *const *held; /* reported by the asking agent */
    size_t held_count, capacity;
    size_t shared_bytes;      /* specs and memberships in this answer */
    const struct job *last;   /* the job with the latest shared part in the answer */
    uint64_t last_generation; /* its membership that the agent has or gets */
    bool failed;
};

static Muster__Membership *wire_membership(struct arena *arena, const struct assignment *from)
{
    size_t world = (size_t)from->world;
    Muster__Membership *ret = arena_alloc(arena, sizeof(*ret));
    Muster__Member *members = arena_array(arena, world, sizeof(*members));
    if (!ret || !members)
        return NULL;
    muster__membership__init(ret);
    ret->generation = from->group->generation;
    ret->members = arena_pointers(arena, world);
    if (!ret->members)
        return NULL;
    for (size_t rank = 0; rank < world; rank++) {
        const struct worker *worker = job_worker(from->job, from->group->members[rank]);
        if (!worker)
            return NULL;
        muster__member__init(&members[rank]);
        members[rank].rank = (uint32_t)rank;
        members[rank].endpoint = rpc_text(worker->endpoint);
        members[rank].node = rpc_text(worker->node);
        members[rank].host = (uint32_t)from->group->places[rank].node_rank;
        ret->members[ret->n_members++] = &members[rank];
    }
    return ret;
}

/* True if the part fits into this answer. The first one always does, however large. */
static bool fits_answer(struct poll *poll, const ProtobufCMessage *part)
{
    size_t bytes = protobuf_c_message_get_packed_size(part);
    if (poll->shared_bytes > 0 && poll->shared_bytes + bytes > SHARED_MAX_BYTES) {
        poll->answer->incomplete = true;
        return false;
    }
    poll->shared_bytes += bytes;
    return true;
}

/* Values are sent to nodes with a worker of the job, if they are new there. */
static bool share_secrets(struct poll *poll, const Muster__JobHeld *held,
                          const Muster__JobSpec *spec, Muster__JobShared *ret)
{
    uint64_t version = service_secrets_version(poll->service, spec);
    if (!version || (held && held->secrets == version))
        return true;
    Muster__JobShared told = *ret;
    told.spec = NULL;
    if (!service_fill_secrets(poll->service, spec, poll->arena, &told))
        return false;
    if (fits_answer(poll, &told.base)) {
        told.spec = ret->spec;
        told.secrets_version = version;
        *ret = told;
    }
    return true;
}

/* Assignments are sorted by job. */
static Muster__JobShared *shared_of(struct poll *poll, const struct job *job)
{
    Muster__NodePollAnswer *answer = poll->answer;
    if (poll->last == job)
        return answer->shared[answer->n_shared - 1];
    Muster__JobShared *ret = arena_alloc(poll->arena, sizeof(*ret));
    if (!ret)
        return NULL;
    muster__job_shared__init(ret);
    ret->job = rpc_text(job->id);
    const Muster__JobHeld *held = NULL;
    for (size_t i = 0; i < poll->held_count && !held; i++)
        if (strcmp(poll->held[i]->job, job->id) == 0)
            held = poll->held[i];
    Muster__JobSpec *spec = service_spec(poll->service, job);
    if (!held && fits_answer(poll, &spec->base))
        ret->spec = spec;
    if (!share_secrets(poll, held, spec, ret))
        return NULL;
    poll->last = job;
    poll->last_generation = held ? held->generation : 0;
    answer->shared[answer->n_shared++] = ret;
    return ret;
}

/* A gang too large for any message gets no membership: its program must work without it. */
static bool share_membership(struct poll *poll, const struct assignment *from,
                             Muster__JobShared *shared)
{
    uint64_t generation = from->group->generation;
    if (!from->published || shared->membership || poll->last_generation == generation ||
        from->world > MEMBERSHIP_MAX)
        return true;
    Muster__Membership *told = wire_membership(poll->arena, from);
    if (told && fits_answer(poll, &told->base))
        shared->membership = told;
    poll->last_generation = generation;
    return told;
}

static bool fill_group(struct poll *poll, const struct assignment *from, Muster__Assignment *ret)
{
    const struct cluster *cluster = service_cluster(poll->service);
    const struct group *group = from->group;
    ret->rank = (uint32_t)from->rank;
    ret->world = (uint32_t)from->world;
    ret->local_rank = (uint32_t)from->local_rank;
    ret->local_world = (uint32_t)from->local_world;
    ret->node_rank = (uint32_t)from->node_rank;
    ret->node_count = (uint32_t)from->node_count;
    const struct node *master = cluster_node(cluster, group->master_node);
    if (master)
        ret->master_addr = rpc_text(master->address);
    ret->master_port = (uint32_t)group->master_port;
    char *token = arena_alloc(poll->arena, WORKER_TOKEN_MAX);
    uint8_t *secret = arena_alloc(poll->arena, SECRET_BYTES);
    if (!token || !secret)
        return false;
    worker_token(from->job, from->worker->uid, from->generation, token);
    generation_secret(from->job, from->generation, secret);
    ret->token = token;
    ret->secret.data = secret;
    ret->secret.len = SECRET_BYTES;
    return true;
}

static char *wire_stop_reason(struct poll *poll, const struct assignment *from)
{
    char why[STOP_REASON_MAX + 1];
    struct buf shown;
    buf_init(&shown, STOP_REASON_MAX * 2);
    worker_stop_reason(service_cluster(poll->service), from->job, from->worker, why);
    reason_show(why, from->job->spec->tenant, scope_others, &shown);
    char *ret = buf_failed(&shown) ? NULL : arena_strdup(poll->arena, buf_cstr(&shown));
    buf_fini(&shown);
    return ret;
}

static Muster__Assignment *wire_assignment(struct poll *poll, const struct assignment *from)
{
    Muster__Assignment *ret = arena_alloc(poll->arena, sizeof(*ret));
    Muster__JobShared *shared = shared_of(poll, from->job);
    if (!ret || !shared || !share_membership(poll, from, shared))
        return NULL;
    muster__assignment__init(ret);
    ret->job = rpc_text(from->job->id);
    ret->uid = from->worker->uid;
    ret->stop = from->stop;
    ret->grace_ms = (uint32_t)from->job->spec->grace_ms;
    ret->generation = from->generation;
    ret->slot = (uint32_t)from->worker->slot;
    ret->reform = from->reform;
    ret->leave_ms = from->complete ? STOP_GRACE_MS : 0;
    ret->restarts = (uint32_t)from->job->restarts;
    ret->stacks_wall_ms = from->job->stacks_wall_ms;
    ret->signal_wall_ms = from->job->signal_wall_ms;
    const struct checkpoint *last = job_last_checkpoint(from->job);
    if (last) {
        ret->resume_from = rpc_text(last->path);
        ret->resume_step = last->step;
    }
    if (from->stop && !(ret->stop_reason = wire_stop_reason(poll, from)))
        return NULL;
    if (from->group->generation == 0)
        return ret;
    return fill_group(poll, from, ret) ? ret : NULL;
}

static void add_assignment(void *arg, const struct assignment *from)
{
    struct poll *poll = arg;
    if (poll->failed || poll->answer->n_assignments == poll->capacity) {
        poll->failed = true;
        return;
    }
    Muster__Assignment *one = wire_assignment(poll, from);
    poll->failed = !one;
    if (!one)
        return;
    poll->answer->assignments[poll->answer->n_assignments++] = one;
}

static void answer_poll(struct service *service, struct service_call *call, const struct node *node,
                        uint64_t version)
{
    const Muster__NodePollRequest *message = (const void *)call->request;
    Muster__NodePollAnswer answer = MUSTER__NODE_POLL_ANSWER__INIT;
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    struct poll poll = {.service = service,
                        .node = node,
                        .arena = &arena,
                        .answer = &answer,
                        .capacity = INTAKE_WORKERS_MAX};
    /* Data from another life of this coordinator may be out of date. */
    if ((message->version & ~(uint64_t)UINT32_MAX) == service->poll_epoch) {
        poll.held = message->held;
        poll.held_count = message->n_held;
    }
    answer.version = version;
    answer.event = service_newest_event(service);
    answer.restored_wall_ms = service->options.restored_wall_ms;
    answer.assignments = arena_pointers(&arena, poll.capacity);
    answer.shared = arena_pointers(&arena, poll.capacity);
    poll.failed = !answer.assignments || !answer.shared;
    cluster_assignments(service_cluster(service), node->name, add_assignment, &poll);
    if (poll.failed || !service_fill_terminals(service, &arena, message, &answer)) {
        struct error err;
        error_set(&err, E_RESOURCE_EXHAUSTED, "the desired state of node '%s' is too large",
                  node->name);
        service_fail(call, &err);
    } else {
        service_answer(call, &answer.base);
    }
    arena_fini(&arena);
}

void call_poll(struct service *service, struct service_call *call, bool last_chance)
{
    const Muster__NodePollRequest *message = (const void *)call->request;
    struct error err = {0};
    const struct node *node =
        service_reporting_node(call, message->node, message->incarnation, &err);
    if (!node) {
        service_fail(call, &err);
        return;
    }
    if (call->connection)
        connection_link(&service->connections, call->connection, node->name, node->incarnation);
    uint64_t version = service->poll_epoch | (node->desired_version & UINT32_MAX);
    bool differ = service_terminals_differ(service, message);
    if (message->version != version || message->incomplete || differ || last_chance) {
        answer_poll(service, call, node, version);
        return;
    }
    service_wait(call, WAIT_NODE, node->name, INT64_MAX);
}
