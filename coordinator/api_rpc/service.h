/* All methods of the Coordinator and Nodes services, for every carrier: RPC (api_rpc.h) and REST
 * (api_rest) pass a request message and get one answer. A row of the table in methods.c has the
 * roles that may call a method and the function that serves it.
 *
 *       service_start ──► changes: an event for core at once, answered by its ACTION_ANSWER
 *                   └───► reads: run at the turn's end, after the commit, so that no answer is
 *                         ahead of the disk ──► answered
 *                                     └──► long poll: waits on a key until something changes or its
 *                                          deadline is near, then runs again
 *
 * Owned by the coordinator. Loop thread only. Wire types become model types here and nowhere else.
 */
#ifndef API_RPC_SERVICE_H
#define API_RPC_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/limits.h"
#include "coordinator/api_rpc/service_host.h"
#include "coordinator/api_rpc/service_request.h"
#include "coordinator/core/action.h"

struct service;

enum {
    SERVICE_CALLS_MAX = MAX_STRANGER_CALLS + MAX_READERS_CALLS + MAX_ADMINS_CALLS +
                        MAX_AGENTS_CALLS, /* open at once; common/base/limits.h refuses more */
    SERVICE_PROTOCOL_VERSION = 1,
};

int service_new(const struct service_options *options, struct service **ret, struct error *err);
void service_free(struct service *service); /* open calls are never answered; NULL is allowed */

/* Start a request; one that was not admitted yet is admitted first. */
void service_start(struct service *service, const struct service_request *asked);

/* From the driver during the commit: write or delete a changed secret. */
int service_store_secret(struct service *service, const struct change *change, struct error *err);

/* From the driver, after a commit. */
void service_perform(struct service *service, const struct action *action);
void service_written(struct service *service, const struct change *change);
void service_events_recorded(struct service *service);
void service_fail_request(struct service *service, uint64_t request, const struct error *err);
/* The job is forgotten or never existed: delete its output and series, and answer the requests that
 * wait for it. */
void service_forget_job(struct service *service, const char *job);
void service_turn_end(struct service *service);

/* The last turn: write the folded audit entries of this minute. */
void service_stop(struct service *service);
void service_everything_changed(struct service *service); /* the cluster was loaded again */
/* Readers may see a change that they were not notified of yet. */
void service_changed(struct service *service);
/* Set the function to call then; one at most. For carriers that cache answers. */
void service_on_change(struct service *service, void (*fn)(void *arg), void *arg);
/* A connection is closed. Its waiting requests get E_CANCELLED, its changes continue, and its node
 * is reported unreachable. */
void service_peer_gone(struct service *service, uint64_t peer);

void service_stats(const struct service *service, struct service_stats *ret);

#endif
