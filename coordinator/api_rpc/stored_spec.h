/* The specs that jobs were stored with: as messages, kept for reuse, and as the core's struct spec.
 * Loop thread only. */
#ifndef API_RPC_STORED_SPEC_H
#define API_RPC_STORED_SPEC_H

#include "coordinator/model/cluster.h"
#include "proto/job.pb-c.h"

struct service;

/* The job's spec as a message, cached; never NULL. */
Muster__JobSpec *service_spec(struct service *service, const struct job *job);
void service_forget_specs(struct service *service); /* empties the cache */

/* The spec a job was stored with (store_parse_spec_fn). `arg` is NULL or an initially empty struct
 * strmap. With the map, jobs with equal text share one spec; the map borrows its entries. */
int service_parse_spec(void *arg, const char *json, struct spec **ret, struct error *err);

#endif
