/* What is told of once is in the event log once: a job that stands still, until it goes on. */
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/stage.h"

enum { PAGE = 100 };

struct telling {
    struct stage *stage;
    bool stands_still[SIM_JOBS_MAX];
    uint64_t after;
    int read;
};

static void see(void *arg, const struct store_event *event)
{
    struct telling *telling = arg;
    const struct record *record = &event->record;
    struct sim_job *job = workload_job(telling->stage, record->job);
    telling->read++;
    telling->after = event->seq;
    if (!job)
        return;
    bool *stands_still = &telling->stands_still[job - telling->stage->jobs];
    if (strcmp(record->kind, "stalled") == 0 && *stands_still)
        world_fail(telling->stage->world, "%s is told to stand still twice: %s", record->job,
                   record->reason.text);
    if (strcmp(record->kind, "stalled") == 0)
        *stands_still = true;
    if (strcmp(record->kind, "stall_over") == 0)
        *stands_still = false;
}

void stage_check_told(struct stage *stage)
{
    struct telling telling = {.stage = stage};
    if (stage->restores) /* from before the end of a stall */
        return;
    do {
        struct store_events_query query = {.after = telling.after, .limit = PAGE};
        telling.read = 0;
        insist(stage->store->verbs->list_events(stage->store, &query, see, &telling, NULL) == 0);
    } while (telling.read == PAGE);
}
