#include "agent/link/held.h"

#include <string.h>

#include "common/rpc/message.h"

/* Values of secrets do not stay in memory that is free. */
static void release_shared(Muster__JobShared *shared)
{
    for (size_t i = 0; shared && i < shared->n_secrets; i++)
        explicit_bzero(shared->secrets[i]->value, strlen(shared->secrets[i]->value));
    rpc_message_free((ProtobufCMessage *)shared);
}

void held_fini(struct held *held)
{
    for (struct map_entry *e = strmap_first(&held->jobs); e; e = map_next(e))
        release_shared(e->value);
    strmap_fini(&held->jobs);
}

/* Move from `from` what `to` lacks. */
static void move_missing(Muster__JobShared *to, Muster__JobShared *from)
{
    if (!to->spec) {
        to->spec = from->spec;
        from->spec = NULL;
    }
    if (!to->secrets_version) {
        Muster__JobShared told = *from;
        from->secrets = to->secrets;
        from->n_secrets = to->n_secrets;
        from->secrets_error = to->secrets_error;
        to->secrets = told.secrets;
        to->n_secrets = told.n_secrets;
        to->secrets_error = told.secrets_error;
        to->secrets_version = told.secrets_version;
        to->secrets_later = told.secrets_later;
    }
    if (!to->membership) {
        to->membership = from->membership;
        from->membership = NULL;
    }
}

static bool merge_job(struct held *held, const Muster__JobShared *told)
{
    void *old = NULL;
    if (!told->spec && !told->membership && !told->secrets_version)
        return true;
    Muster__JobShared *copy = (Muster__JobShared *)rpc_message_copy(&told->base);
    if (!copy || strmap_set(&held->jobs, copy->job, copy, &old)) {
        release_shared(copy);
        return false;
    }
    if (old)
        move_missing(copy, old);
    release_shared(old);
    return true;
}

int held_merge(struct held *held, const Muster__NodePollAnswer *answer, struct error *err)
{
    for (size_t i = 0; i < answer->n_shared; i++)
        if (!merge_job(held, answer->shared[i])) {
            held_fini(held);
            return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for what jobs share");
        }
    return 0;
}

static bool names(const Muster__NodePollAnswer *answer, const char *job)
{
    for (size_t i = 0; i < answer->n_shared; i++)
        if (strcmp(answer->shared[i]->job, job) == 0)
            return true;
    return false;
}

void held_keep_only(struct held *held, const Muster__NodePollAnswer *answer)
{
    for (struct map_entry *e = strmap_first(&held->jobs), *next; e; e = next) {
        next = map_next(e);
        Muster__JobShared *shared = e->value;
        if (names(answer, shared->job))
            continue;
        strmap_remove(&held->jobs, shared->job);
        release_shared(shared);
    }
}

const Muster__JobShared *held_find(const struct held *held, const char *job)
{
    return strmap_get(&held->jobs, job);
}

int held_fill(const struct held *held, struct arena *arena, Muster__NodePollRequest *request)
{
    size_t count = strmap_count(&held->jobs);
    Muster__JobHeld *all = arena_array(arena, count + 1, sizeof(*all));
    Muster__JobHeld **list = arena_array(arena, count + 1, sizeof(void *));
    if (!all || !list)
        return E_RESOURCE_EXHAUSTED;
    size_t at = 0;
    for (struct map_entry *e = strmap_first(&held->jobs); e; e = map_next(e)) {
        Muster__JobShared *shared = e->value;
        if (!shared->spec)
            continue; /* held is what has a spec */
        muster__job_held__init(&all[at]);
        all[at].job = shared->job;
        all[at].generation = shared->membership ? shared->membership->generation : 0;
        /* What could not be given is asked for again each time. */
        all[at].secrets = shared->secrets_error[0] ? 0 : shared->secrets_version;
        list[at] = &all[at];
        at++;
    }
    request->held = list;
    request->n_held = at;
    return 0;
}
