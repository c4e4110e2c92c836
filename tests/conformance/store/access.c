/* Tokens, tenants, words and the audit trail: kept, replaced, numbered. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/base/str.h"
#include "coordinator/store/meta.h"
#include "tests/conformance/store/suite.h"

static void see_token(void *arg, const struct store_token *token)
{
    struct store_token *ret = arg;
    *ret = *token;
}

void tokens_and_words_stay(struct store_world *world)
{
    struct store_token token = {.role = "admin", .created_wall_ms = 7}, found = {0};
    char value[STORE_META_VALUE_MAX + 1];
    memset(token.hash, 0xab, sizeof(token.hash));
    const struct store_verbs *verbs = world->store->verbs;
    cr_assert_eq(verbs->get_meta(world->store, "word", value, NULL), E_NOT_FOUND);
    store_world_begin(world);
    verbs->put_token(world->store, &token, NULL);
    verbs->put_meta(world->store, "word", "first", NULL);
    verbs->put_meta(world->store, "word", "second", NULL);
    store_world_commit(world);
    world->reopen(world);
    verbs = world->store->verbs;
    cr_assert_eq(verbs->get_meta(world->store, "word", value, NULL), 0);
    cr_assert_str_eq(value, "second");
    cr_assert_eq(verbs->list_tokens(world->store, see_token, &found, NULL), 0);
    cr_assert_eq(memcmp(found.hash, token.hash, sizeof(token.hash)), 0);
    cr_assert_str_eq(found.role, "admin");
}

static void see_tenant(void *arg, const struct store_tenant *tenant)
{
    struct store_tenant *ret = arg;
    if (strcmp(tenant->name, "vision") == 0)
        *ret = *tenant;
}

static void count_token(void *arg, const struct store_token *token)
{
    (void)token;
    ++*(int *)arg;
}

void tokens_and_tenants_are_replaced_not_doubled(struct store_world *world)
{
    const struct store_verbs *verbs = world->store->verbs;
    struct store_tenant tenant = {.name = "vision", .weight = 2, .created_wall_ms = 5}, seen = {0};
    struct store_token token = {.id = "abababababab", .name = "ci", .role = "member"}, found = {0};
    (void)str_copy(token.tenant, sizeof(token.tenant), "vision");
    token.expires_wall_ms = 99;
    memset(token.hash, 0xab, sizeof(token.hash));
    store_world_begin(world);
    verbs->put_token(world->store, &token, NULL);
    verbs->put_tenant(world->store, &tenant, NULL);
    store_world_commit(world);
    token.revoked_wall_ms = 50;
    token.used_wall_ms = 40;
    token.uses = 3;
    token.uses_max = 20;
    tenant.weight = 3;
    tenant.guaranteed_slots = 8;
    tenant.limit_slots = 16;
    store_world_begin(world);
    verbs->put_token(world->store, &token, NULL);
    verbs->put_tenant(world->store, &tenant, NULL);
    store_world_commit(world);
    world->reopen(world);
    verbs = world->store->verbs;
    int count = 0;
    cr_assert_eq(verbs->list_tokens(world->store, count_token, &count, NULL), 0);
    cr_assert_eq(count, 1);
    cr_assert_eq(verbs->list_tokens(world->store, see_token, &found, NULL), 0);
    cr_assert_str_eq(found.id, "abababababab");
    cr_assert_str_eq(found.name, "ci");
    cr_assert_str_eq(found.tenant, "vision");
    cr_assert(found.expires_wall_ms == 99 && found.revoked_wall_ms == 50);
    cr_assert_eq(found.used_wall_ms, 40);
    cr_assert(found.uses == 3 && found.uses_max == 20);
    cr_assert_eq(verbs->list_tenants(world->store, see_tenant, &seen, NULL), 0);
    cr_assert(seen.weight == 3 && seen.guaranteed_slots == 8 && seen.limit_slots == 16);
    cr_assert_eq(seen.created_wall_ms, 5);
}

struct secrets {
    int count;
    struct store_secret all[4];
    uint8_t sealed[4][8];
};

static void see_secret(void *arg, const struct store_secret *secret)
{
    struct secrets *ret = arg;
    cr_assert_leq(secret->sealed_bytes, sizeof(ret->sealed[0]));
    memcpy(ret->sealed[ret->count], secret->sealed, secret->sealed_bytes);
    ret->all[ret->count++] = *secret;
}

static struct secrets secrets_of(struct store_world *world)
{
    struct secrets ret = {0};
    cr_assert_eq(world->store->verbs->list_secrets(world->store, see_secret, &ret, NULL), 0);
    return ret;
}

static void put_secret(struct store_world *world, const char *tenant, const char *name,
                       const char *sealed)
{
    struct store_secret secret = {.created_by = "ann", .changed_by = "bob"};
    (void)str_copy(secret.tenant, sizeof(secret.tenant), tenant);
    (void)str_copy(secret.name, sizeof(secret.name), name);
    secret.created_wall_ms = 3;
    secret.changed_wall_ms = 4;
    secret.used_wall_ms = 5;
    secret.sealed = (const uint8_t *)sealed;
    secret.sealed_bytes = strlen(sealed);
    cr_assert_eq(world->store->verbs->put_secret(world->store, &secret, NULL), 0);
}

/* The same name in two tenants are two secrets; what is undone was never there. */
void secrets_are_replaced_and_removed(struct store_world *world)
{
    store_world_begin(world);
    put_secret(world, "vision", "hf", "one");
    put_secret(world, "audio", "hf", "other");
    put_secret(world, "vision", "wandb", "w");
    store_world_commit(world);
    store_world_begin(world);
    put_secret(world, "vision", "hf", "two\xff");
    cr_assert_eq(world->store->verbs->remove_secret(world->store, "vision", "wandb", NULL), 0);
    cr_assert_eq(world->store->verbs->remove_secret(world->store, "vision", "absent", NULL), 0);
    store_world_commit(world);
    store_world_begin(world);
    put_secret(world, "vision", "hf", "three");
    cr_assert_eq(world->store->verbs->remove_secret(world->store, "audio", "hf", NULL), 0);
    world->store->verbs->rollback(world->store);
    world->reopen(world);
    struct secrets seen = secrets_of(world);
    cr_assert_eq(seen.count, 2);
    cr_assert_str_eq(seen.all[0].tenant, "audio");
    cr_assert_str_eq(seen.all[1].tenant, "vision");
    cr_assert_str_eq(seen.all[1].name, "hf");
    cr_assert_str_eq(seen.all[1].created_by, "ann");
    cr_assert_str_eq(seen.all[1].changed_by, "bob");
    cr_assert(seen.all[1].created_wall_ms == 3 && seen.all[1].changed_wall_ms == 4);
    cr_assert_eq(seen.all[1].used_wall_ms, 5);
    cr_assert(seen.all[1].sealed_bytes == 4 && memcmp(seen.sealed[1], "two\xff", 4) == 0);
}

