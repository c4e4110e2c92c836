#include "coordinator/api_rpc/secrets.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/map.h"
#include "common/base/str.h"
#include "common/env/env.h"
#include "common/env/seal.h"

enum { KEY_MAX = STORE_TENANT_MAX + STORE_SECRET_NAME_MAX + 2, VALUE_ROOM_BYTES = 1 << 20 };

struct secret {
    struct store_secret facts; /* first member: callers have pointers to it */
    uint8_t *sealed;           /* owned; facts.sealed is the same */
    uint64_t revision;
    int64_t stored_use_wall_ms;
};

struct secrets {
    struct env *env;
    char path[PATH_MAX];
    bool from_environment;
    struct seal_keys keys;
    struct strmap all; /* "<tenant>/<name>" -> struct secret */
    uint64_t revision; /* of the newest change */
};

static int out_of_memory(struct error *err)
{
    return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
}

static void key_of(const char *tenant, const char *name, char ret[KEY_MAX])
{
    (void)str_printf(ret, KEY_MAX, "%.*s/%.*s", STORE_TENANT_MAX, tenant, STORE_SECRET_NAME_MAX,
                     name);
}

/* No name contains '/', so two secrets never share one. */
static struct seal_text seal_name(const struct store_secret *secret, char ret[KEY_MAX])
{
    key_of(secret->tenant, secret->name, ret);
    return (struct seal_text){ret, strlen(ret)};
}

static struct seal_text sealed_of(const struct store_secret *secret)
{
    return (struct seal_text){secret->sealed, secret->sealed_bytes};
}

static void secret_free(struct secret *secret)
{
    if (secret)
        free(secret->sealed);
    free(secret);
}

static void forget_all(struct secrets *secrets)
{
    for (struct map_entry *e = strmap_first(&secrets->all); e; e = map_next(e))
        secret_free(e->value);
    strmap_fini(&secrets->all);
}

/* Read the key file; on failure the known keys stay. */
static int read_keys(struct secrets *secrets, struct error *err)
{
    struct seal_keys keys = {0};
    if (secrets->from_environment)
        return 0;
    int rc = seal_keys_read(&secrets->env->disk, secrets->path, &keys, err);
    if (!rc)
        secrets->keys = keys;
    else if (rc == E_NOT_FOUND)
        seal_keys_fini(&secrets->keys);
    seal_keys_fini(&keys);
    return rc;
}

int secrets_new(const struct secrets_options *options, struct secrets **ret, struct error *err)
{
    struct secrets *secrets = calloc(1, sizeof(*secrets));
    if (!secrets)
        return out_of_memory(err);
    secrets->env = options->env;
    secrets->from_environment = options->key_text && *options->key_text;
    int rc = str_copy(secrets->path, sizeof(secrets->path), options->key_path);
    if (rc)
        error_set(err, rc, "the path of the key for secrets is too long");
    else if (secrets->from_environment &&
             (rc = seal_keys_parse(options->key_text, &secrets->keys, err)) < 0)
        (void)error_wrap(err, "MUSTER_SECRETS_KEY");
    if (rc)
        secrets_free(secrets);
    else
        *ret = secrets;
    return rc;
}

void secrets_free(struct secrets *secrets)
{
    if (!secrets)
        return;
    forget_all(secrets);
    seal_keys_fini(&secrets->keys);
    free(secrets);
}

/* Takes ownership of `sealed`, also on failure. */
static int put_secret(struct secrets *secrets, const struct store_secret *facts, uint8_t *sealed,
                      struct error *err)
{
    char key[KEY_MAX];
    key_of(facts->tenant, facts->name, key);
    struct secret *secret = strmap_get(&secrets->all, key);
    if (!secret) {
        bool full = strmap_count(&secrets->all) >= STORE_SECRETS_MAX;
        secret = full ? NULL : calloc(1, sizeof(*secret));
        if (!secret || strmap_set(&secrets->all, key, secret, NULL)) {
            free(secret);
            free(sealed);
            return full ? error_set(err, E_RESOURCE_EXHAUSTED,
                                    "the cluster can have at most %d secrets", STORE_SECRETS_MAX)
                        : out_of_memory(err);
        }
    }
    free(secret->sealed);
    secret->facts = *facts;
    secret->sealed = sealed;
    secret->facts.sealed = sealed;
    secret->revision = ++secrets->revision;
    secret->stored_use_wall_ms = facts->used_wall_ms;
    return 0;
}

struct loading {
    struct secrets *secrets;
    struct error *err;
    int rc;
};

static void load_one(void *arg, const struct store_secret *stored)
{
    struct loading *loading = arg;
    if (loading->rc)
        return;
    uint8_t *sealed = malloc(stored->sealed_bytes + 1);
    if (!sealed) {
        loading->rc = out_of_memory(loading->err);
        return;
    }
    if (stored->sealed_bytes)
        memcpy(sealed, stored->sealed, stored->sealed_bytes);
    loading->rc = put_secret(loading->secrets, stored, sealed, loading->err);
}

