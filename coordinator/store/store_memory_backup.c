#include "coordinator/store/store_memory_backup.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/str.h"
#include "coordinator/store/document.h"
#include "coordinator/store/meta.h"
#include "coordinator/store/store_memory.h"
#include "coordinator/store/store_memory_digest.h"
#include "coordinator/store/store_memory_past.h"
#include "coordinator/store/store_memory_secrets.h"

static void *copy_of(const void *bytes, size_t size)
{
    void *copy = malloc(size + 1);
    insist(copy);
    memcpy(copy, bytes, size);
    return copy;
}

static char *text_of(const char *text)
{
    return text ? copy_of(text, strlen(text) + 1) : NULL;
}

static struct document *document_of(const struct document *from)
{
    struct document *document = copy_of(from, sizeof(*from));
    document->text = text_of(from->text);
    document->spec = text_of(from->spec);
    return document;
}

static void copy_numbered(const struct map *from, size_t size, struct map *to)
{
    for (struct map_entry *e = map_first(from); e; e = map_next(e))
        insist(!map_set(to, e->key, copy_of(e->value, size), NULL));
}

static void copy_history(const struct map *from, struct map *to)
{
    for (struct map_entry *e = map_first(from); e; e = map_next(e)) {
        struct change *change = copy_of(e->value, sizeof(*change));
        change->text = text_of(change->text);
        change->spec = text_of(change->spec);
        insist(!map_set(to, e->key, change, NULL));
    }
}

struct store *store_memory_copy(struct store *store)
{
    const struct store_memory *from = self_of(store);
    struct store *made = NULL;
    insist(!store_memory_new(&made, NULL));
    struct store_memory *to = self_of(made);
    for (struct map_entry *e = map_first(&from->jobs); e; e = map_next(e))
        insist(!map_set(&to->jobs, e->key, document_of(e->value), NULL));
    for (struct map_entry *e = strmap_first(&from->nodes); e; e = map_next(e))
        insist(!strmap_set(&to->nodes, e->name, document_of(e->value), NULL));
    for (struct map_entry *e = strmap_first(&from->meta); e; e = map_next(e))
        insist(!strmap_set(&to->meta, e->name, text_of(e->value), NULL));
    copy_numbered(&from->events, sizeof(struct store_event), &to->events);
    copy_numbered(&from->audit, sizeof(struct store_audit), &to->audit);
    copy_numbered(&from->digests, sizeof(uint64_t), &to->digests);
    copy_history(&from->history, &to->history);
    store_memory_copy_secrets(from, to);
    to->tokens_count = from->tokens_count;
    to->tokens = copy_of(from->tokens, sizeof(*from->tokens) * (size_t)from->tokens_count);
    to->tenants_count = from->tenants_count;
    memcpy(to->tenants, from->tenants, sizeof(from->tenants));
    to->digest = from->digest;
    to->last_event = from->last_event;
    to->last_audit = from->last_audit;
    return made;
}

/* The document of the job is another one from now on. */
static void step_over_job(struct store_memory *self, uint64_t sequence, struct document *document)
{
    struct document old = *document;
    struct buf buf;
    buf_init(&buf, DOCUMENT_MAX_BYTES);
    insist(!document_step_over_job(old.text, old.size, &buf, NULL));
    document->text = buf_take(&buf, &document->size);
    insist(document->text);
    buf_fini(&buf);
    if (strcmp(document->text, old.text) != 0)
        store_memory_change_job(self, sequence, &old, document);
    free(old.text);
}

struct store *store_memory_restore(struct store *backup, int64_t wall_ms)
{
    struct store *made = store_memory_copy(backup);
    struct store_memory *self = self_of(made);
    struct map_entry *last = map_last(&self->jobs);
    char text[STORE_META_VALUE_MAX + 1];
    void *old = NULL;
    self->open_event = self->last_event;
    for (struct map_entry *e = map_first(&self->jobs); e; e = map_next(e))
        step_over_job(self, e->key, e->value);
    store_memory_note_digest(self);
    (void)str_printf(text, sizeof(text), "%llu",
                     (unsigned long long)(last ? last->key : 0) + RESTORE_SKIPS_JOBS);
    insist(!strmap_set(&self->meta, STORE_FIRST_JOB_KEY, text_of(text), &old));
    free(old);
    (void)str_printf(text, sizeof(text), "%lld", (long long)wall_ms);
    insist(!strmap_set(&self->meta, STORE_RESTORED_KEY, text_of(text), &old));
    free(old);
    return made;
}
