#include "coordinator/core/node.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/name.h"
#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/lease.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/node_links.h"
#include "coordinator/core/node_state.h"
#include "coordinator/core/report.h"
#include "coordinator/model/cluster_nodes.h"
#include "coordinator/model/gang.h"
#include "coordinator/model/reason.h"

/* The state that an administrator asked for, as far as it is reached; the administrator's text
 * stays. */
static enum node_state settle_requested_state(const struct node *node, const char *why,
                                              struct reason *ret)
{
    bool empty = map_first(&node->jobs) == NULL;
    if (!node->want_drain) {
        reason_set(ret, REASON_ADMINISTRATOR, "%s", *why ? why : "cordoned by an administrator");
        reason_hint(ret, "`muster uncordon %s` lets it have work again", node->name);
        return NODE_CORDONED;
    }
    if (!empty) {
        reason_set(ret, REASON_ADMINISTRATOR, "%s", *why ? why : NODE_EMPTYING);
        return NODE_DRAINING;
    }
    bool given = node->state == NODE_DRAINING && strcmp(node->reason.text, NODE_EMPTYING) != 0 &&
                 strcmp(node->reason.kind, reason_name(REASON_ADMINISTRATOR)) == 0;
    if (!*why && given)
        why = node->reason.text;
    reason_set(ret, REASON_ADMINISTRATOR, "emptied%s%.400s", *why ? ": " : "",
               *why ? why : " by an administrator: nothing runs there any more");
    reason_hint(ret,
                "it may be serviced or switched off; `muster uncordon %s` lets it have work "
                "again",
                node->name);
    return NODE_DRAINED;
}

/* Like a cordon by an administrator, as long as the process exists. */
static void cordon_stuck(struct step *step, struct node *node)
{
    struct reason reason;
    reason_set(&reason, REASON_UNKILLABLE, "%s cannot be killed and keeps its slots%s",
               node->stuck_text, node->stuck > 1 ? "; there are more" : "");
    reason_hint(&reason, "`cat /proc/PID/wchan` there shows what the kernel waits for; the node "
                         "gets work again when the process has ended");
    node_set_state(step, node, node->want_drain ? NODE_DRAINING : NODE_CORDONED, &reason);
}

/* Like a cordon by an administrator, until the node is tried again. */
static void cordon_faulty(struct step *step, struct node *node)
{
    struct reason reason;
    reason_set(&reason, REASON_NODE_FAULT, "cannot start workers: %s", node->fault_text);
    reason_hint(&reason,
                "repair it there; the node gets work again after a while, or at once after `muster "
                "uncordon %s`",
                node->name);
    node_set_state(step, node, node->want_drain ? NODE_DRAINING : NODE_CORDONED, &reason);
}

/* The state of a node with a reporting agent. `why` is an administrator's text now, or "". */
static void settle_state(struct step *step, struct node *node, const char *why)
{
    struct reason reason;
    enum node_state state = NODE_READY;
    if (node->stuck > 0) {
        cordon_stuck(step, node);
        return;
    }
    if (node->fault_until_ms > step->now_ms) {
        cordon_faulty(step, node);
        return;
    }
    if (node->foreign > 0) {
        reason_set(&reason, REASON_CLEARING, "ends %d worker%s that should not run there any more",
                   node->foreign, str_plural(node->foreign));
        if (node->state == NODE_LOST || node->state == NODE_UNREACHABLE)
            node_set_state(step, node, NODE_JOINING, &reason);
        return;
    }
    if (node->want_drain || node->want_cordon)
        state = settle_requested_state(node, why, &reason);
    else if (*why)
        reason_set(&reason, REASON_ADMINISTRATOR, "%s", why);
    else if (node->state == NODE_READY && !node_own_reason(&node->reason))
        return; /* as with nearly every report */
    else
        reason_set(&reason, REASON_REPORTED, "its agent reports");
    node_set_state(step, node, state, &reason);
}

static int check_facts(const struct node *facts, struct error *err)
{
    if (!name_valid(facts->name)) {
        error_set(err, E_INVALID_ARGUMENT, "'%s' is no name for a node", facts->name);
        error_field(err, "name");
        error_hint(err, "lower-case letters, digits, '.' and '-', first a letter or digit");
        return E_INVALID_ARGUMENT;
    }
    if (facts->slots < 0 || facts->slots > NODE_SLOTS_MAX || facts->cpus_milli < 0 ||
        facts->memory_bytes < 0 || facts->incarnation == 0) {
        error_set(err, E_INVALID_ARGUMENT, "node '%s' reports an impossible size", facts->name);
        error_field(err, "slots");
        error_hint(err, "at most %d slots", NODE_SLOTS_MAX);
        return E_INVALID_ARGUMENT;
    }
    return 0;
}

