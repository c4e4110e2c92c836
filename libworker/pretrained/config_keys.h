/* Reading the keys of a config.json. A key that is absent or null has its fallback. Each call
 * returns 0, WK_EIO for a value that cannot be, or WK_EUNSUPPORTED for one that these models do not
 * compute, with a sentence that begins with the key. Pure. */
#ifndef PRETRAINED_CONFIG_KEYS_H
#define PRETRAINED_CONFIG_KEYS_H

#include "common/base/error.h"
#include "common/base/tree.h"

/* NULL where the key is absent or null. */
const struct tree *config_get(const struct tree *root, const char *key);

/* A size above 0; `fallback` 0 makes the key necessary. */
int config_size(const struct tree *root, const char *key, int fallback, int *ret,
                struct error *err);

struct config_size {
    const char *key; /* NULL ends a list */
    int *ret;
};
int config_sizes(const struct tree *root, const struct config_size *list, struct error *err);

/* *ret keeps its value without the key. */
int config_number(const struct tree *root, const char *key, double *ret, struct error *err);
int config_bool(const struct tree *root, const char *key, bool *ret, struct error *err);

/* Keys that may only have one value. */
struct config_wanted {
    const char *key; /* NULL ends a list */
    bool value;
};
int config_want_bools(const struct tree *root, const struct config_wanted *list, struct error *err);
int config_want_text(const struct tree *root, const char *key, const char *wanted,
                     struct error *err);
int config_want_size(const struct tree *root, const char *key, int64_t wanted, struct error *err);

/* Refuse keys of other families that change what is computed, unless their value switches them
 * off. */
int config_refuse_others(const struct tree *root, struct error *err);

#endif
