#include "coordinator/api_rpc/secret_delivery.h"

#include <string.h>

#include "common/base/meant.h"
#include "common/base/str.h"
#include "common/env/seal.h"
#include "coordinator/api_rpc/service_admit.h"
#include "coordinator/api_rpc/service_state.h"

enum { NAMES_MAX = 1000, ERROR_MAX = 512 };

/* FNV-1a (Fowler, Noll, Vo), of numbers that each have their own place. */
static const uint64_t hash_begin = 0xcbf29ce484222325, hash_prime = 0x100000001b3;

static const char *tenant_of(const Muster__JobSpec *spec)
{
    return *spec->tenant ? spec->tenant : "default";
}

static void name_nearest(struct service *service, const char *tenant, const char *name,
                         struct error *err)
{
    const char *names[NAMES_MAX + 1];
    int count = 0;
    for (const struct store_secret *secret = secrets_first(service->secrets);
         secret && count < NAMES_MAX; secret = secrets_next(service->secrets, secret))
        if (strcmp(secret->tenant, tenant) == 0)
            names[count++] = secret->name;
    names[count] = NULL;
    if (!meant_hint(err, name, names))
        error_hint(err, "muster secret set %.63s --tenant %.63s", name, tenant);
}

int service_check_secrets(struct service *service, const Muster__JobSpec *spec, struct error *err)
{
    size_t bytes = 0;
    int rc = 0;
    for (size_t i = 0; i < spec->n_secrets; i++) {
        const char *name = spec->secrets[i]->value;
        const struct store_secret *secret = secrets_find(service->secrets, tenant_of(spec), name);
        if (!secret) {
            rc = error_set(err, E_INVALID_ARGUMENT, "tenant %s has no secret '%.80s'",
                           tenant_of(spec), name);
            name_nearest(service, tenant_of(spec), name, err);
        } else if ((bytes += secret->sealed_bytes - SEAL_OVERHEAD_BYTES) > MAX_JOB_SECRETS_BYTES) {
            rc = service_refuse_limit(service, LIMIT_JOB_SECRETS_BYTES, err);
        }
        if (rc) {
            error_field(err, "secrets.%.80s", spec->secrets[i]->key);
            return rc;
        }
    }
    return 0;
}

uint64_t service_secrets_version(struct service *service, const Muster__JobSpec *spec)
{
    uint64_t hash = hash_begin;
    for (size_t i = 0; i < spec->n_secrets; i++) {
        const struct store_secret *secret =
            secrets_find(service->secrets, tenant_of(spec), spec->secrets[i]->value);
        uint64_t revision = secret ? secrets_revision(secret) : 0;
        hash = (hash ^ (revision & UINT32_MAX)) * hash_prime;
        hash = (hash ^ (revision >> 32)) * hash_prime;
    }
    return spec->n_secrets ? hash | 1 : 0;
}

static bool set_error(struct arena *arena, const struct error *why, bool later,
                      Muster__JobShared *ret)
{
    char text[ERROR_MAX];
    (void)str_printf(text, sizeof(text), "%s%s%s%s", why->text, why->hint[0] ? " (" : "", why->hint,
                     why->hint[0] ? ")" : "");
    ret->secrets_error = arena_strdup(arena, text);
    ret->secrets_later = later;
    ret->n_secrets = 0;
    return ret->secrets_error;
}

/* 0, or why the value is unavailable; E_RESOURCE_EXHAUSTED if memory is out. */
static int open_secret(struct service *service, const struct store_secret *secret,
                       struct arena *arena, Muster__JobSecret *ret, struct error *why)
{
    struct buf value;
    buf_init(&value, MAX_SECRET_BYTES + 1);
    int rc = secrets_open(service->secrets, secret, &value, why);
    if (!rc) {
        ret->value = arena_strndup(arena, buf_cstr(&value), value.size);
        rc = ret->value ? 0 : E_RESOURCE_EXHAUSTED;
        secrets_used(secret, service_wall_ms(service));
        service_store_uses(service);
    }
    if (value.data)
        explicit_bzero(value.data, value.size);
    buf_fini(&value);
    return rc;
}

bool service_fill_secrets(struct service *service, const Muster__JobSpec *spec, struct arena *arena,
                          Muster__JobShared *ret)
{
    Muster__JobSecret *all = arena_array(arena, spec->n_secrets, sizeof(*all));
    struct error why = {0};
    ret->secrets = arena_array(arena, spec->n_secrets, sizeof(void *));
    if (!all || !ret->secrets)
        return false;
    for (size_t i = 0; i < spec->n_secrets; i++) {
        const char *name = spec->secrets[i]->value;
        const struct store_secret *secret = secrets_find(service->secrets, tenant_of(spec), name);
        if (!secret) {
            error_set(&why, E_NOT_FOUND, "secret '%s' of tenant %s, for %s, was removed", name,
                      tenant_of(spec), spec->secrets[i]->key);
            error_hint(&why, "muster secret set %.63s --tenant %.63s, then submit again", name,
                       tenant_of(spec));
            return set_error(arena, &why, false, ret);
        }
        muster__job_secret__init(&all[i]);
        all[i].variable = spec->secrets[i]->key;
        int rc = open_secret(service, secret, arena, &all[i], &why);
        if (rc == E_RESOURCE_EXHAUSTED)
            return false;
        if (rc)
            return set_error(arena, &why, rc == E_FAILED_PRECONDITION, ret);
        ret->secrets[ret->n_secrets++] = &all[i];
    }
    return true;
}
