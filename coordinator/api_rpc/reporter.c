#include "coordinator/api_rpc/reporter.h"

#include <string.h>

#include "common/base/str.h"
#include "coordinator/api_rpc/service_state.h"

enum { PAIRS_KEPT_MAX = 20000, PAIR_BYTES = JOB_ID_MAX + NAME_LENGTH_MAX + 2 };
enum had { HAD_UNKNOWN, HAD_NEVER, HAD_WORKER };

static void remember_pair(struct service *service, const char *pair, enum had had)
{
    if (strmap_count(&service->had) >= PAIRS_KEPT_MAX)
        strmap_fini(&service->had);
    (void)strmap_set(&service->had, pair, (void *)(intptr_t)had, NULL);
}

static bool has_worker(const struct job *job, const char *node)
{
    for (int i = 0; i < job->workers_count; i++)
        if (strcmp(job->workers[i].node, node) == 0)
            return true;
    return false;
}

struct search {
    const char *node;
    bool found;
};

static void note_event(void *arg, const struct store_event *event)
{
    struct search *search = arg;
    search->found = search->found || strcmp(event->record.node, search->node) == 0;
}

static bool search_events(struct service *service, const struct job *job, const char *node)
{
    struct search search = {.node = node};
    struct store_events_query query = {
        .job = job->id, .limit = STORE_EVENTS_PAGE_MAX, .newest = true};
    struct store *store = service->options.store;
    return store->verbs->list_events(store, &query, note_event, &search, NULL) == 0 && search.found;
}

bool service_node_had(struct service *service, const struct job *job, const char *node)
{
    char pair[PAIR_BYTES];
    (void)str_printf(pair, sizeof(pair), "%s %s", job->id, node);
    enum had known = (enum had)(intptr_t)strmap_get(&service->had, pair);
    enum had had = known;
    if (known != HAD_WORKER && has_worker(job, node))
        had = HAD_WORKER;
    else if (known == HAD_UNKNOWN)
        had = search_events(service, job, node) ? HAD_WORKER : HAD_NEVER;
    if (had != known)
        remember_pair(service, pair, had);
    return had == HAD_WORKER;
}

bool service_node_had_worker(struct service *service, const struct job *job, uint64_t uid,
                             const char *node)
{
    const struct worker *worker = job_worker(job, uid);
    if (worker)
        return strcmp(worker->node, node) == 0;
    return uid > 0 && uid < job->next_uid && service_node_had(service, job, node);
}
