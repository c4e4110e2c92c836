/* The agent's client of service Nodes. It registers, keeps one Poll in flight, sends reports, and
 * forwards workers' calls to the coordinator. Every call is retried until it succeeds, except a
 * first registration with an invalid token. News from the coordinator become callbacks on the loop
 * thread, never inside a call.
 *
 *     silent ─ register ─► registering ─ answered ─► registered ─ "unknown node" ─► silent
 *                              ├──────── "fenced" ───────┴──────────────► fenced (for ever)
 *                              └─ "not with this token", never registered ► refused (for ever)
 */
#ifndef LINK_COORDINATOR_LINK_H
#define LINK_COORDINATOR_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/assignment.h"
#include "common/base/error.h"
#include "common/env/env.h"
#include "common/loop/loop.h"
#include "common/rpc/client.h"
#include "proto/node.pb-c.h"

enum {
    LINK_CALL_MS = 3000,
    LINK_POLL_MS = 10000,
    LINK_AGAIN_MIN_MS = 100, /* between attempts, doubled each time, with jitter */
    LINK_AGAIN_MAX_MS = 2000,
    LINK_REPORTS_MAX = 4, /* in flight */
    LINK_ASSIGNMENTS_MAX = 4096,
};

struct coordinator_link;

struct link_events {
    void *arg;
    /* Fill the request (all except name and incarnation). Called for each attempt, so that it is
     * current. */
    void (*fill_register)(void *arg, Muster__RegisterNodeRequest *request);
    /* A failure means that this coordinator is not ours; it is asked again later. */
    int (*registered)(void *arg, const Muster__RegisterNodeAnswer *answer, struct error *err);
    /* With each answer to a report or poll: the newest durable event of its history, and when that
     * was restored from a backup. False: it is not the known history; we register again. */
    bool (*heard)(void *arg, uint64_t newest_event, int64_t restored_wall_ms);
    void (*unknown)(void *arg); /* the coordinator does not know this node */
    void (*fenced)(void *arg);
    /* Our token is unknown there, or of another role. For a token that was valid before it is only
     * a complaint: workers may run, and the coordinator may get its tokens back. */
    void (*refused)(void *arg, const struct error *err);
    void (*desired)(void *arg, struct assignment *const *assignments, int count);
    /* All channels that should be open on this node, after a change; borrowed. NULL: this agent
     * opens none. */
    void (*terminals)(void *arg, Muster__Terminal *const *terminals, size_t count);
    /* Something failed; called once per change of the sentence. */
    void (*complaint)(void *arg, const struct error *err);
    void (*recovered)(void *arg); /* after a complaint: it works again */
};

struct link_options { /* texts are copied */
    const char *url, *token, *node;
    uint64_t incarnation;
    struct link_events events;
};

int coordinator_link_new(const struct link_options *options, struct env *env, struct loop *loop,
                         struct coordinator_link **ret, struct error *err);
void coordinator_link_free(struct coordinator_link *link); /* accepts NULL; no callbacks follow */

void coordinator_link_register(struct coordinator_link *link); /* until it succeeds */

/* Sets node, incarnation and sequence. `done` gets the code (0 = the coordinator has it). false if
 * LINK_REPORTS_MAX are in flight or we are not registered. */
typedef void (*link_reported)(void *arg, uint64_t sequence, int code);
bool coordinator_link_report(struct coordinator_link *link, Muster__NodeReport *report,
                             link_reported done, void *arg);
uint64_t coordinator_link_sequence(const struct coordinator_link *link); /* of the newest report */

/* For CommitCheckpoint and Board: the caller sets node and incarnation. */
struct rpc_client *coordinator_link_client(struct coordinator_link *link);

#endif
