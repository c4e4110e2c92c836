#include "coordinator/store/store_memory_past.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/str.h"
#include "coordinator/store/document.h"
#include "coordinator/store/meta.h"
#include "coordinator/store/store_memory_digest.h"

static void change_free(struct change *change)
{
    if (change) {
        free(change->text);
        free(change->spec);
        free(change);
    }
}

/* Record a change; the digest covers the whole present state, independent of its history. */
static void record_change(struct store_memory *self, const struct change *value, const char *old)
{
    struct change *copy = malloc(sizeof(*copy));
    insist(copy);
    *copy = *value;
    copy->seq = self->open_event;
    copy->text = strdup(value->text);
    copy->spec = strdup(value->spec);
    insist(copy->text && copy->spec);
    insist(!map_set(&self->history, self->history.count + 1, copy, NULL));
    self->digest ^= store_memory_hash(value->kind, value->key, value->sequence, old);
    self->digest ^= store_memory_hash(value->kind, value->key, value->sequence, value->text);
}

static char no_text[] = "";

void store_memory_change_job(struct store_memory *self, uint64_t sequence,
                             const struct document *old, const struct document *now)
{
    struct change one = {.kind = STORE_PAST_JOB,
                         .sequence = sequence,
                         .text = now ? now->text : no_text,
                         .spec = now || !old ? no_text : old->spec};
    record_change(self, &one, old ? old->text : "");
}

void store_memory_change_named(struct store_memory *self, enum store_past_kind kind,
                               const char *name, const char *old, char *text)
{
    struct change one = {.kind = kind, .text = text ? text : no_text, .spec = no_text};
    (void)str_copy(one.key, sizeof(one.key), name);
    record_change(self, &one, old);
}

char *store_memory_tenant_text(const struct store_tenant *tenant)
{
    struct buf buf;
    size_t size;
    buf_init(&buf, DOCUMENT_MAX_BYTES);
    insist(!document_write_tenant(tenant, &buf, NULL));
    char *text = buf_take(&buf, &size);
    insist(text);
    buf_fini(&buf);
    return text;
}

int store_memory_past_range(struct store *store, int64_t wall_ms, struct store_past_range *ret,
                            struct error *err)
{
    struct store_memory *self = self_of(store);
    (void)err;
    *ret = (struct store_past_range){.last = self->last_event};
    for (struct map_entry *e = map_last(&self->events); e && !ret->at; e = map_previous(e))
        if (((const struct store_event *)e->value)->record.wall_ms <= wall_ms)
            ret->at = e->key;
    return 0;
}

static bool is_behind(const struct change *change, const struct store_past_query *query)
{
    if (query->kind == STORE_PAST_JOB)
        return change->sequence > query->after_sequence;
    return strcmp(change->key, query->after ? query->after : "") > 0;
}

/* The newest change of each key up to the event, by "number/name" so that they are in order. */
static void collect_past(struct store_memory *self, const struct store_past_query *query,
                         struct strmap *ret)
{
    char key[STORE_META_KEY_MAX + 32];
    for (struct map_entry *e = map_first(&self->history); e; e = map_next(e)) {
        struct change *change = e->value;
        if (change->seq > query->seq)
            break;
        if (change->kind != query->kind || !is_behind(change, query))
            continue;
        (void)str_printf(key, sizeof(key), "%020llu/%s", (unsigned long long)change->sequence,
                         change->key);
        insist(!strmap_set(ret, key, change, NULL));
    }
}

static void pass_past(struct store_memory *self, const struct change *change, store_past_fn fn,
                      void *arg)
{
    char *tenant = NULL;
    const struct document *now = change->kind == STORE_PAST_JOB
                                     ? map_get(&self->jobs, change->sequence)
                                     : strmap_get(&self->nodes, change->key);
    struct store_past past = {.name = change->key,
                              .sequence = change->sequence,
                              .document = change->text,
                              .spec = "",
                              .now = now ? now->text : ""};
    if (change->kind == STORE_PAST_JOB)
        past.spec = now ? now->spec : "";
    for (struct map_entry *e = map_last(&self->history);
         e && change->kind == STORE_PAST_JOB && !*past.spec; e = map_previous(e)) {
        const struct change *forgotten = e->value;
        if (forgotten->kind == STORE_PAST_JOB && forgotten->sequence == change->sequence)
            past.spec = forgotten->spec;
    }
    for (int i = 0; i < self->tenants_count && change->kind == STORE_PAST_TENANT && !tenant; i++)
        if (strcmp(self->tenants[i].name, change->key) == 0)
            past.now = tenant = store_memory_tenant_text(&self->tenants[i]);
    fn(arg, &past);
    free(tenant);
}

int store_memory_list_past(struct store *store, const struct store_past_query *query,
                           store_past_fn fn, void *arg, struct error *err)
{
    struct store_memory *self = self_of(store);
    struct strmap newest = {0};
    int left = query->limit;
    insist(query->limit > 0 && query->limit <= STORE_PAST_PAGE_MAX);
    if (query->seq > self->last_event)
        return error_set(err, E_OUT_OF_RANGE, "the state at event %llu cannot be rebuilt",
                         (unsigned long long)query->seq);
    collect_past(self, query, &newest);
    for (struct map_entry *e = strmap_first(&newest); e && left > 0; e = map_next(e), left--)
        pass_past(self, e->value, fn, arg);
    strmap_fini(&newest);
    return 0;
}

void store_memory_past_fini(struct store_memory *self)
{
    for (struct map_entry *e = map_first(&self->history); e; e = map_next(e))
        change_free(e->value);
    map_free_values(&self->digests);
    map_fini(&self->history);
}
