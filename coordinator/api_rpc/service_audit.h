/* The audit trail: an entry for each change by a person, and for each attempt without permission.
 * Entries of one minute that repeat each other are folded (audit_fold.h). Loop thread only. */
#ifndef API_RPC_SERVICE_AUDIT_H
#define API_RPC_SERVICE_AUDIT_H

#include "coordinator/api_rpc/open_call.h"
#include "coordinator/api_rpc/service_host.h"
#include "coordinator/core/action.h"

/* A call with an unknown token; `err` has the reason. */
struct service_stranger {
    const char *carrier, *peer, *method;
};
void service_audit_stranger(struct service *service, const struct service_stranger *stranger,
                            const struct error *err);

/* From the driver during the commit: the audit entry for this answer to a change. False: none. */
bool service_audit(struct service *service, const struct action *action, struct store_audit *ret);

/* The same for a node that the coordinator forgets by itself. */
void service_audit_forgotten(struct service *service, const struct action *action,
                             struct store_audit *ret);

/* An entry that belongs to no call. */
void service_audit_entry(struct service *service, const struct store_audit *entry);

bool service_audits(const struct service_method *method);
void service_trace_init(struct service_trace *trace, const struct service_request *request);
/* The audit trail's text about this change; `detail` may be NULL. */
void service_trace(struct service_call *call, const char *object, const char *detail);
void service_audit_attempt(struct service *service, const struct store_token *caller,
                           const struct service_method *method, const struct service_trace *trace,
                           const struct error *err);

/* Store this and the audit entry in one transaction, then call the method's `written`. */
void service_write(struct service_call *call, struct change *change);
void service_write_audit(struct service_call *call, const struct error *err); /* NULL = success */
/* The entry of a refusal (service_refuse); service_written follows also if it was folded. */
void service_write_refusal(struct service_call *call, const struct error *err);

/* Write the folded entries of this minute now. */
void service_audit_flush(struct service *service);

#endif
