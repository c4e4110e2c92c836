/* Every method of the Coordinator and Nodes services, whoever carries the call: RPC (api_rpc.h) and
 * REST (api_rest) hand in a request message and get one answer. A row of the table in service.c
 * says who may call a method and which function serves it.
 *
 *     service_start ──► changes: an event for core at once, answered by its ACTION_ANSWER
 *                 └───► reads: run at the turn's end, after the commit, so that nobody is told what
 *                       the disk does not know yet ──► answered
 *                                                 └──► long poll: waits on a key until something
 *                                                      changes or its deadline is near, then again
 *
 * Who owns: the coordinator. Loop thread only. Wire types become model types here and nowhere else.
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
    SERVICE_LONG_POLL_MARGIN_MS = 200,    /* long polls answer this much before their deadline */
    SERVICE_PROTOCOL_VERSION = 1,
};

/* What is written beside core's jobs, nodes and events. */
struct change {
    enum change_kind { CHANGE_TOKEN, CHANGE_TENANT, CHANGE_SECRET, CHANGE_AUDIT } kind;
    uint64_t request; /* told by service_written once it is on disk; 0 = nobody waits */
    bool folded;      /* an audit entry that was counted with others: nothing is written */
    union {
        struct store_token token;
        struct store_tenant tenant;
        struct { /* is written as it is when the turn ends: service_store_secret */
            char tenant[STORE_TENANT_MAX + 1], name[STORE_SECRET_NAME_MAX + 1];
        } secret;
        struct store_audit audit;
    };
};

/* What the driver lends. */
struct service_host {
    void *self;
    const struct cluster *(*cluster)(void *self);
    /* Step with this event now; kind, request and the event's own part are filled. */
    void (*step)(void *self, struct event *event);
    /* Write this in the turn's transaction (copied). Lost while changes are refused. */
    void (*write)(void *self, const struct change *change);
    /* False while changes are refused; fills err with why. */
    bool (*writable)(void *self, struct error *err);
    /* False while the cluster is not what the store holds; fills err with why. */
    bool (*readable)(void *self, struct error *err);
};

struct service_options {
    struct env *env;
    struct loop *loop;
    struct store *store;
    struct service_host host;
    const char *data_dir, *version, *commit, *cluster_id;
    int64_t restored_wall_ms; /* when the store began with a backup; 0 = it did not */
    bool keyed;               /* connections prove keys: a node is who has its key, not its token */
    const char *secrets_key_path; /* absolute; NULL = DATA/secrets.key */
    const char *secrets_key;      /* keys in place of that file; NULL, "" = none */
    const char *pin; /* of the cluster's key, handed out with tokens; NULL or "" = it has none */
    const struct log *log;
};

int service_new(const struct service_options *options, struct service **ret, struct error *err);
void service_free(struct service *service); /* open calls are never answered; NULL is fine */

/* `err` NULL: `answer`, valid during the call. */
typedef void (*service_answer_fn)(void *arg, uint64_t tag, const struct error *err,
                                  const ProtobufCMessage *answer);

struct service_request {
    const ProtobufCMethodDescriptor *method;
    const struct service_method *row; /* of this method; NULL: it is looked for */
    const char *service;              /* "Coordinator" or "Nodes" */
    const ProtobufCMessage *message;  /* of the method's input type; only used during the call */
    const char *token;
    const char *idempotency_key; /* "" = none */
    int64_t deadline_ms;         /* loop time */
    uint64_t peer;               /* connection, 0 if it has none */
    void **note;                 /* of the connection (net.peer_note); NULL = it has none */
    const char *carrier;         /* "rpc" or "rest" */
    const char *peer_address;    /* "" or NULL = not known */
    const char *peer_key;        /* that the connection proved (net.peer_key); "" or NULL = none */
    service_answer_fn answer;    /* exactly once, possibly inside service_start */
    void *arg;
    uint64_t tag;
    /* Filled by service_admit. */
    const struct store_token *caller; /* NULL: the method is for anybody */
    bool admitted;
};

