#include "coordinator/api_rpc/output_end.h"

#include <stdlib.h>

#include "coordinator/api_rpc/service_state.h"

enum {
    LATE_KEPT_MAX = 10000,
    OUTPUT_QUIET_MS = 300, /* an agent with more to send reports again at once */
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

/* True if the agents of all its workers ever have reported their output as complete. */
static bool output_whole(const struct service *service, const struct job *job)
{
    for (uint64_t uid = 1; uid < job->next_uid; uid++) {
        if (logs_whole(service->logs, job->id, uid))
            continue;
        const struct worker *worker = job_worker(job, uid); /* NULL = from an earlier generation */
        if (!worker || !(worker->spare || worker->exit.unstarted))
            return false;
    }
    return true;
}

int64_t service_output_complete_ms(const struct service *service, const struct job *job)
{
    const struct late_output *late = strmap_get(&service->late_outputs, job->id);
    int64_t last_ms = job->ended_wall_ms;
    if (late && late->arrived_wall_ms > last_ms)
        last_ms = late->arrived_wall_ms;
    bool over = last_ms + OUTPUT_QUIET_MS <= service_wall_ms(service);
    return !over && output_whole(service, job) ? job->ended_wall_ms : last_ms + OUTPUT_QUIET_MS;
}
