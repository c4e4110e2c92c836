/* When the output of a job that has ended is complete. Its agents may still send some, and
 * followers wait for it. A busy machine may delay an agent that has some to send. So while one
 * is there the wait is as long as a node may be silent, else it is short. Loop thread only.
 */
#ifndef API_RPC_OUTPUT_END_H
#define API_RPC_OUTPUT_END_H

#include <stdint.h>

#include "coordinator/api_rpc/service.h"
#include "coordinator/core/limits.h"
#include "coordinator/model/job.h"

enum { OUTPUT_PATIENCE_MS = LEASE_MS }; /* after the last of it */

/* Output of the job arrived. If it has ended, followers wait a while longer. */
void service_note_late_output(struct service *service, const struct job *job);

/* The time since 1970 at which the output of an ended job counts as complete. */
int64_t service_output_complete_ms(struct service *service, const struct job *job);

#endif