/* Decide from the token, the method and the size alone whether this call may be made now: its
 * message, answer and deadline need not be filled yet. Fills the last two fields. An attempt at
 * what is not the caller's is audited. */
int service_admit(struct service *service, struct service_request *request, size_t payload_bytes,
                  struct error *err);

/* A request that was not admitted yet is so first. */
void service_start(struct service *service, const struct service_request *asked);

/* Refuse for a limit that a carrier keeps: E_RESOURCE_EXHAUSTED, counted. */
int service_refuse_limit(struct service *service, enum limit limit, struct error *err);

/* Whose token this is; an error if it is none, is revoked or has expired. *ret stays as long as
 * the service. */
int service_identify(struct service *service, const char *token, const struct store_token **ret,
                     struct error *err);

/* For the audit trail: a call came with a token that is none of ours; `err` says why. */
struct service_stranger {
    const char *carrier, *peer, *method;
};
void service_audit_stranger(struct service *service, const struct service_stranger *stranger,
                            const struct error *err);

/* Take tokens and tenants from the store. */
int service_load_access(struct service *service, struct error *err);
struct access *service_access(struct service *service); /* coordinator/api_rpc/access.h */
/* Whose the keys of nodes are, as the cluster says. */
void service_load_nodes(struct service *service);
void service_set_pin(struct service *service, const char *pin); /* as options.pin, from now on */

/* From the driver, while it commits: what this answer to a change means for the audit trail. False:
 * nothing. */
bool service_audit(struct service *service, const struct action *action, struct store_audit *ret);

/* From the driver, while it commits: write a changed secret, or that it is gone. */
int service_store_secret(struct service *service, const struct change *change, struct error *err);

/* From the driver, after a commit. */
void service_perform(struct service *service, const struct action *action);
void service_written(struct service *service, const struct change *change);
void service_events_recorded(struct service *service);
void service_fail_request(struct service *service, uint64_t request, const struct error *err);
/* The job is gone, or never was: so are its output and series, and who waits for it is told. */
void service_forget_job(struct service *service, const char *job);
/* For retention: what is kept of a job of before this start is counted; is a tenant beyond what it
 * may keep of output or metrics, has this job any, and away with it; how many ended jobs, and bytes
 * of their specs, may be kept of a tenant. */
void service_measure_kept(struct service *service, const struct job *job);
bool service_over_quota(struct service *service, const char *tenant);
bool service_keeps(struct service *service, const struct job *job);
void service_forget_output(struct service *service, const char *id);
int service_keep_jobs(struct service *service, const char *name, int fallback);
int64_t service_spec_quota(struct service *service, const char *name);
void service_turn_end(struct service *service);

/* The last turn: what the audit trail has counted in this minute becomes entries. */
void service_stop(struct service *service);
void service_everything_changed(struct service *service); /* the cluster was loaded anew */
/* What readers see may have changed, and nobody has been told yet. */
void service_changed(struct service *service);
/* Call that then; one at most. For carriers that keep answers. */
void service_on_change(struct service *service, void (*fn)(void *arg), void *arg);
/* A connection is gone: what it asked and waits for is E_CANCELLED, what it ordered goes on, and
 * the node that it spoke for is told to be out of reach. */
void service_peer_gone(struct service *service, uint64_t peer);

/* The spec a job was stored with (store_parse_spec_fn). `arg` is NULL or a struct strmap that is
 * empty at first, borrows what it holds, and makes jobs of the same words share one spec. */
int service_parse_spec(void *arg, const char *json, struct spec **ret, struct error *err);

/* For /metrics. */
struct service_stats {
    uint64_t calls, failures, events_recorded;
    uint32_t open, waiting;
    uint64_t metrics_memory_bytes;
    uint64_t shared;         /* answers of REST that a call before gave; filled by it */
    const uint64_t *refused; /* [LIMIT_COUNT]: calls that a limit turned away */
};
void service_stats(const struct service *service, struct service_stats *ret);

#endif
