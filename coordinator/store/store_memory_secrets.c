#include "coordinator/store/store_memory_secrets.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"

enum { KEY_MAX = STORE_TENANT_MAX + STORE_SECRET_NAME_MAX + 2 };

static void key_of(const struct store_secret *secret, char ret[KEY_MAX])
{
    insist(!str_printf(ret, KEY_MAX, "%s/%s", secret->tenant, secret->name));
}

/* One allocation with the sealed value at its end. */
struct store_secret *store_memory_secret_copy(const struct store_secret *from)
{
    struct store_secret *copy = malloc(sizeof(*copy) + from->sealed_bytes);
    if (!copy)
        return NULL;
    *copy = *from;
    if (from->sealed_bytes)
        memcpy(copy + 1, from->sealed, from->sealed_bytes);
    copy->sealed = (const uint8_t *)(copy + 1);
    return copy;
}

int store_memory_apply_secret(struct store_memory *self, struct store_secret *secret, bool gone)
{
    char key[KEY_MAX];
    void *old = NULL;
    int rc = 0;
    key_of(secret, key);
    if (gone) {
        free(strmap_remove(&self->secrets, key));
        free(secret);
        return 0;
    }
    rc = strmap_set(&self->secrets, key, secret, &old);
    free(rc ? secret : old);
    return rc;
}

void store_memory_copy_secrets(const struct store_memory *from, struct store_memory *to)
{
    for (struct map_entry *e = strmap_first(&from->secrets); e; e = map_next(e)) {
        struct store_secret *copy = store_memory_secret_copy(e->value);
        insist(copy && !strmap_set(&to->secrets, e->name, copy, NULL));
    }
}

void store_memory_free_secrets(struct store_memory *self)
{
    strmap_free_values(&self->secrets);
}

int store_memory_list_secrets(struct store *store, store_secret_fn fn, void *arg, struct error *err)
{
    struct store_memory *self = self_of(store);
    (void)err;
    for (struct map_entry *e = strmap_first(&self->secrets); e; e = map_next(e))
        fn(arg, e->value);
    return 0;
}
