#include "coordinator/api_rpc/board.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/map.h"
#include "common/base/str.h"
#include "coordinator/model/cluster.h"

struct generation {        /* entries of one generation of one job */
    struct strmap entries; /* key -> struct entry */
    size_t bytes;
};

struct entry {
    size_t size;
    uint8_t data[];
};

struct notes { /* of one job */
    struct map generations;
    char tenant[NAME_LENGTH_MAX + 1];
};

struct board {
    struct strmap jobs;    /* job id -> struct notes */
    struct strmap tenants; /* name -> bytes of its jobs, as a pointer-sized number */
};

int board_new(struct board **ret, struct error *err)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
}

static void generation_free(struct generation *generation)
{
    strmap_free_values(&generation->entries);
    free(generation);
}

static size_t tenant_bytes(const struct board *board, const char *tenant)
{
    return (size_t)(uintptr_t)strmap_get(&board->tenants, tenant);
}

static int tenant_count(struct board *board, const char *tenant, size_t bytes)
{
    return strmap_set(&board->tenants, tenant, (void *)(uintptr_t)bytes, NULL);
}

static void notes_forget(struct board *board, struct notes *notes, uint64_t oldest)
{
    size_t bytes = tenant_bytes(board, notes->tenant), before = bytes;
    for (struct map_entry *e = map_first(&notes->generations); e && e->key < oldest;
         e = map_first(&notes->generations)) {
        bytes -= ((struct generation *)e->value)->bytes;
        generation_free(map_remove(&notes->generations, e->key));
    }
    if (bytes == 0)
        strmap_remove(&board->tenants, notes->tenant);
    else if (bytes != before)
        (void)tenant_count(board, notes->tenant, bytes); /* it exists, so no memory is needed */
}

void board_forget(struct board *board, const char *job, uint64_t oldest)
{
    struct notes *notes = strmap_get(&board->jobs, job);
    if (!notes)
        return;
    notes_forget(board, notes, oldest);
    if (notes->generations.count == 0) {
        strmap_remove(&board->jobs, job);
        free(notes);
    }
}

void board_free(struct board *board)
{
    if (!board)
        return;
    for (struct map_entry *e = strmap_first(&board->jobs); e; e = map_next(e)) {
        struct notes *notes = e->value;
        notes_forget(board, notes, UINT64_MAX);
        free(notes);
    }
    strmap_fini(&board->jobs);
    strmap_fini(&board->tenants);
    free(board);
}

static struct generation *find_generation(const struct board *board,
                                          const struct board_place *place)
{
    struct notes *notes = strmap_get(&board->jobs, place->job);
    return notes ? map_get(&notes->generations, place->generation) : NULL;
}

static struct generation *find_or_add(struct board *board, const struct board_place *place)
{
    struct notes *notes = strmap_get(&board->jobs, place->job);
    if (!notes) {
        notes = calloc(1, sizeof(*notes));
        if (!notes || strmap_set(&board->jobs, place->job, notes, NULL)) {
            free(notes);
            return NULL;
        }
        (void)str_copy(notes->tenant, sizeof(notes->tenant), place->tenant);
    }
    struct generation *generation = map_get(&notes->generations, place->generation);
    if (!generation) {
        generation = calloc(1, sizeof(*generation));
        if (!generation || map_set(&notes->generations, place->generation, generation, NULL)) {
            free(generation);
            return NULL;
        }
    }
    return generation;
}

/* Memory used by an entry, also a small one. */
static size_t entry_bytes(size_t key_size, size_t value_size)
{
    return BOARD_ENTRY_BYTES + key_size + value_size;
}

static size_t held_bytes(const struct board *board, const struct board_place *place)
{
    const struct generation *generation = find_generation(board, place);
    const struct entry *old = generation ? strmap_get(&generation->entries, place->key) : NULL;
    return old ? entry_bytes(strlen(place->key), old->size) : 0;
}

bool board_has_room(const struct board *board, const struct board_place *place,
                    const struct board_value *value)
{
    return tenant_bytes(board, place->tenant) - held_bytes(board, place) +
               entry_bytes(strlen(place->key), value->size) <=
           MAX_TENANT_BOARD_BYTES;
}

int board_set(struct board *board, const struct board_place *place, const struct board_value *value,
              struct error *err)
{
    size_t key_size = strlen(place->key);
    if (key_size == 0 || key_size > BOARD_KEY_MAX)
        return error_set(err, E_INVALID_ARGUMENT, "board: a key has 1 to %d bytes", BOARD_KEY_MAX);
    if (value->size > BOARD_VALUE_MAX_BYTES)
        return error_set(err, E_INVALID_ARGUMENT, "board: a value has at most %d bytes",
                         BOARD_VALUE_MAX_BYTES);
    struct generation *generation = find_or_add(board, place);
    if (!generation)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    struct entry *old = strmap_get(&generation->entries, place->key);
    size_t before = held_bytes(board, place), after = entry_bytes(key_size, value->size);
    if (generation->bytes - before + after > BOARD_JOB_MAX_BYTES)
        return limit_refuse(LIMIT_BOARD_BYTES, err);
    struct entry *entry = malloc(sizeof(*entry) + value->size);
    size_t all = tenant_bytes(board, place->tenant) - before + after;
    if (!entry || tenant_count(board, place->tenant, all)) {
        free(entry);
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (strmap_set(&generation->entries, place->key, entry, NULL)) {
        (void)tenant_count(board, place->tenant, all + before - after);
        free(entry);
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    }
    entry->size = value->size;
    if (value->size)
        memcpy(entry->data, value->data, value->size);
    generation->bytes = generation->bytes - before + after;
    free(old);
    return 0;
}

bool board_get(const struct board *board, const struct board_place *place, struct board_value *ret)
{
    const struct generation *generation = find_generation(board, place);
    const struct entry *entry = generation ? strmap_get(&generation->entries, place->key) : NULL;
    if (!entry)
        return false;
    *ret = (struct board_value){.data = entry->data, .size = entry->size};
    return true;
}
