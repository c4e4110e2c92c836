/* Setting, removing and listing secrets, and sealing them with a new key. No answer contains a
 * value. */
#include <string.h>

#include "common/base/assert.h"
#include "common/base/map.h"
#include "common/base/str.h"
#include "common/rpc/message.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/intake.h"
#include "coordinator/api_rpc/quota.h"
#include "coordinator/api_rpc/scope.h"
#include "coordinator/api_rpc/service_admit.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/stored_spec.h"
#include "coordinator/api_rpc/wire.h"
#include "coordinator/model/cluster_walk.h"

enum { SECRET_JOBS_SHOWN = 8 }; /* listed for each secret; others are counted */

static int bad_field(struct error *err, const char *field, const char *what)
{
    error_set(err, E_INVALID_ARGUMENT, "%s: %s", field, what);
    error_field(err, "%s", field);
    return E_INVALID_ARGUMENT;
}

static void wire_secret(const struct secrets *secrets, const struct store_secret *secret,
                        Muster__Secret *ret)
{
    muster__secret__init(ret);
    ret->name = rpc_text(secret->name);
    ret->tenant = rpc_text(secret->tenant);
    ret->created_wall_ms = secret->created_wall_ms;
    ret->created_by = rpc_text(secret->created_by);
    ret->changed_wall_ms = secret->changed_wall_ms;
    ret->changed_by = rpc_text(secret->changed_by);
    ret->used_wall_ms = secret->used_wall_ms;
    ret->lost = secrets_lost(secrets, secret);
}

/* One more job that names the secret; false without memory. */
static bool note_job(struct arena *arena, const struct job *job, Muster__Secret *secret)
{
    secret->jobs_count++;
    if (!secret->jobs)
        secret->jobs = arena_pointers(arena, SECRET_JOBS_SHOWN);
    if (!secret->jobs)
        return false;
    if (secret->n_jobs == SECRET_JOBS_SHOWN)
        return true;
    Muster__Secret__Use *use = arena_alloc(arena, sizeof(*use));
    if (!use)
        return false;
    muster__secret__use__init(use);
    use->job = rpc_text(job->id);
    use->name = rpc_text(job->spec->name);
    secret->jobs[secret->n_jobs++] = use;
    return true;
}

/* A job may have one secret in several variables. */
static bool is_named_before(const Muster__JobSpec *spec, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(spec->secrets[i]->value, spec->secrets[at]->value) == 0)
            return true;
    return false;
}

/* The jobs that have not ended, at each of the secrets listed that they name. */
static bool note_jobs(struct service *service, const Muster__ListSecretsAnswer *answer,
                      struct arena *arena)
{
    char key[STORE_TENANT_MAX + STORE_SECRET_NAME_MAX + 2];
    struct strmap listed = {0};
    bool whole = true;
    for (size_t i = 0; whole && i < answer->n_secrets; i++) {
        Muster__Secret *secret = answer->secrets[i];
        (void)str_printf(key, sizeof(key), "%s/%s", secret->tenant, secret->name);
        whole = !strmap_set(&listed, key, secret, NULL);
    }
    const struct cluster *cluster = service_cluster(service);
    for (const struct job *job = cluster_first_active_job(cluster); whole && job;
         job = cluster_next_active_job(cluster, job)) {
        if (job->spec->secrets_count == 0)
            continue;
        const Muster__JobSpec *spec = service_spec(service, job);
        for (size_t i = 0; whole && i < spec->n_secrets; i++) {
            (void)str_printf(key, sizeof(key), "%s/%s", job->spec->tenant, spec->secrets[i]->value);
            Muster__Secret *secret = strmap_get(&listed, key);
            if (secret && !is_named_before(spec, i))
                whole = note_job(arena, job, secret);
        }
    }
    strmap_fini(&listed);
    return whole;
}

