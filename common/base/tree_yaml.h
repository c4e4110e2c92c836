/* The type of a plain scalar in YAML 1.2's core schema. Shared by the reader and by the writer,
 * which must quote every string that would not read back as a string. Private to tree_*.c. */
#ifndef BASE_TREE_YAML_H
#define BASE_TREE_YAML_H

#include "common/base/tree.h"

/* Sets kind and value; the string borrows `text`. E_OUT_OF_RANGE if it is a number too large. */
int tree_yaml_resolve(const char *text, struct tree *value);

#endif
