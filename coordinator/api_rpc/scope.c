#include "coordinator/api_rpc/scope.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/base/name.h"
#include "common/rpc/message.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/model/reason.h"

#define OTHERS "(another tenant's)"
const char scope_others[] = OTHERS;

const char *scope_tenant(const struct service_call *call)
{
    return access_role_bound(call->role) ? call->caller->tenant : NULL;
}

bool scope_sees_job(const struct service_call *call, const struct job *job)
{
    const char *tenant = scope_tenant(call);
    return !tenant || strcmp(tenant, job->spec->tenant) == 0;
}

bool scope_sees_event(const struct service_call *call, const struct record *record)
{
    if (!scope_tenant(call))
        return true;
    const struct job *job =
        record->job[0] ? cluster_job(service_cluster(call->service), record->job) : NULL;
    return job && scope_sees_job(call, job);
}

/* True for the name of a job, if it is hidden from this caller. */
static bool hidden_word(const struct service_call *call, const char *from, size_t size)
{
    const struct cluster *cluster = service_cluster(call->service);
    char word[NAME_LENGTH_MAX + 1];
    if (size == 0 || size >= sizeof(word))
        return false;
    memcpy(word, from, size);
    word[size] = 0;
    const struct job *job = cluster_job(cluster, word);
    if (!job)
        job = cluster_job_named(cluster, word);
    return job && !scope_sees_job(call, job);
}

/* Merge repeated "others" of adjacent jobs. */
static void merge_repeats(char *text)
{
    static const char more[] = ", " OTHERS;
    size_t head = sizeof(OTHERS) - 1, size = sizeof(more) - 1;
    for (char *at = text; (at = strstr(at, OTHERS));) {
        char *next = at + head;
        if (strncmp(next, more, size) == 0)
            memmove(next, next + size, strlen(next + size) + 1);
        else
            at = next;
    }
}

/* Names of jobs are between marks in the coordinator's texts. In texts of older stores, and in
 * administrators' texts about a node, they are searched. They are never searched in text that a
 * member may have written: which words are removed there would reveal the names of other tenants'
 * jobs. */
static char *without_others(const struct service_call *call, struct arena *arena, const char *text,
                            bool search)
{
    struct buf shown, out;
    buf_init(&shown, 4096);
    buf_init(&out, 4096);
    reason_show(text, scope_tenant(call), scope_others, &shown);
    search = search && scope_tenant(call) && strcmp(buf_cstr(&shown), text) == 0;
    for (const char *at = buf_cstr(&shown); *at;) {
        const char *end = at;
        while (name_has(*end))
            end++;
        const char *bare = end;
        while (bare > at && bare[-1] == '.')
            bare--;
        if (search && hidden_word(call, at, (size_t)(bare - at)))
            (void)buf_str(&out, scope_others);
        else
            (void)buf_append(&out, at, (size_t)(bare - at));
        (void)buf_append(&out, bare, (size_t)(end - bare));
        if (*end)
            (void)buf_char(&out, *end++);
        at = end;
    }
    bool whole = !buf_failed(&shown) && !buf_failed(&out);
    char *ret = whole ? arena_strdup(arena, buf_cstr(&out)) : NULL;
    buf_fini(&shown);
    buf_fini(&out);
    if (ret)
        merge_repeats(ret);
    return ret;
}

static bool show_reason(const struct service_call *call, struct arena *arena,
                        Muster__Reason *reason, bool search)
{
    if (!reason)
        return true;
    reason->text = without_others(call, arena, reason->text, search);
    reason->hint = without_others(call, arena, reason->hint, search);
    return reason->text && reason->hint;
}

/* True for kinds that name other jobs and contain no text of a member. */
static bool names_jobs(const char *kind)
{
    static const enum reason_kind kinds[] = {
        REASON_WAITING_FOR_SLOTS, REASON_BEHIND,    REASON_PRIORITY, REASON_QUOTA,
        REASON_FAIR_SHARE,        REASON_PREEMPTED, REASON_SHRUNK,   REASON_MOVED};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kind, reason_name(kinds[i])) == 0)
            return true;
    return false;
}

bool scope_reason(const struct service_call *call, struct arena *arena, Muster__Reason *reason)
{
    return show_reason(call, arena, reason, reason && names_jobs(reason->kind));
}

bool scope_job(const struct service_call *call, struct arena *arena, Muster__Job *message)
{
    const struct cluster *cluster = service_cluster(call->service);
    const struct job *to = cluster_job(cluster, message->preempted_by);
    if (scope_tenant(call) && (!to || !scope_sees_job(call, to)))
        message->preempted_by = rpc_text("");
    return scope_reason(call, arena, message->reason);
}

bool scope_node(const struct service_call *call, struct arena *arena, Muster__Node *node)
{
    if (!scope_tenant(call))
        return show_reason(call, arena, node->reason, false);
    size_t kept = 0;
    for (size_t i = 0; i < node->n_jobs; i++) {
        const struct job *job = cluster_job(service_cluster(call->service), node->jobs[i]);
        if (job && scope_sees_job(call, job))
            node->jobs[kept++] = node->jobs[i];
    }
    node->n_jobs = kept;
    for (size_t i = 0; i < node->n_uses; i++) {
        const struct job *job = cluster_job(service_cluster(call->service), node->uses[i]->job);
        if (!job || !scope_sees_job(call, job))
            node->uses[i]->job = node->uses[i]->name = rpc_text("");
    }
    return show_reason(call, arena, node->reason, true);
}
