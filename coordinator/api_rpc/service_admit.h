/* Checks the caller, its permission and its limits, before the message itself is read. Loop thread
 * only. */
#ifndef API_RPC_SERVICE_ADMIT_H
#define API_RPC_SERVICE_ADMIT_H

#include <stddef.h>

#include "common/base/limits.h"
#include "common/base/token.h"
#include "coordinator/api_rpc/access.h"
#include "coordinator/api_rpc/service_request.h"

struct budget;
struct service;

/* Decide whether this call may be made now, from the token, the method and the size alone. Its
 * message, answer and deadline need not be set yet. Sets the last three fields. An attempt without
 * permission is audited. */
int service_admit(struct service *service, struct service_request *request, size_t payload_bytes,
                  struct error *err);

/* Refuse because of a carrier's limit: E_RESOURCE_EXHAUSTED, counted. */
int service_refuse_limit(struct service *service, enum limit limit, struct error *err);
void service_count_refusal(struct service *service); /* for a call that never starts */

/* Find the token's entry. An error if it is unknown, revoked or expired. *ret lives as long as the
 * service. */
int service_identify(struct service *service, const char *token, const struct store_token **ret,
                     struct error *err);

/* E_NOT_FOUND: the key was removed, or its node forgotten. Its agent registers again. */
int service_unknown_key(struct error *err);

/* Load tokens, tenants and secrets from the store. */
int service_load_access(struct service *service, struct error *err);
struct access *service_access(struct service *service);

void service_set_pin(struct service *service, const char *pin); /* replaces options.pin */
/* Add the cluster's pin to a token that is given out, if there is one. */
void service_add_pin(const struct service *service, char token[TOKEN_TEXT_MAX]);

/* The row of this request; NULL if the method is not offered. */
const struct service_method *service_find_method(const struct service *service,
                                                 const struct service_request *request);
/* Count one more open call of its caller; NULL with err set. */
struct budget *service_budget(struct service *service, const struct service_method *method,
                              const struct service_request *request, struct error *err);

/* Store uses of tokens and secrets within a minute. */
void service_store_uses(struct service *service);

#endif
