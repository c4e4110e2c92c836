/* Shared by the files of api_rpc/: the open call, the waiting lists, and the tables they serve
 * from. */
#ifndef API_RPC_SERVICE_INTERNAL_H
#define API_RPC_SERVICE_INTERNAL_H

#include "common/base/arena.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/loop/loop.h"
#include "coordinator/api_rpc/access.h"
#include "coordinator/api_rpc/board.h"
#include "coordinator/api_rpc/audit_fold.h"
#include "coordinator/api_rpc/quota.h"
#include "coordinator/api_rpc/secrets.h"
#include "coordinator/api_rpc/budget.h"
#include "coordinator/api_rpc/connection.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/store/kept.h"
#include "coordinator/store/logs.h"
#include "coordinator/store/metrics.h"
#include "proto/client.pb-c.h"
#include "proto/job.pb-c.h"
#include "proto/node.pb-c.h"

struct service_call;

/* Serves a read: answers it (service_answer or service_fail). A long poll with no news and
 * `last_chance` false may wait instead (service_wait). */
typedef void (*service_read_fn)(struct service *service, struct service_call *call,
                                bool last_chance);
/* Serves a change: gives core an event with call->id as request, or fails the call. */
typedef void (*service_change_fn)(struct service *service, struct service_call *call,
                                  const struct service_request *request);
/* Builds the answer of a change that core accepted. */
typedef void (*service_done_fn)(struct service *service, struct service_call *call,
                                const struct action *action);

/* Builds the answer of a change that is not core's, once it is on disk. */
typedef void (*service_written_fn)(struct service *service, struct service_call *call);

/* Agents' calls in the audit trail: which agent registered which node, and what a worker was
 * refused. */
enum agent_audit { AUDIT_NONE, AUDIT_ALL, AUDIT_REFUSED };

struct service_method {
    const char *service, *name, *words; /* "Coordinator", "SubmitJob", "submitting a job" */
    unsigned roles;                     /* that may call it, bits of enum access_role; 0 = all */
    service_read_fn read;               /* either this */
    service_change_fn change;           /* or this, which is audited except for agents */
    service_done_fn done;               /* and this for core's changes, */
    service_written_fn written;         /* or this for others */
    bool has_spec;                      /* its message may be as large as a spec */
    bool plans;                         /* costs as much as a pass over the queue */
    bool forwarded;                     /* an agent forwards it for a worker */
    enum agent_audit agent_audited;
};

extern const struct service_method service_methods[]; /* ends with a NULL name */

struct service_call {
    uint64_t id;
    const struct service_method *method;
    const struct store_token *caller; /* NULL: without a token */
    unsigned role;
    ProtobufCMessage *request; /* own copy, only for reads */
    int64_t deadline_ms;
    struct connection *connection; /* of a read over a connection, else NULL */
    service_answer_fn answer;
    void *arg;
    uint64_t tag;
    uint64_t sequence; /* of the report in this call: acknowledged by the answer */
    struct list link;  /* in a waiting list */
    struct budget *budget;
    struct budget_ready ready;
    struct list whose; /* in connection->reads */
    struct loop_timer timer;
    struct service *service;
    char key[160];               /* of its waiting list, "" if none */
    struct error *refusal;       /* answered once the turn is on disk (service_refuse), or NULL */
    struct service_trace *trace; /* of audited changes, else NULL */
};

struct service_trace {
    char carrier[8], peer[64];
    char object[256], detail[256]; /* what was changed; never a secret */
    char plain[TOKEN_TEXT_MAX];    /* of a token being made: only for its answer */
    uint32_t counts[2];            /* only for its answer */
    bool written;                  /* the audit trail has the entry */
};

struct service {
    struct service_options options;
    char *data_dir;
    char version[64], commit[64], cluster_id[STORE_META_VALUE_MAX + 1];
    char pin[TOKEN_PIN_LENGTH + 1];
    uint64_t poll_epoch; /* high half of Poll versions: no other start has the same */
    uint64_t next_id;
    struct map calls; /* by id */
    struct access *access;
    struct loop_timer backup; /* next step of the running backup */
    uint64_t backup_call;     /* the request that waits for it; 0 = no backup is running */
    struct loop_timer uses;   /* armed while uses of tokens are not stored */
    bool uses_armed;
    struct strmap rooms; /* waiting key -> struct list of calls */
    struct budgets budgets;
    struct loop_timer again; /* armed while calls are ready and the loop would otherwise be idle */
    struct connections connections;
    struct strmap specs; /* job id -> Muster__JobSpec: specs never change */
    struct strmap
        late; /* ended job -> when output of it last arrived (wall ms, as a pointer-sized number) */
    struct strmap had; /* "job node" -> whether the node had a worker of the job (reporter.c) */
    struct logs *logs;
    struct metrics *metrics;
    struct kept *kept;
    struct audit_folds *audit_folds;
    struct loop_timer audit_minute;
    struct {
        int64_t next_ms; /* no line about a refused node is logged before */
        int64_t left_out;
    } join_log;
    struct quota_rates *quota_rates;
    struct secrets *secrets;
    struct board *board;
    struct strmap nodes_shown; /* name -> struct node_shown (node_list.c) */
    uint64_t nodes_version;    /* of the newest change; its high half is poll_epoch's */
    bool nodes_settled;        /* nothing has stepped since they were compared */
    struct service_stats stats;
    void (*on_change)(void *arg);
    void *on_change_arg;
};

