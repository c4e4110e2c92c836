/* What a caller that belongs to one tenant may see of the rest. */
#include <ctype.h>
#include <string.h>

#include "common/base/buf.h"
#include "coordinator/api_rpc/service_internal.h"

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

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || isdigit((unsigned char)c) || c == '-' || c == '.';
}

/* Names a job, and none of this caller's. A job of others may be called as a word of the sentence
 * is: then the word is lost, which harms nobody. */
static bool hidden_word(const struct service_call *call, const char *word)
{
    const struct cluster *cluster = service_cluster(call->service);
    const struct job *job = cluster_job(cluster, word);
    if (!job)
        job = cluster_job_named(cluster, word);
    return job && !scope_sees_job(call, job);
}

/* Words are looked up whole, and without the full stop a sentence may end them with. */
static void copy_word(const struct service_call *call, const char *from, size_t size,
                      struct buf *out)
{
    char word[NODE_NAME_MAX + 1];
    while (size > 0 && from[size - 1] == '.')
        size--;
    bool fits = size > 0 && size < sizeof word;
    if (fits) {
        memcpy(word, from, size);
        word[size] = 0;
    }
    if (fits && hidden_word(call, word))
        (void)buf_str(out, scope_others);
    else
        (void)buf_append(out, from, size);
}

/* Three of their jobs in a row are said once. */
static void say_once(char *text)
{
    static const char more[] = ", " OTHERS;
    size_t head = sizeof OTHERS - 1, size = sizeof more - 1;
    for (char *at = text; (at = strstr(at, OTHERS));) {
        char *next = at + head;
        if (strncmp(next, more, size) == 0)
            memmove(next, next + size, strlen(next + size) + 1);
        else
            at = next;
    }
}

static char *without_others(const struct service_call *call, struct arena *arena, const char *text)
{
    struct buf out;
    buf_init(&out, 4096);
    for (const char *at = text; *at;) {
        const char *end = at;
        while (in_name(*end))
            end++;
        copy_word(call, at, (size_t)(end - at), &out);
        const char *bare = end;
        while (bare > at && bare[-1] == '.')
            bare--;
        (void)buf_append(&out, bare, (size_t)(end - bare));
        if (*end)
            (void)buf_char(&out, *end++);
        at = end;
    }
    char *ret = buf_failed(&out) ? NULL : arena_strdup(arena, buf_cstr(&out));
    buf_fini(&out);
    if (ret)
        say_once(ret);
    return ret;
}

bool scope_reason(const struct service_call *call, struct arena *arena, Muster__Reason *reason)
{
    if (!reason || !scope_tenant(call))
        return true;
    reason->text = without_others(call, arena, reason->text);
    reason->hint = without_others(call, arena, reason->hint);
    return reason->text && reason->hint;
}

bool scope_node(const struct service_call *call, struct arena *arena, Muster__Node *node)
{
    if (!scope_tenant(call))
        return true;
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
            node->uses[i]->job = node->uses[i]->name = (char *)(uintptr_t) "";
    }
    return scope_reason(call, arena, node->reason);
}