static void refuse_fenced(struct step *step, const char *name)
{
    struct error err = {0};
    error_set(&err, E_ABORTED, "fenced: a newer agent speaks for node '%s'", name);
    step_refuse(step, &err);
}

static void apply_facts(struct step *step, struct node *node, const struct node *facts)
{
    /* Then its reports may have had newer links. */
    bool late = node->incarnation == facts->incarnation && node->last_report > 0;
    if (node->incarnation != facts->incarnation) {
        if (node->incarnation) {
            memmove(node->past + 1, node->past, sizeof(node->past) - sizeof(node->past[0]));
            node->past[0] = node->incarnation;
        }
        node->incarnation = facts->incarnation;
        node->last_report = 0;
    }
    if (facts->key[0])
        memcpy(node->key, facts->key, sizeof(node->key));
    if (facts->let_in_by[0])
        cluster_set_let_in_by(step->cluster, node, facts->let_in_by);
    cluster_move_node(step->cluster, node, facts->address);
    memcpy(node->version, facts->version, sizeof(node->version));
    node->slots = facts->slots;
    node->cpus_milli = facts->cpus_milli;
    node->memory_bytes = facts->memory_bytes;
    node->port_first = facts->port_first;
    node->port_last = facts->port_last;
    memcpy(node->labels, facts->labels, sizeof(node->labels));
    node->labels_count = facts->labels_count;
    if (!late) {
        node_note_links(step, node, facts->gpus, facts->gpus_count);
        node_set_gpus(node, facts->gpus, facts->gpus_count);
    }
    memcpy(node->unenforced, facts->unenforced, sizeof(node->unenforced));
    node->shrunk = node->slots_used > node->slots || node->cpus_milli_used > node->cpus_milli ||
                   node->memory_bytes_used > node->memory_bytes;
}

static struct node *add_node(struct step *step, const struct node *facts, struct error *err)
{
    struct node *node = calloc(1, sizeof(*node));
    insist(node);
    memcpy(node->name, facts->name, sizeof(node->name));
    node->state = NODE_JOINING;
    reason_set(&node->reason, REASON_REGISTERED, "its agent registered");
    node->joined_wall_ms = step->wall_ms;
    if (!cluster_add_node(step->cluster, node, err))
        return node;
    node_free(node);
    return NULL;
}

static void note_contact(struct step *step, struct node *node)
{
    node->connected = true;
    node->gone = false;
    node->seen_wall_ms = step->wall_ms;
    node_grant_lease(step, node, LEASE_MS);
}

void node_register(struct step *step)
{
    const struct node *facts = step->event->node_register.facts;
    struct node *node = cluster_node(step->cluster, facts->name);
    struct error err = {0};
    if (check_facts(facts, &err)) {
        step_refuse(step, &err);
        return;
    }
    if (node && node_has_fenced(node, facts->incarnation)) {
        refuse_fenced(step, facts->name);
        return;
    }
    if (!node)
        node = add_node(step, facts, &err);
    if (!node) {
        step_refuse(step, &err);
        return;
    }
    /* The same registration again may be a late repeat. Its list of workers is older than later
     * reports, and no longer true. */
    bool news = node->incarnation != facts->incarnation;
    apply_facts(step, node, facts);
    if (news || node->last_report == 0)
        note_contact(step, node);
    if (news) {
        reports_apply(step, node, step->event->node_register.workers,
                      step->event->node_register.workers_count);
        settle_state(step, node, "");
    }
    step_store_node(step, node);
    step_reassign_node(step, node->name);
    step->wants_pass = true;
    step_answer_node(step, node->name);
}

/* A GPU that can be read again may let a waiting job start. */
static void set_gpus(struct step *step, struct node *node)
{
    const struct gpu_news *news = &step->event->node_report.gpus;
    for (int i = 0; i < news->now_count && i < node->gpus_count; i++) {
        step->wants_pass = step->wants_pass || node->gpus[i].now.lost != news->now[i].lost;
        node->gpus[i].now = news->now[i];
    }
}

/* Slots that are held no longer may let a waiting job start. */
static void set_held(struct step *step, struct node *node)
{
    const struct gpu_news *news = &step->event->node_report.gpus;
    int64_t held[NODE_GPUS_MAX]; /* bytes; -1: it is not held */
    for (int i = 0; i < node->gpus_count; i++)
        held[i] = -1;
    for (int i = 0; i < news->held_count; i++)
        if (news->held[i].slot < node->gpus_count)
            held[news->held[i].slot] = news->held[i].memory_bytes;
    for (int i = 0; i < node->gpus_count; i++) {
        struct gpu *gpu = &node->gpus[i];
        step->wants_pass = step->wants_pass || gpu->held != (held[i] >= 0);
        gpu->held = held[i] >= 0;
        gpu->held_bytes = gpu->held ? held[i] : 0;
    }
}

