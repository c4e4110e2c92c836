/* A row of the table of methods: the roles that may call a method, and the functions that serve it.
 * The table is in methods.c. Loop thread only. */
#ifndef API_RPC_METHOD_H
#define API_RPC_METHOD_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/api_rpc/access.h"
#include "coordinator/core/action.h"

struct service;
struct service_call;
struct service_request;

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

#endif
