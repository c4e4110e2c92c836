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

#include <protobuf-c/protobuf-c.h>

#include "common/base/error.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "coordinator/core/action.h"
#include "coordinator/core/event.h"
#include "coordinator/store/store.h"

struct env;
struct loop;
struct service;
struct service_method; /* a row of the table */

enum {
    SERVICE_CALLS_MAX = MAX_STRANGER_CALLS + MAX_READERS_CALLS + MAX_ADMINS_CALLS +
                        MAX_AGENTS_CALLS, /* open at once; common/base/limits.h refuses more */
    SERVICE_LONG_POLL_MARGIN_MS = 200,    /* long polls answer this long before their deadline */
    SERVICE_PROTOCOL_VERSION = 1,
};

/* A change to write that is not core's jobs, nodes or events. */
struct change {
    enum change_kind { CHANGE_TOKEN, CHANGE_TENANT, CHANGE_SECRET, CHANGE_AUDIT } kind;
    uint64_t request; /* answered by service_written once it is on disk; 0 = no request waits */
    bool folded;      /* an audit entry that was folded: nothing is written */
    union {
        struct store_token token;
        struct store_tenant tenant;
        struct { /* written in its state at the turn's end: service_store_secret */
            char tenant[STORE_TENANT_MAX + 1], name[STORE_SECRET_NAME_MAX + 1];
        } secret;
        struct store_audit audit;
    };
};

/* What the driver provides. */
struct service_host {
    void *self;
    const struct cluster *(*cluster)(void *self);
    /* Step with this event now. kind, request and the event's own part are set. */
    void (*step)(void *self, struct event *event);
    /* Write this in the turn's transaction (copied). Lost while changes are refused. */
    void (*write)(void *self, const struct change *change);
    /* False while changes are refused; err has the reason. */
    bool (*writable)(void *self, struct error *err);
    /* False while the cluster differs from the store; err has the reason. */
    bool (*readable)(void *self, struct error *err);
};

struct service_options {
    struct env *env;
    struct loop *loop;
    struct store *store;
    struct service_host host;
    const char *data_dir, *version, *commit, *cluster_id;
    int64_t restored_wall_ms; /* when the store was restored from a backup; 0 = it was not */
    bool keyed;               /* connections prove keys: the key identifies a node, not its token */
    const char *secrets_key_path; /* absolute; NULL = DATA/secrets.key */
    const char *secrets_key;      /* keys instead of that file; NULL, "" = none */
    const char *pin; /* of the cluster's key, given out with tokens; NULL or "" = none */
    const struct log *log;
};

int service_new(const struct service_options *options, struct service **ret, struct error *err);
void service_free(struct service *service); /* open calls are never answered; NULL is allowed */

/* `err` NULL: `answer`, valid during the call. */
typedef void (*service_answer_fn)(void *arg, uint64_t tag, const struct error *err,
                                  const ProtobufCMessage *answer);

struct service_request {
    const ProtobufCMethodDescriptor *method;
    const struct service_method *row; /* of this method; NULL: it is searched */
    const char *service;              /* "Coordinator" or "Nodes" */
    const ProtobufCMessage *message;  /* of the method's input type; used only during the call */
    const char *token;
    const char *idempotency_key; /* "" = none */
    int64_t deadline_ms;         /* loop time */
    uint64_t peer;               /* connection, 0 without one */
    void **note;                 /* of the connection (net.peer_note); NULL = none */
    const char *carrier;         /* "rpc" or "rest" */
    const char *peer_address;    /* "" or NULL = unknown */
    const char *peer_key;        /* proved by the connection (net.peer_key); "" or NULL = none */
    service_answer_fn answer;    /* called exactly once, possibly inside service_start */
    void *arg;
    uint64_t tag;
    /* Set by service_admit. */
    const struct store_token *caller; /* NULL: the method needs no token */
    bool admitted;
};

/* Decide whether this call may be made now, from the token, the method and the size alone. Its
 * message, answer and deadline need not be set yet. Sets the last two fields. An attempt without
 * permission is audited. */
int service_admit(struct service *service, struct service_request *request, size_t payload_bytes,
                  struct error *err);

/* Start a request; one that was not admitted yet is admitted first. */
void service_start(struct service *service, const struct service_request *asked);

/* Refuse because of a carrier's limit: E_RESOURCE_EXHAUSTED, counted. */
int service_refuse_limit(struct service *service, enum limit limit, struct error *err);

/* Find the token's entry. An error if it is unknown, revoked or expired. *ret lives as long as the
 * service. */
int service_identify(struct service *service, const char *token, const struct store_token **ret,
                     struct error *err);

/* For the audit trail: a call had an unknown token; `err` has the reason. */
struct service_stranger {
    const char *carrier, *peer, *method;
};
void service_audit_stranger(struct service *service, const struct service_stranger *stranger,
                            const struct error *err);

/* Load tokens and tenants from the store. */
int service_load_access(struct service *service, struct error *err);
struct access *service_access(struct service *service); /* coordinator/api_rpc/access.h */
/* Load the keys of nodes from the cluster. */
void service_load_nodes(struct service *service);
void service_set_pin(struct service *service, const char *pin); /* replaces options.pin */

/* From the driver during the commit: the audit entry for this answer to a change. False: none. */
bool service_audit(struct service *service, const struct action *action, struct store_audit *ret);

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
/* For retention. measure_kept: count what is kept of a job from before this start. over_quota: the
 * tenant exceeds its quota of output or metrics. keeps: the job has output or metrics.
 * forget_output: delete them. keep_jobs, spec_quota: how many ended jobs, and bytes of their specs,
 * may be kept of a tenant. */
void service_measure_kept(struct service *service, const struct job *job);
bool service_over_quota(struct service *service, const char *tenant);
bool service_keeps(struct service *service, const struct job *job);
void service_forget_output(struct service *service, const char *id);
int service_keep_jobs(struct service *service, const char *name, int fallback);
int64_t service_spec_quota(struct service *service, const char *name);
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

/* The spec a job was stored with (store_parse_spec_fn). `arg` is NULL or an initially empty struct
 * strmap. With the map, jobs with equal text share one spec; the map borrows its entries. */
int service_parse_spec(void *arg, const char *json, struct spec **ret, struct error *err);

/* For /metrics. */
struct service_stats {
    uint64_t calls, failures, events_recorded;
    uint32_t open, waiting;
    uint64_t metrics_memory_bytes;
    uint64_t shared;         /* answers of REST reused from an earlier call; filled by it */
    const uint64_t *refused; /* [LIMIT_COUNT]: calls refused by a limit */
};
void service_stats(const struct service *service, struct service_stats *ret);

#endif
