/* Trees that a program builds or changes (tree.h). A tree under construction belongs to one thread.
 */
#ifndef BASE_TREE_BUILD_H
#define BASE_TREE_BUILD_H

#include "common/base/arena.h"
#include "common/base/tree.h"

/* Builders. NULL when the arena is full; a NULL value makes tree_map_set and tree_list_add fail, so
 * only the outermost call needs a check. Texts are copied into the arena. */
struct tree *tree_null(struct arena *arena);
struct tree *tree_bool(struct arena *arena, bool value);
struct tree *tree_integer(struct arena *arena, int64_t value);
struct tree *tree_number(struct arena *arena, double value);
struct tree *tree_string(struct arena *arena, const char *value); /* a null node of NULL */
struct tree *tree_list(struct arena *arena);
struct tree *tree_map(struct arena *arena);

/* Set or replace a key (in place); append. `value` must be in no tree yet. E_RESOURCE_EXHAUSTED if
 * value is NULL or the arena is full. */
int tree_map_set(struct arena *arena, struct tree *map, const char *key, struct tree *value);
int tree_list_add(struct tree *list, struct tree *value);
int tree_map_remove(struct tree *map, const char *key); /* E_NOT_FOUND */

struct tree *tree_copy(struct arena *arena, const struct tree *node);

#endif