void call_list_secrets(struct service *service, struct service_call *call, bool last_chance)
{
    (void)last_chance;
    const Muster__ListSecretsRequest *message = (const void *)call->request;
    Muster__ListSecretsAnswer answer = MUSTER__LIST_SECRETS_ANSWER__INIT;
    const char *own = scope_tenant(call), *wanted = *message->tenant ? message->tenant : own;
    struct error err = {0};
    struct arena arena;
    if (wanted && ((own && strcmp(own, wanted) != 0) || !access_tenant(service->access, wanted))) {
        error_set(&err, E_NOT_FOUND, "no tenant is named '%.80s'", wanted);
        error_field(&err, "tenant");
        service_fail(call, &err);
        return;
    }
    secrets_read_missing_keys(service->secrets);
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    answer.secrets = arena_pointers(&arena, STORE_SECRETS_MAX);
    bool whole = answer.secrets;
    for (const struct store_secret *secret = secrets_first(service->secrets); whole && secret;
         secret = secrets_next(service->secrets, secret)) {
        if (wanted && strcmp(wanted, secret->tenant) != 0)
            continue;
        Muster__Secret *one = arena_alloc(&arena, sizeof(*one));
        whole = one;
        if (one) {
            wire_secret(service->secrets, secret, one);
            answer.secrets[answer.n_secrets++] = one;
        }
    }
    whole = whole && note_jobs(service, &answer, &arena);
    service_answer_whole(call, whole, &answer.base);
    arena_fini(&arena);
}

/* The requested tenant, checked. */
static int choose_tenant(struct service_call *call, const char *asked, const char **ret,
                         struct error *err)
{
    const char *own = scope_tenant(call);
    *ret = *asked ? asked : own ? own : "default";
    if (own && strcmp(own, *ret) != 0) {
        error_set(err, E_PERMISSION_DENIED, "this token keeps secrets of tenant '%s' only", own);
        error_field(err, "tenant");
        return E_PERMISSION_DENIED;
    }
    struct access *access = call->service->access;
    return access_tenant(access, *ret) ? 0 : access_no_tenant(access, *ret, err);
}

static void trace_secret(struct service_call *call, const char *tenant, const char *name,
                         const char *detail)
{
    char object[2 * STORE_TENANT_MAX + 2];
    (void)str_printf(object, sizeof(object), "%.63s/%.63s", tenant, name);
    service_trace(call, object, detail);
}

static void name_change(struct change *change, const char *tenant, const char *name)
{
    *change = (struct change){.kind = CHANGE_SECRET};
    (void)str_copy(change->secret.tenant, sizeof(change->secret.tenant), tenant);
    (void)str_copy(change->secret.name, sizeof(change->secret.name), name);
}

static int check_value(struct service *service, const char *value, struct error *err)
{
    size_t size = strlen(value);
    if (size > MAX_SECRET_BYTES)
        return service_refuse_limit(service, LIMIT_SECRET_BYTES, err);
    if (size == 0)
        return bad_field(err, "value", "a secret has one");
    for (size_t at = 0, length; at < size; at += length)
        if ((length = utf8_decode(value + at, size - at, NULL)) == 0)
            return bad_field(err, "value", "text in UTF-8; encode other bytes, as base64");
    return 0;
}

static int check_quota(struct service_call *call, const char *tenant, struct error *err)
{
    return call->role == ACCESS_ADMIN ? 0 : quota_allows_secret(call->service, tenant, err);
}

void call_set_secret(struct service *service, struct service_call *call,
                     const struct service_request *request)
{
    const Muster__SetSecretRequest *message = (const void *)request->message;
    struct error err = {0};
    struct change change;
    const char *tenant = message->tenant;
    trace_secret(call, tenant, message->name, NULL);
    int rc = intake_name(message->name, "name", &err);
    if (!rc)
        rc = choose_tenant(call, message->tenant, &tenant, &err);
    if (!rc)
        rc = check_value(service, message->value, &err);
    bool known = !rc && secrets_find(service->secrets, tenant, message->name);
    if (!rc && !known)
        rc = check_quota(call, tenant, &err);
    struct secret_input input = {tenant, message->name, message->value, call->caller->name,
                                 service_wall_ms(service)};
    if (!rc)
        rc = secrets_set(service->secrets, &input, &err);
    if (rc) {
        service_refuse(call, &err);
        return;
    }
    trace_secret(call, tenant, message->name, known ? "changed" : "new");
    name_change(&change, tenant, message->name);
    service_write(call, &change);
}