/* Each ends the call and frees it. */
void service_answer(struct service_call *call, const ProtobufCMessage *answer);
void service_fail(struct service_call *call, const struct error *err);

/* The answer, or E_RESOURCE_EXHAUSTED if it could not be built completely. */
void service_answer_whole(struct service_call *call, bool whole, const ProtobufCMessage *answer);

/* Wait until service_wake of the same key, until `again_ms` (loop time, INT64_MAX = not used), or
 * until the deadline is near. */
void service_wait(struct service_call *call, const char *key, int64_t again_ms);
void service_wake(struct service *service, const char *key);
void service_wake_call(struct service_call *call);

/* By id, or the newest of that name, among the jobs that the caller may see. err has E_NOT_FOUND,
 * equally for a missing and a hidden job. */
const struct job *service_find_job(struct service_call *call, const char *id, struct error *err);

/* reporter.c: True if `node` has or had a worker of this job; or this worker. */
bool service_node_had(struct service *service, const struct job *job, const char *node);
bool service_node_had_worker(struct service *service, const struct job *job, uint64_t uid,
                             const char *node);

/* scope.c: what a caller of one tenant may see. */
extern const char scope_others[];                          /* replaces the names of other tenants'
                                                            * jobs */
const char *scope_tenant(const struct service_call *call); /* NULL = all */
bool scope_sees_job(const struct service_call *call, const struct job *job);
bool scope_sees_event(const struct service_call *call, const struct record *record);
/* Called for every answered message of its kind, for every caller. Removes names of other tenants'
 * jobs, and all marks. False if memory is out. `reason` may be NULL. */
bool scope_reason(const struct service_call *call, struct arena *arena, Muster__Reason *reason);
bool scope_job(const struct service_call *call, struct arena *arena, Muster__Job *message);
bool scope_node(const struct service_call *call, struct arena *arena, Muster__Node *node);

/* The audit trail's text about this change; `detail` may be NULL. */
void service_trace(struct service_call *call, const char *object, const char *detail);

/* service_admit.c */
const struct service_method *service_method(const struct service_request *request);
void service_count_refusal(struct service *service); /* for a call that never starts */
/* Count one more open call of its caller; NULL with err set. */
struct budget *service_budget(struct service *service, const struct service_method *method,
                              const struct service_request *request, struct error *err);

/* service_audit.c */
bool service_audits(const struct service_method *method);
void service_trace_init(struct service_trace *trace, const struct service_request *request);
void service_audit_attempt(struct service *service, const struct store_token *caller,
                           const struct service_method *method, const struct service_trace *trace,
                           const struct error *err);
/* Refuse a change that is not core's because of the present state. Answered after the turn's
 * commit. */
void service_refuse(struct service_call *call, const struct error *err);

/* Store this and the audit entry in one transaction, then call the method's `written`. */
void service_write(struct service_call *call, struct change *change);
void service_write_audit(struct service_call *call, const struct error *err); /* NULL = success */

/* Add the cluster's pin to a token that is given out, if there is one. */
void service_add_pin(const struct service *service, char token[TOKEN_TEXT_MAX]);

/* The job's spec as a message, cached; never NULL. */
Muster__JobSpec *service_spec(struct service *service, const struct job *job);

const struct cluster *service_cluster(struct service *service);
int64_t service_now_ms(const struct service *service);
int64_t service_wall_ms(const struct service *service);

/* Output of an ended job arrived: followers wait a while longer. And when its output counts as
 * complete. */
void service_late_output(struct service *service, const struct job *job);
int64_t service_settled_wall_ms(const struct service *service, const struct job *job);