int secrets_load(struct secrets *secrets, struct store *store, struct error *err)
{
    struct loading loading = {.secrets = secrets, .err = err};
    forget_all(secrets);
    int rc = store->verbs->list_secrets(store, load_one, &loading, err);
    (void)read_keys(secrets, NULL); /* errors in them are reported when a key is needed */
    if (rc)
        return rc;
    return loading.rc;
}

const struct store_secret *secrets_find(const struct secrets *secrets, const char *tenant,
                                        const char *name)
{
    char key[KEY_MAX];
    if (strlen(tenant) > STORE_TENANT_MAX || strlen(name) > STORE_SECRET_NAME_MAX)
        return NULL;
    key_of(tenant, name, key);
    return strmap_get(&secrets->all, key);
}

const struct store_secret *secrets_first(const struct secrets *secrets)
{
    struct map_entry *e = strmap_first(&secrets->all);
    return e ? e->value : NULL;
}

const struct store_secret *secrets_next(const struct secrets *secrets,
                                        const struct store_secret *secret)
{
    char key[KEY_MAX];
    key_of(secret->tenant, secret->name, key);
    struct map_entry *e = map_next(strmap_find(&secrets->all, key));
    return e ? e->value : NULL;
}

int secrets_count(const struct secrets *secrets, const char *tenant)
{
    int count = 0;
    for (struct map_entry *e = strmap_first(&secrets->all); e; e = map_next(e)) {
        if (strcmp(((const struct secret *)e->value)->facts.tenant, tenant) == 0)
            count++;
    }
    return count;
}

bool secrets_lost(const struct secrets *secrets, const struct store_secret *secret)
{
    struct seal_text sealed = sealed_of(secret);
    return !seal_has_key(&secrets->keys, &sealed);
}

int secrets_lost_count(const struct secrets *secrets)
{
    int count = 0;
    for (struct map_entry *e = strmap_first(&secrets->all); e; e = map_next(e))
        count += secrets_lost(secrets, &((const struct secret *)e->value)->facts);
    return count;
}

void secrets_read_missing_keys(struct secrets *secrets)
{
    if (secrets_lost_count(secrets) > 0)
        (void)read_keys(secrets, NULL);
}

const char *secrets_key_place(const struct secrets *secrets)
{
    return secrets->from_environment ? "MUSTER_SECRETS_KEY" : secrets->path;
}

static int key_missing(const struct secrets *secrets, int count, struct error *err)
{
    error_set(err, E_FAILED_PRECONDITION,
              "%d secret%s here cannot be opened: %.200s has not the key that sealed %s", count,
              str_plural(count), secrets_key_place(secrets), count == 1 ? "it" : "them");
    error_hint(err, "put the key back (backups are without it); if it is lost, "
                    "`muster secret rekey --drop-lost` removes them, and they can be set again");
    return E_FAILED_PRECONDITION;
}

/* 0 if all keys are here; otherwise the error names the lost ones. */
static int have_keys(struct secrets *secrets, struct error *err)
{
    struct error why = {0};
    int rc = read_keys(secrets, &why), lost = secrets_lost_count(secrets);
    if (rc && rc != E_NOT_FOUND) {
        *err = why;
        return rc;
    }
    return lost ? key_missing(secrets, lost, err) : 0;
}

/* The new key is put before the others. */
static int add_key(struct secrets *secrets, struct error *err)
{
    struct seal_keys keys = secrets->keys;
    bool first = keys.count == 0;
    int rc = seal_keys_add(&keys, &secrets->env->rng, err);
    if (!rc)
        rc = first ? seal_keys_create(secrets->path, &keys, err)
                   : seal_keys_replace(&secrets->env->disk, secrets->path, &keys, err);
    if (!rc)
        secrets->keys = keys;
    seal_keys_fini(&keys);
    if (rc)
        return error_wrap(err, "the key for secrets");
    return 0;
}

static int seal_value(struct secrets *secrets, struct store_secret *facts,
                      const struct seal_text *value, uint8_t **ret, struct error *err)
{
    char text[KEY_MAX];
    struct buf out;
    struct seal_text name = seal_name(facts, text);
    buf_init(&out, VALUE_ROOM_BYTES);
    int rc = seal(&secrets->keys, &secrets->env->rng, &name, value, &out, err);
    *ret = rc ? NULL : (uint8_t *)buf_take(&out, &facts->sealed_bytes);
    buf_fini(&out);
    return !rc && !*ret ? out_of_memory(err) : rc;
}

