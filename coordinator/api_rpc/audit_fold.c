#include "coordinator/api_rpc/audit_fold.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/map.h"
#include "common/base/str.h"

struct fold {
    struct store_audit last;
    int seen, free; /* number of them with entries of their own */
};

struct audit_folds {
    struct strmap all; /* -> struct fold */
    int strangers;
};

int audit_folds_new(struct audit_folds **ret, struct error *err)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
}

static void clear_folds(struct audit_folds *folds)
{
    strmap_free_values(&folds->all);
    folds->strangers = 0;
}

void audit_folds_free(struct audit_folds *folds)
{
    if (folds)
        clear_folds(folds);
    free(folds);
}

static bool worked(const struct store_audit *entry)
{
    return strcmp(entry->result, "OK") == 0;
}

static bool is_trusted(const struct store_audit *entry)
{
    return strcmp(entry->role, "admin") == 0 || strcmp(entry->role, "operator") == 0;
}

/* Agents share tokens, so they are distinguished by node. */
static void key_of(const struct audit_folds *folds, const struct store_audit *entry,
                   char ret[STORE_AUDIT_KEY_MAX])
{
    bool stranger = !entry->token[0], agent = strcmp(entry->role, "agent") == 0;
    (void)str_printf(ret, STORE_AUDIT_KEY_MAX, "%s\n%s\n%s\n%.63s",
                     stranger ? entry->peer : entry->token, stranger ? "" : entry->method,
                     entry->result, agent ? entry->object : "");
    if (strmap_get(&folds->all, ret))
        return;
    if (stranger && folds->strangers >= AUDIT_STRANGERS_MAX)
        (void)str_copy(ret, STORE_AUDIT_KEY_MAX, "strangers");
    else if (strmap_count(&folds->all) >= AUDIT_FOLDS_MAX)
        (void)str_copy(ret, STORE_AUDIT_KEY_MAX, "others");
}

bool audit_fold(struct audit_folds *folds, const struct store_audit *entry)
{
    char key[STORE_AUDIT_KEY_MAX];
    if (worked(entry) && is_trusted(entry))
        return false;
    key_of(folds, entry, key);
    struct fold *fold = strmap_get(&folds->all, key);
    if (!fold) {
        fold = calloc(1, sizeof(*fold));
        if (!fold || strmap_set(&folds->all, key, fold, NULL)) {
            free(fold);
            return false;
        }
        fold->free = worked(entry) ? AUDIT_CHANGES_FREE : 1;
        if (!entry->token[0])
            folds->strangers++;
    }
    fold->last = *entry;
    return ++fold->seen > fold->free;
}

bool audit_folds_any(const struct audit_folds *folds)
{
    return strmap_count(&folds->all) > 0;
}

void audit_folds_flush(struct audit_folds *folds, int64_t wall_ms, store_audit_fn fn, void *arg)
{
    for (struct map_entry *e = strmap_first(&folds->all); e; e = map_next(e)) {
        const struct fold *fold = e->value;
        struct store_audit entry = fold->last;
        if (fold->seen <= fold->free)
            continue;
        entry.wall_ms = wall_ms;
        (void)str_printf(entry.text, sizeof(entry.text),
                         "%d more like it within a minute; the last: %.160s",
                         fold->seen - fold->free, fold->last.text);
        fn(arg, &entry);
    }
    clear_folds(folds);
}
