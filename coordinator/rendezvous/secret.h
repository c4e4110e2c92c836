/* Values derived from a job's secret: the token of one worker in one generation, and the handshake
 * secret of its collectives. Only the job's secret is stored. Pure. */
#ifndef RENDEZVOUS_SECRET_H
#define RENDEZVOUS_SECRET_H

#include "coordinator/model/cluster.h"

enum { WORKER_TOKEN_MAX = 64 }; /* buffer for a worker token with its NUL */

/* "mst_worker_" + base64url(HMAC-SHA256(job.secret, "worker|<job>|<uid>|<generation>")) */
void worker_token(const struct job *job, uint64_t uid, uint64_t generation,
                  char ret[WORKER_TOKEN_MAX]);

/* HMAC-SHA256(job.secret, "comm|<job>|<generation>") */
void generation_secret(const struct job *job, uint64_t generation, uint8_t ret[SECRET_BYTES]);

#endif
