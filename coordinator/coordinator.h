/* The coordinator as an object: connects model, core, store and RPC. The same object runs in
 * production and under tests/sim. Clock, network, disk and randomness are in env, durable state is
 * in the store. REST is attached from outside (coordinator/api_rest) with coordinator_service.
 *
 * The program owns env, loop, store and the coordinator; free the coordinator first. Loop thread
 * only.
 */
#ifndef COORDINATOR_COORDINATOR_H
#define COORDINATOR_COORDINATOR_H

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/env/env.h"
#include "common/loop/loop.h"
#include "coordinator/model/cluster.h"
#include "coordinator/store/store.h"

struct coordinator;
struct service;

struct coordinator_options {
    const char *data_dir; /* absolute; token files, logs/ and metrics/ are below it (env.disk) */
    const char *rpc_url;  /* to listen on, in common/env/net_url.h's form for the transport; port 0
                           * uses a free one */
    const char *pin;      /* added to tokens; NULL = none */
    const char *secrets_key_path; /* absolute; NULL = DATA/secrets.key */
    const char *secrets_key;      /* keys instead of that file; NULL, "" = none */
    const char *version, *commit; /* of this build; NULL = "" */
    const struct log *log;        /* NULL = silent; outlives the coordinator */
    int keep_jobs;                /* ended ones; 0 = RETENTION_KEEP_JOBS */
    int64_t keep_ms;              /* since their end; 0 = RETENTION_KEEP_DAYS */
    int keep_nodes;               /* lost ones; 0 = RETENTION_KEEP_NODES */
    int64_t keep_nodes_ms;        /* since last seen; 0 = RETENTION_KEEP_NODES_DAYS */
    int64_t terminal_idle_ms;     /* without a byte; 0 = 30 minutes (relay.h) */
    store_audit_fn on_audit;      /* called with each audit entry once it is durable; NULL = not
                                   * called */
    void *on_audit_arg;
    int max_in_flight; /* limit on open RPC requests; 0 = the default */
    int pass_gap_ms;   /* minimum time between passes over the queue; 0 = none */
};

/* Load the store, make what a first start needs, listen, and deliver EVENT_RESTORED. A first start
 * makes the cluster id, and admin and agent tokens, written to DATA/admin.token and
 * DATA/agent.token with mode 0600; only their hashes are stored. */
int coordinator_new(const struct coordinator_options *options, struct env *env, struct loop *loop,
                    struct store *store, struct coordinator **ret, struct error *err);

/* Like a crash: flushes nothing, answers no call, leaves the store as last committed. NULL is
 * allowed. */
void coordinator_free(struct coordinator *coordinator);

/* Every job saves and ends with grace, and nothing is started any more. Running jobs wait in the
 * store for the next coordinator. Finished when no worker lives. */
void coordinator_halt(struct coordinator *coordinator);
int coordinator_living(const struct coordinator *coordinator); /* workers that have not ended */

/* The last turn before an orderly end: writes the counts of the audit trail. */
void coordinator_stop(struct coordinator *coordinator);

/* Replace the pin that is added to tokens, if there was one. The token files in DATA are updated.
 */
void coordinator_set_pin(struct coordinator *coordinator, const char *pin);

const char *coordinator_rpc_url(const struct coordinator *coordinator); /* with the real port */
const char *coordinator_cluster_id(const struct coordinator *coordinator);

/* The present state, for checkers and views. Valid until the next turn of the loop. */
const struct cluster *coordinator_cluster(const struct coordinator *coordinator);

/* False while writes are refused because the store cannot commit; ret_why (may be NULL) gets the
 * reason. */
bool coordinator_ready(const struct coordinator *coordinator, const char **ret_why);

/* The methods of all services, for other carriers (coordinator/api_rpc/service.h). */
struct service *coordinator_service(struct coordinator *coordinator);

#endif
