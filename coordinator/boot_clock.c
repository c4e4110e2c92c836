#include "coordinator/boot_clock.h"

#include "common/base/parse.h"
#include "common/base/str.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/store/meta.h"

enum { CLOCK_TOLERANCE_MS = 1000 };

static const char clock_key[] = "clock_offset_ms";

static void shift_time(int64_t *time_ms, int64_t by_ms)
{
    if (*time_ms == 0)
        return; /* 0 = none */
    *time_ms += by_ms;
    if (*time_ms < 1)
        *time_ms = 1;
}

static void shift_job(struct job *job, int64_t by_ms)
{
    shift_time(&job->backoff_until_ms, by_ms);
    shift_time(&job->grow_after_ms, by_ms);
    shift_time(&job->broken_at_ms, by_ms);
    shift_time(&job->stop_deadline_ms, by_ms);
    shift_time(&job->runtime_deadline_ms, by_ms);
    shift_time(&job->current.since_ms, by_ms);
    shift_time(&job->forming.since_ms, by_ms);
    ledger_shift(&job->ledger, by_ms);
}

int boot_clock_adjust(struct store *store, struct cluster *cluster, int64_t offset_ms,
                      struct error *err)
{
    char text[STORE_META_VALUE_MAX + 1];
    int64_t stored_ms = 0;
    int rc = store->verbs->get_meta(store, clock_key, text, err);
    if (!rc)
        rc = parse_i64(text, INT64_MIN, INT64_MAX, &stored_ms, err);
    else if (rc == E_NOT_FOUND)
        rc = 0;
    if (rc)
        return rc;
    int64_t by_ms = stored_ms - offset_ms;
    if (by_ms > -CLOCK_TOLERANCE_MS && by_ms < CLOCK_TOLERANCE_MS)
        return 0;
    (void)str_printf(text, sizeof(text), "%lld", (long long)offset_ms);
    rc = store->verbs->begin(store, err);
    if (!rc)
        rc = store->verbs->put_meta(store, clock_key, text, err);
    for (struct job *job = cluster_first_active_job(cluster); !rc && job;
         job = cluster_next_active_job(cluster, job)) {
        shift_job(job, by_ms);
        rc = store->verbs->put_job(store, job, err);
    }
    if (!rc)
        rc = store->verbs->commit(store, err);
    if (rc)
        store->verbs->rollback(store);
    return rc;
}
