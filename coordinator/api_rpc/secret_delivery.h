/* The secrets that a job names: their existence at submit, and their values for the agents that
 * start its workers. Loop thread only. */
#ifndef API_RPC_SECRET_DELIVERY_H
#define API_RPC_SECRET_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "proto/job.pb-c.h"
#include "proto/node.pb-c.h"

struct service;

/* Check that the secrets it names exist and are not too large. Requires `spec->tenant`.
 * E_INVALID_ARGUMENT naming the variable and the secret. */
int service_check_secrets(struct service *service, const Muster__JobSpec *spec, struct error *err);
/* Changes after any of the job's secrets was changed; 0 = it has none. */
uint64_t service_secrets_version(struct service *service, const Muster__JobSpec *spec);
/* Fill the secrets of `ret` in the arena, with values or the reason why not; they count as used.
 * False if memory is out. */
bool service_fill_secrets(struct service *service, const Muster__JobSpec *spec, struct arena *arena,
                          Muster__JobShared *ret);

#endif
