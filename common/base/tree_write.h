/* Trees as text (tree.h): JSON and YAML. Any thread; the tree is only read. */
#ifndef BASE_TREE_WRITE_H
#define BASE_TREE_WRITE_H

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/base/tree.h"

enum tree_style { TREE_COMPACT, TREE_PRETTY };

/* Append JSON. Doubles take the shortest form that reads back equal; NaN and infinities are the
 * strings "NaN", "Infinity", "-Infinity" as in proto3 JSON. Invalid UTF-8 in a built tree is
 * E_INVALID_ARGUMENT; a full buffer is E_RESOURCE_EXHAUSTED. Deeper than 64 is refused. */
int tree_write_json(const struct tree *node, enum tree_style style, struct buf *out,
                    struct error *err);

/* Append block-style YAML that reads back equal; `.nan` and `.inf` for values that JSON does not
 * have. Keys with more than TREE_YAML_KEY_MAX characters are E_INVALID_ARGUMENT: YAML 1.2 section
 * 7.4.2 allows readers to refuse those from 1024 on. */
int tree_write_yaml(const struct tree *node, struct buf *out, struct error *err);

enum { TREE_WRITE_DEPTH_MAX = 64, TREE_YAML_KEY_MAX = 1000 };

#endif
