#include "coordinator/api_rpc/board.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/map.h"
#include "common/base/str.h"

struct generation {        /* what one generation of one job holds */
    struct strmap entries; /* key -> struct entry */
    size_t bytes;
};

struct entry {
    size_t size;
    uint8_t data[];
};

struct notes { /* of one job */
    struct map generations;
};

struct board {
    struct strmap jobs; /* job id -> struct notes */
};

int board_new(struct board **ret, struct error *err)
{
    *ret = calloc(1, sizeof **ret);
    return *ret ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
}

static void generation_free(struct generation *generation)
{
    for (struct map_entry *e = strmap_first(&generation->entries); e; e = map_next(e))
        free(e->value);
    strmap_fini(&generation->entries);
    free(generation);
}

static void notes_forget(struct notes *notes, uint64_t oldest)
{
    for (struct map_entry *e = map_first(&notes->generations); e && e->key < oldest;
         e = map_first(&notes->generations))
        generation_free(map_remove(&notes->generations, e->key));
}

void board_forget(struct board *board, const char *job, uint64_t oldest)
{
    struct notes *notes = strmap_get(&board->jobs, job);
    if (!notes)
        return;
    notes_forget(notes, oldest);
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
        notes_forget(notes, UINT64_MAX);
        free(notes);
    }
    strmap_fini(&board->jobs);
    free(board);
}

static struct generation *find(const struct board *board, const struct board_place *place)
{
    struct notes *notes = strmap_get(&board->jobs, place->job);
    return notes ? map_get(&notes->generations, place->generation) : NULL;
}

static struct generation *find_or_add(struct board *board, const struct board_place *place)
{
    struct notes *notes = strmap_get(&board->jobs, place->job);
    if (!notes) {
        notes = calloc(1, sizeof *notes);
        if (!notes || strmap_set(&board->jobs, place->job, notes, NULL) < 0) {
            free(notes);
            return NULL;
        }
    }
    struct generation *generation = map_get(&notes->generations, place->generation);
    if (!generation) {
        generation = calloc(1, sizeof *generation);
        if (!generation || map_set(&notes->generations, place->generation, generation, NULL) < 0) {
            free(generation);
            return NULL;
        }
    }
    return generation;
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
    size_t before = old ? key_size + old->size : 0, after = key_size + value->size;
    if (generation->bytes - before + after > BOARD_JOB_MAX_BYTES)
        return error_set(err, E_RESOURCE_EXHAUSTED, "board: more than %d bytes in one generation",
                         BOARD_JOB_MAX_BYTES);
    struct entry *entry = malloc(sizeof *entry + value->size);
    if (!entry || strmap_set(&generation->entries, place->key, entry, NULL) < 0) {
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
    const struct generation *generation = find(board, place);
    const struct entry *entry = generation ? strmap_get(&generation->entries, place->key) : NULL;
    if (!entry)
        return false;
    *ret = (struct board_value){.data = entry->data, .size = entry->size};
    return true;
}