int secrets_set(struct secrets *secrets, const struct secret_input *input, struct error *err)
{
    const struct store_secret *known = secrets_find(secrets, input->tenant, input->name);
    struct store_secret facts = known ? *known : (struct store_secret){0};
    struct seal_text value = {input->value, strlen(input->value)};
    uint8_t *sealed = NULL;
    if (!known) {
        (void)str_copy(facts.tenant, sizeof(facts.tenant), input->tenant);
        (void)str_copy(facts.name, sizeof(facts.name), input->name);
        (void)str_copy(facts.created_by, sizeof(facts.created_by), input->by);
        facts.created_wall_ms = input->wall_ms;
    }
    (void)str_copy(facts.changed_by, sizeof(facts.changed_by), input->by);
    facts.changed_wall_ms = input->wall_ms;
    int rc = have_keys(secrets, err);
    if (!rc && secrets->keys.count == 0)
        rc = add_key(secrets, err);
    if (!rc)
        rc = seal_value(secrets, &facts, &value, &sealed, err);
    if (rc)
        return rc;
    return put_secret(secrets, &facts, sealed, err);
}

bool secrets_remove(struct secrets *secrets, const char *tenant, const char *name)
{
    char key[KEY_MAX];
    key_of(tenant, name, key);
    struct secret *secret = strmap_remove(&secrets->all, key);
    secret_free(secret);
    return secret;
}

int secrets_open(struct secrets *secrets, const struct store_secret *secret, struct buf *out,
                 struct error *err)
{
    char text[KEY_MAX];
    struct seal_text name = seal_name(secret, text), sealed = sealed_of(secret);
    if (secrets_lost(secrets, secret))
        secrets_read_missing_keys(secrets);
    if (secrets_lost(secrets, secret))
        return key_missing(secrets, secrets_lost_count(secrets), err);
    int rc = seal_open(&secrets->keys, &name, &sealed, out, err);
    if (rc) {
        (void)error_wrap(err, "secret '%s' of tenant %s", secret->name, secret->tenant);
        error_hint(err, "set it again: muster secret set %.63s --tenant %.63s", secret->name,
                   secret->tenant);
    }
    return rc;
}

uint64_t secrets_revision(const struct store_secret *secret)
{
    return ((const struct secret *)secret)->revision;
}

void secrets_used(const struct store_secret *secret, int64_t wall_ms)
{
    ((struct secret *)(uintptr_t)secret)->facts.used_wall_ms = wall_ms;
}

void secrets_flush_uses(struct secrets *secrets, store_secret_fn fn, void *arg)
{
    for (struct map_entry *e = strmap_first(&secrets->all); e; e = map_next(e)) {
        struct secret *secret = e->value;
        if (secret->facts.used_wall_ms == secret->stored_use_wall_ms)
            continue;
        secret->stored_use_wall_ms = secret->facts.used_wall_ms;
        fn(arg, &secret->facts);
    }
}

/* Seal with the first key; the value and therefore the revision do not change. */
static int seal_again(struct secrets *secrets, struct secret *secret, struct error *err)
{
    struct buf value;
    uint8_t *sealed = NULL;
    buf_init(&value, VALUE_ROOM_BYTES);
    int rc = secrets_open(secrets, &secret->facts, &value, err);
    struct seal_text plain = {buf_cstr(&value), value.size};
    if (!rc)
        rc = seal_value(secrets, &secret->facts, &plain, &sealed, err);
    if (value.data)
        explicit_bzero(value.data, value.size);
    buf_fini(&value);
    if (rc)
        return rc;
    free(secret->sealed);
    secret->sealed = sealed;
    secret->facts.sealed = sealed;
    return 0;
}

static int check_opens(struct secrets *secrets, const struct store_secret *secret,
                       struct error *err)
{
    struct buf value;
    buf_init(&value, VALUE_ROOM_BYTES);
    int rc = secrets_open(secrets, secret, &value, err);
    if (value.data)
        explicit_bzero(value.data, value.size);
    buf_fini(&value);
    return rc;
}

bool secrets_opens(struct secrets *secrets, const struct store_secret *secret)
{
    struct error err = {0};
    return !check_opens(secrets, secret, &err);
}

static int check_all_open(struct secrets *secrets, struct error *err)
{
    int rc = have_keys(secrets, err);
    for (struct map_entry *e = strmap_first(&secrets->all); !rc && e; e = map_next(e))
        rc = check_opens(secrets, &((const struct secret *)e->value)->facts, err);
    return rc;
}

int secrets_rekey(struct secrets *secrets, struct error *err)
{
    int rc = check_all_open(secrets, err);
    if (!rc && !secrets->from_environment)
        rc = add_key(secrets, err);
    for (struct map_entry *e = strmap_first(&secrets->all); !rc && e; e = map_next(e))
        rc = seal_again(secrets, e->value, err);
    return rc;
}

void secrets_rekeyed(struct secrets *secrets)
{
    struct seal_keys keys = secrets->keys;
    if (secrets->from_environment || keys.count < 2)
        return;
    seal_keys_keep_first(&keys);
    if (!seal_keys_replace(&secrets->env->disk, secrets->path, &keys, NULL))
        secrets->keys = keys;
    seal_keys_fini(&keys);
}
