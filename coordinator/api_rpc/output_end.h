/* When the output of a job that has ended is complete. Its agents may still send some: followers
 * wait until all is there, or for a short time after the last of it. Loop thread only.
 */
#ifndef API_RPC_OUTPUT_END_H
#define API_RPC_OUTPUT_END_H

#include <stdint.h>

#include "coordinator/api_rpc/service.h"
#include "coordinator/model/job.h"

/* Output of the job arrived. If it has ended, followers wait a while longer. */
void service_note_late_output(struct service *service, const struct job *job);

/* The time since 1970 at which the output of an ended job counts as complete. */
int64_t service_output_complete_ms(const struct service *service, const struct job *job);

#endif
