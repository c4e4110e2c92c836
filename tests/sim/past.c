/* The past equals what was: the state at an event, rebuilt from the history of changes, has the
 * digest that was noted while that event was the newest; at the last event it is the live state. */
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/str.h"
#include "coordinator/store/document.h"
#include "coordinator/store/store_memory_digest.h"
#include "tests/sim/stage.h"

enum { STATES_TRIED = 12, PAGE = 5 };

struct replay {
    struct stage *stage;
    struct store_past_query query;
    char after[STORE_TENANT_MAX + 1];
    uint64_t digest;
    int read;
    bool newest;
};

/* At the last event a job is also what the coordinator has in memory. */
static void compare_live(struct stage *stage, const struct store_past *past)
{
    char id[JOB_ID_MAX + 1];
    struct buf buf;
    (void)str_printf(id, sizeof(id), "j%llu", (unsigned long long)past->sequence);
    const struct job *job = cluster_job(coordinator_cluster(stage->coordinator), id);
    if (!job)
        world_fail(stage->world, "%s comes from the past and is not there", id);
    buf_init(&buf, DOCUMENT_MAX_BYTES);
    insist(document_write_job(job, &buf, NULL) == 0);
    if (strcmp(buf_cstr(&buf), past->document) != 0)
        world_fail(stage->world, "%s is %.300s and replayed %.300s", id, buf_cstr(&buf),
                   past->document);
    buf_fini(&buf);
}

static void see(void *arg, const struct store_past *past)
{
    struct replay *replay = arg;
    replay->read++;
    replay->query.after_sequence = past->sequence;
    (void)str_copy(replay->after, sizeof(replay->after), past->name);
    replay->digest ^=
        store_memory_hash(replay->query.kind, past->name, past->sequence, past->document);
    if (replay->newest && replay->query.kind == STORE_PAST_JOB && past->document[0])
        compare_live(replay->stage, past);
}

static void check_state(struct stage *stage, uint64_t seq, uint64_t want, bool newest)
{
    static const enum store_past_kind kinds[] = {STORE_PAST_NODE, STORE_PAST_TENANT,
                                                 STORE_PAST_JOB};
    struct replay replay = {.stage = stage, .newest = newest};
    for (int i = 0; i < 3; i++) {
        replay.after[0] = 0;
        replay.query = (struct store_past_query){
            .kind = kinds[i], .seq = seq, .after = replay.after, .limit = PAGE};
        do {
            replay.read = 0;
            insist(stage->store->verbs->list_past(stage->store, &replay.query, see, &replay,
                                                  NULL) == 0);
        } while (replay.read == PAGE);
    }
    if (replay.digest != want)
        world_fail(stage->world, "the state at event %llu is not what it was",
                   (unsigned long long)seq);
}

void stage_check_past(struct stage *stage)
{
    struct store_past_range range;
    uint64_t digest;
    insist(stage->store->verbs->past_range(stage->store, 0, &range, NULL) == 0);
    for (uint64_t i = 0; i <= STATES_TRIED; i++) {
        uint64_t seq = range.last * i / STATES_TRIED;
        if (store_memory_digest_at(stage->store, seq, &digest))
            check_state(stage, seq, digest, seq == range.last);
    }
}