/* job_calls.c */
void call_submit_job(struct service *, struct service_call *, const struct service_request *);
void call_cancel_job(struct service *, struct service_call *, const struct service_request *);
void call_scale_job(struct service *, struct service_call *, const struct service_request *);
void done_job(struct service *, struct service_call *, const struct action *);
void call_get_job(struct service *, struct service_call *, bool last_chance);
void call_watch_job(struct service *, struct service_call *, bool last_chance);
void call_list_jobs(struct service *, struct service_call *, bool last_chance);
void call_why_job(struct service *, struct service_call *, bool last_chance);
void call_list_checkpoints(struct service *, struct service_call *, bool last_chance);

/* Set the tenant: the one the spec names, or its submitter's. err is set if the submitter may not
 * use it. The spec borrows it. */
int service_choose_tenant(struct service_call *call, Muster__JobSpec *spec, struct error *err);

/* A job as in lists, with its ledger; workers only on request. NULL if memory is out. */
Muster__Job *service_show_job(struct service *service, struct arena *arena, const struct job *job,
                              bool workers);

/* overview_call.c */
void call_overview(struct service *, struct service_call *, bool last_chance);

/* plan_call.c */
void call_plan(struct service *, struct service_call *, bool last_chance);

/* view_calls.c */
void call_version(struct service *, struct service_call *, bool last_chance);
void call_get_logs(struct service *, struct service_call *, bool last_chance);
void call_get_metrics(struct service *, struct service_call *, bool last_chance);
void call_list_events(struct service *, struct service_call *, bool last_chance);
void call_set_node(struct service *, struct service_call *, const struct service_request *);
void done_set_node(struct service *, struct service_call *, const struct action *);

/* node_list.c */
void call_list_nodes(struct service *, struct service_call *, bool last_chance);

/* access_calls.c */
void call_who_am_i(struct service *, struct service_call *, bool last_chance);
void call_list_tenants(struct service *, struct service_call *, bool last_chance);
void call_set_tenant(struct service *, struct service_call *, const struct service_request *);
void written_tenant(struct service *, struct service_call *);
void call_list_tokens(struct service *, struct service_call *, bool last_chance);
void call_create_token(struct service *, struct service_call *, const struct service_request *);
void written_new_token(struct service *, struct service_call *);
void call_revoke_token(struct service *, struct service_call *, const struct service_request *);
void written_token(struct service *, struct service_call *);
void call_list_audit(struct service *, struct service_call *, bool last_chance);

/* secret_calls.c */
void call_list_secrets(struct service *, struct service_call *, bool last_chance);
void call_set_secret(struct service *, struct service_call *, const struct service_request *);
void call_remove_secret(struct service *, struct service_call *, const struct service_request *);
void written_secret(struct service *, struct service_call *);
void call_rekey_secrets(struct service *, struct service_call *, const struct service_request *);
void written_rekey(struct service *, struct service_call *);

/* secret_delivery.c */
/* Check that the secrets it names exist and are not too large. Requires `spec->tenant`.
 * E_INVALID_ARGUMENT naming the variable and the secret. */
int service_check_secrets(struct service *service, const Muster__JobSpec *spec, struct error *err);
/* Changes after any of the job's secrets was changed; 0 = it has none. */
uint64_t service_secrets_version(struct service *service, const Muster__JobSpec *spec);
/* Fill the secrets of `ret` in the arena, with values or the reason why not; they count as used.
 * False if memory is out. */
bool service_give_secrets(struct service *service, const Muster__JobSpec *spec, struct arena *arena,
                          Muster__JobShared *ret);

/* service_admit.c: store uses of tokens and secrets within a minute. */
void service_store_uses(struct service *service);

/* backup_call.c */
void call_backup(struct service *, struct service_call *, const struct service_request *);

/* replay.c */
void call_replay(struct service *, struct service_call *, bool last_chance);

/* node_calls.c */
void call_register_node(struct service *, struct service_call *, const struct service_request *);
void done_register_node(struct service *, struct service_call *, const struct action *);
void call_report(struct service *, struct service_call *, const struct service_request *);
void done_report(struct service *, struct service_call *, const struct action *);
/* The node, if this call's agent may report for it; otherwise NULL with err set. */
const struct node *service_speaker(struct service_call *call, const char *name,
                                   uint64_t incarnation, struct error *err);
/* node_calls.c: the newest event that is durable */
uint64_t service_newest_event(const struct service *);
void call_poll(struct service *, struct service_call *, bool last_chance);
void call_commit_checkpoint(struct service *, struct service_call *,
                            const struct service_request *);
void done_commit_checkpoint(struct service *, struct service_call *, const struct action *);
void call_board(struct service *, struct service_call *, bool last_chance);

#endif