void call_remove_secret(struct service *service, struct service_call *call,
                        const struct service_request *request)
{
    const Muster__RemoveSecretRequest *message = (const void *)request->message;
    struct error err = {0};
    struct change change;
    const char *tenant = message->tenant;
    trace_secret(call, tenant, message->name, NULL);
    int rc = choose_tenant(call, message->tenant, &tenant, &err);
    if (!rc && !secrets_find(service->secrets, tenant, message->name)) {
        rc = error_set(&err, E_NOT_FOUND, "tenant %s has no secret '%.80s'", tenant, message->name);
        error_field(&err, "name");
        error_hint(&err, "muster secret list shows them");
    }
    if (rc) {
        service_refuse(call, &err);
        return;
    }
    (void)secrets_remove(service->secrets, tenant, message->name);
    trace_secret(call, tenant, message->name, "removed");
    name_change(&change, tenant, message->name);
    service_write(call, &change);
}

/* Answer with the present state; for a removed secret only with its name. */
void written_secret(struct service *service, struct service_call *call)
{
    Muster__Secret answer = MUSTER__SECRET__INIT;
    char *object = call->trace->object, *slash = strchr(object, '/');
    insist(slash);
    *slash = 0;
    const struct store_secret *secret = secrets_find(service->secrets, object, slash + 1);
    if (secret) {
        wire_secret(service->secrets, secret, &answer);
    } else {
        answer.tenant = object;
        answer.name = slash + 1;
    }
    service_answer(call, &answer.base);
}

/* Drop secrets that cannot be opened. Their removal is written in the transaction of the new key.
 */
static int drop_lost(struct service *service)
{
    const struct store_secret *next, *secret = secrets_first(service->secrets);
    struct change change;
    int dropped = 0;
    for (; secret; secret = next) {
        next = secrets_next(service->secrets, secret);
        if (secrets_opens(service->secrets, secret))
            continue;
        name_change(&change, secret->tenant, secret->name);
        (void)secrets_remove(service->secrets, change.secret.tenant, change.secret.name);
        service->options.host.write(service->options.host.self, &change);
        dropped++;
    }
    return dropped;
}

void call_rekey_secrets(struct service *service, struct service_call *call,
                        const struct service_request *request)
{
    const Muster__RekeySecretsRequest *message = (const void *)request->message;
    struct change change, done = {.kind = CHANGE_AUDIT, .folded = true};
    struct error err = {0};
    char detail[64];
    int sealed = 0, dropped = message->drop_lost ? drop_lost(service) : 0;
    int rc = secrets_rekey(service->secrets, &err);
    if (rc) {
        service_refuse(call, &err);
        return;
    }
    for (const struct store_secret *secret = secrets_first(service->secrets); secret;
         secret = secrets_next(service->secrets, secret), sealed++) {
        name_change(&change, secret->tenant, secret->name);
        service->options.host.write(service->options.host.self, &change);
    }
    (void)str_printf(detail, sizeof(detail), "%d sealed again, %d dropped", sealed, dropped);
    service_trace(call, "secrets", detail);
    call->trace->counts[0] = (uint32_t)sealed;
    call->trace->counts[1] = (uint32_t)dropped;
    service_write(call, &done);
}

void written_rekey(struct service *service, struct service_call *call)
{
    Muster__RekeySecretsAnswer answer = MUSTER__REKEY_SECRETS_ANSWER__INIT;
    secrets_rekeyed(service->secrets);
    answer.sealed = call->trace->counts[0];
    answer.dropped = call->trace->counts[1];
    answer.place = rpc_text(secrets_key_place(service->secrets));
    service_answer(call, &answer.base);
}