struct entries {
    int count;
    uint64_t seqs[8];
    struct store_audit last;
};

static void see_entry(void *arg, const struct store_audit *entry)
{
    struct entries *ret = arg;
    ret->seqs[ret->count++] = entry->seq;
    ret->last = *entry;
}

static struct entries audit(struct store_world *world, struct store_events_query query)
{
    struct entries ret = {0};
    cr_assert_eq(world->store->verbs->list_audit(world->store, &query, see_entry, &ret, NULL), 0);
    return ret;
}

void the_audit_trail_is_numbered_without_gaps(struct store_world *world)
{
    struct store_audit entry = {.wall_ms = 7, .token_name = "ci", .method = "CancelJob"};
    for (int i = 0; i < 3; i++) {
        store_world_begin(world);
        cr_assert_eq(world->store->verbs->put_audit(world->store, &entry, NULL), 0);
        if (i == 1)
            world->store->verbs->rollback(world->store);
        else
            store_world_commit(world);
    }
    world->reopen(world);
    (void)str_copy(entry.object, sizeof(entry.object), "j7");
    store_world_begin(world);
    cr_assert_eq(world->store->verbs->put_audit(world->store, &entry, NULL), 0);
    store_world_commit(world);
    struct entries all = audit(world, (struct store_events_query){.limit = 8});
    cr_assert(all.count == 3 && all.seqs[0] == 1 && all.seqs[1] == 2 && all.seqs[2] == 3);
    cr_assert_str_eq(all.last.object, "j7");
    cr_assert_str_eq(all.last.token_name, "ci");
    struct entries newest = audit(world, (struct store_events_query){.limit = 2, .newest = true});
    cr_assert(newest.count == 2 && newest.seqs[0] == 2 && newest.seqs[1] == 3);
    cr_assert_eq(audit(world, (struct store_events_query){.after = 2, .limit = 8}).count, 1);
}
