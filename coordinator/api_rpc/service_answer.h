/* The end of a call: its answer, its error, or a refusal that waits for the disk. Loop thread only.
 */
#ifndef API_RPC_SERVICE_ANSWER_H
#define API_RPC_SERVICE_ANSWER_H

#include "coordinator/api_rpc/open_call.h"

/* Each ends the call and frees it. */
void service_answer(struct service_call *call, const ProtobufCMessage *answer);
void service_fail(struct service_call *call, const struct error *err);

/* The answer, or E_RESOURCE_EXHAUSTED if it could not be built completely. */
void service_answer_whole(struct service_call *call, bool whole, const ProtobufCMessage *answer);

/* Refuse a change that is not core's because of the present state. Answered after the turn's
 * commit. */
void service_refuse(struct service_call *call, const struct error *err);

/* End the call without counting or auditing it. `err` NULL: `answer`. */
void service_call_end(struct service_call *call, const struct error *err,
                      const ProtobufCMessage *answer);

/* Why no change can be stored now, in `err`; the empty text while changes are accepted. */
char *service_changes_refused(const struct service *service, struct error *err);

/* Free the call without an answer. */
void service_call_free(struct service_call *call);

#endif
