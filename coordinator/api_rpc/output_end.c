#include "coordinator/api_rpc/output_end.h"

#include <stdlib.h>

#include "coordinator/api_rpc/service_state.h"
#include "coordinator/model/node.h"

enum {
    LATE_KEPT_MAX = 10000,
    OUTPUT_QUIET_MS = 300, /* for output that no agent may be there to send */
};

/* Output that arrived after the end of its job. */
struct late_output {
    int64_t arrived_wall_ms; /* the last of it */
};

void service_note_late_output(struct service *service, const struct job *job)
{
    if (!job_state_ended(job->state))
        return;
    struct late_output *late = strmap_get(&service->late_outputs, job->id);
    if (!late) {
        if (strmap_count(&service->late_outputs) >= LATE_KEPT_MAX)
            strmap_free_values(&service->late_outputs);
        late = calloc(1, sizeof(*late));
        if (!late || strmap_set(&service->late_outputs, job->id, late, NULL)) {
            free(late);
            return;
        }
    }
    late->arrived_wall_ms = service_wall_ms(service);
}

static bool agent_there(struct service *service, const char *name)
{
    const struct node *node = cluster_node(service_cluster(service), name);
    return node && node->connected && node->state != NODE_LOST && node->state != NODE_UNREACHABLE;
}

/* For how long more of it may arrive; 0 if the agents of all its workers ever have reported their
 * output as complete. */
static int64_t more_comes_ms(struct service *service, const struct job *job)
{
    int64_t patience_ms = 0;
    for (uint64_t uid = 1; uid < job->next_uid; uid++) {
        if (logs_whole(service->logs, job->id, uid))
            continue;
        const struct worker *worker = job_worker(job, uid); /* NULL = from an earlier generation */
        if (worker && (worker->spare || worker->exit.unstarted))
            continue;
        if (worker && agent_there(service, worker->node))
            return OUTPUT_PATIENCE_MS;
        patience_ms = OUTPUT_QUIET_MS;
    }
    return patience_ms;
}

int64_t service_output_complete_ms(struct service *service, const struct job *job)
{
    const struct late_output *late = strmap_get(&service->late_outputs, job->id);
    int64_t last_ms = job->ended_wall_ms;
    if (late && late->arrived_wall_ms > last_ms)
        last_ms = late->arrived_wall_ms;
    if (last_ms + OUTPUT_PATIENCE_MS <= service_wall_ms(service))
        return last_ms;
    int64_t more_ms = more_comes_ms(service, job);
    return more_ms ? last_ms + more_ms : job->ended_wall_ms;
}
