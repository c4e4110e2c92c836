/* The small JSON maps of run directories. A missing key reads as a default, so files of an older or
 * a newer agent are readable. Any thread. */
#ifndef SUPERVISOR_RECORD_H
#define SUPERVISOR_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/tree.h"

/* 0, "" and false if missing; texts belong to the map. */
int64_t record_number(const struct tree *map, const char *key);
const char *record_text(const struct tree *map, const char *key);
bool record_bool(const struct tree *map, const char *key);

/* A list of texts, NULL-terminated in `arena`; E_DATA_LOSS if it is not a list of texts. */
int record_texts(const struct tree *map, const char *key, struct arena *arena,
                 const char *const **ret);

struct record { /* a map under construction; the first failure counts. Its owner ends the arena */
    struct arena arena;
    struct tree *map;
    int rc;
};

void record_init(struct record *w);
void record_put(struct record *w, const char *key, struct tree *value);
void record_put_number(struct record *w, const char *key, int64_t value);
void record_put_text(struct record *w, const char *key, const char *value);
void record_put_bool(struct record *w, const char *key, bool value);
void record_put_texts(struct record *w, const char *key, const char *const *values);

#endif