void node_report(struct step *step)
{
    const char *name = step->event->node_report.node;
    uint64_t sequence = step->event->node_report.sequence;
    struct node *node = cluster_node(step->cluster, name);
    uint64_t incarnation = step->event->node_report.incarnation;
    if (node && node_has_fenced(node, incarnation)) {
        refuse_fenced(step, name);
        return;
    }
    if (!node || node->incarnation != incarnation) { /* or it registered after our backup */
        struct error err = {0};
        error_set(&err, E_NOT_FOUND, "%s node '%s'", node ? "a new agent speaks for" : "unknown",
                  name);
        error_hint(&err, "register first");
        step_refuse(step, &err);
        return;
    }
    if (sequence > node->last_report) {
        node->last_report = sequence;
        note_contact(step, node);
        set_gpus(step, node);
        set_held(step, node);
        node_set_links(step, node);
        size_t changed = step->to_store.count;
        reports_apply(step, node, step->event->node_report.workers,
                      step->event->node_report.workers_count);
        settle_state(step, node, "");
        /* The sequence is stored with the change: after a restart an older report that is still in
         * transit must not count as new. */
        if (step->to_store.count > changed)
            step_store_node(step, node);
    }
    step_answer_node(step, name);
}

void node_gone(struct step *step)
{
    struct node *node = cluster_node(step->cluster, step->event->node_gone.node);
    if (!node || node->incarnation != step->event->node_gone.incarnation || !node->connected)
        return;
    node->connected = false;
    node->gone = true;
    if (node->state == NODE_LOST)
        return;
    struct reason reason;
    reason_set(&reason, REASON_CONNECTION_LOST,
               "its connection is lost; its workers are assumed to run until the lease ends");
    node_set_state(step, node, NODE_UNREACHABLE, &reason);
    if (!node_peers_lost_it(node))
        return;
    reason_set(&reason, REASON_PEERS_SAW_IT_DIE,
               "its connection is lost and its peers lost its ranks");
    node_lose(step, node, &reason);
}

/* Its agent may still run, with a valid token: reserve the name for another key. */
static void refuse_key(struct node *node)
{
    if (!node->key[0])
        return;
    memmove(node->refused_keys + 1, node->refused_keys,
            sizeof(node->refused_keys) - sizeof(node->refused_keys[0]));
    memcpy(node->refused_keys[0], node->key, sizeof(node->key));
    node->key[0] = '\0';
}

void node_command(struct step *step)
{
    struct node *node = cluster_node(step->cluster, step->event->node_set.node);
    if (!node) {
        struct error err = {0};
        error_set(&err, E_NOT_FOUND, "unknown node '%s'", step->event->node_set.node);
        error_field(&err, "name");
        error_hint(&err, "`muster nodes` lists them");
        step_refuse(step, &err);
        return;
    }
    switch (step->event->node_set.command) {
    case NODE_CORDON:
        node->want_cordon = true;
        break;
    case NODE_DRAIN:
        node->want_drain = true;
        break;
    case NODE_UNCORDON:
        node->want_cordon = node->want_drain = false;
        node->fault_until_ms = 0;
        break;
    case NODE_REKEY:
        refuse_key(node);
        break;
    }
    const char *why = step->event->node_set.reason ? step->event->node_set.reason : "";
    enum node_state before = node->state;
    if (node->state != NODE_LOST && node->state != NODE_UNREACHABLE)
        settle_state(step, node, why);
    if (*why && node->state == before)
        (void)str_copy(node->reason.text, sizeof(node->reason.text), why);
    for (struct map_entry *e = map_first(&node->jobs); e; e = map_next(e))
        step_revisit(step, e->value);
    step_store_node(step, node);
    step->wants_pass = true;
    step_answer_node(step, node->name);
}

void node_restored(struct step *step, struct node *node)
{
    node->connected = false;
    step_reassign_node(step, node->name);
    if (node->state == NODE_LOST)
        return;
    struct reason reason;
    reason_set(&reason, REASON_COORDINATOR_RESTARTED,
               "the coordinator restarted; its agent has time to speak up");
    node_set_state(step, node, NODE_UNREACHABLE, &reason);
    node_grant_lease(step, node, RESTORED_LEASE_MS);
}
