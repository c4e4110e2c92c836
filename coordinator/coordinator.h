/* The coordinator as an object: connects model, core, store and RPC. The same object runs in
 * production and under tests/sim; clock, network, disk and randomness come through env, durable
 * state through the store. REST is attached from outside (coordinator/api_rest) with
 * coordinator_service.
 *
 * Who owns: the program owns env, loop, store and the coordinator; free the coordinator first.
 * Loop thread only.
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
    const char *data_dir; /* absolute; token files, logs/ and metrics/ live under it (env.disk) */
    const char *rpc_url;  /* to listen on, as common/env/net_url.h has it for the transport; port 0
                             takes a free one */
    const char *pin;      /* that tokens are handed out with; NULL = none */
    const char *secrets_key_path; /* absolute; NULL = DATA/secrets.key */
    const char *secrets_key;      /* keys in place of that file; NULL, "" = none */
    const char *version, *commit; /* of this build; NULL = "" */
    const struct log *log;        /* NULL = silent; outlives the coordinator */
    int keep_jobs;                /* ended ones; 0 = RETENTION_KEEP_JOBS */
    int64_t keep_ms;              /* since their end; 0 = RETENTION_KEEP_DAYS */
    store_audit_fn on_audit;      /* told of each audit entry once it is durable; NULL = nobody */
    void *on_audit_arg;
    int max_in_flight; /* RPC requests held at once; 0 = the default */
    int pass_gap_ms;   /* at least, between passes over the queue; 0 = none */
};

/* Loads the store, makes what a first start needs (cluster id; admin and agent tokens, written to
 * DATA/admin.token and DATA/agent.token with mode 0600, only their hashes stored), listens, and
 * delivers EVENT_RESTORED. */
int coordinator_new(const struct coordinator_options *options, struct env *env, struct loop *loop,
                    struct store *store, struct coordinator **ret, struct error *err);

/* As a crash: flushes nothing, answers nobody, leaves the store as last committed. NULL is fine. */
void coordinator_free(struct coordinator *coordinator);

/* Every job saves and ends with grace, nothing is started any more; what was running waits in the
 * store for the next coordinator. Over when no worker lives. */
void coordinator_halt(struct coordinator *coordinator);
int coordinator_living(const struct coordinator *coordinator); /* workers that have not ended */

/* The last turn before an orderly end: writes the counts of the audit trail. */
void coordinator_stop(struct coordinator *coordinator);

/* The pin that tokens are handed out with from now on, if it had one. The files of those in DATA
 * follow. */
void coordinator_set_pin(struct coordinator *coordinator, const char *pin);

const char *coordinator_rpc_url(const struct coordinator *coordinator); /* with the real port */
const char *coordinator_cluster_id(const struct coordinator *coordinator);

/* What is, for checkers and views. Valid until the next turn of the loop. */
const struct cluster *coordinator_cluster(const struct coordinator *coordinator);

/* False while writes are refused because the store cannot commit; ret_why (may be NULL) says it. */
bool coordinator_ready(const struct coordinator *coordinator, const char **ret_why);

/* The methods of all services, for carriers other than RPC (coordinator/api_rpc/service.h). */
struct service *coordinator_service(struct coordinator *coordinator);

#endif
