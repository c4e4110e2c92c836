/* One tree for JSON and YAML: the content of a spec, a REST body or a config file, with lines and
 * columns. Keys keep their order. Duplicate keys, NUL characters, invalid UTF-8 and everything
 * beyond the limits are refused, each with its place.
 *
 * A byte order mark at the start is skipped. JSON is RFC 8259, strict. YAML is one document of YAML
 * 1.2 core: plain `true`, `12`, `0x1f`, `1.5`, `.inf`, `null`, `~` have their usual types; `no`,
 * `yes`, `on` and everything quoted are strings. Anchors, aliases, tags, merge keys and further
 * documents are refused. Integers are 64-bit signed; larger ones are refused, not rounded.
 *
 * Nodes and texts are in the arena they were parsed into or built in, and belong to its owner. A
 * parsed tree is read-only; a tree under construction belongs to one thread.
 */
#ifndef BASE_TREE_H
#define BASE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"

enum tree_kind {
    TREE_NULL,
    TREE_BOOL,
    TREE_INTEGER,
    TREE_NUMBER,
    TREE_STRING,
    TREE_LIST,
    TREE_MAP,
};

struct tree {
    enum tree_kind kind;
    int line, column; /* from 1; 0 when built and not parsed */
    const char *key;  /* in a map; else NULL */
    struct tree *parent, *next;
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *string; /* valid UTF-8 if parsed, never NULL */
        struct {            /* list and map */
            struct tree *first, *last;
            size_t count;
        };
    };
};

struct tree_limits { /* 0 means the default */
    size_t bytes;
    int depth; /* at most TREE_WRITE_DEPTH_MAX */
    size_t nodes;
};

enum {
    TREE_DEFAULT_BYTES = 1 << 20,
    TREE_DEFAULT_DEPTH = 32,
    TREE_DEFAULT_NODES = 100000,
};

struct tree_input {
    const char *name; /* shown in errors: "job.yaml:3:7: ..."; NULL shows "line 3, column 7: ..." */
    const char *text; /* need not be NUL-terminated */
    size_t size;
    struct tree_limits limits;
};

/* E_INVALID_ARGUMENT with the place, E_RESOURCE_EXHAUSTED beyond a limit or without memory. An
 * empty YAML document is a null node; empty JSON is an error. */
int tree_parse_json(const struct tree_input *input, struct arena *arena, struct tree **ret,
                    struct error *err);
int tree_parse_yaml(const struct tree_input *input, struct arena *arena, struct tree **ret,
                    struct error *err);

/* True if it should be read as JSON: it begins with a brace. */
bool tree_looks_like_json(const char *text, size_t size);

/* "null", "a boolean", "an integer", "a number", "a string", "a list", "a map". */
const char *tree_kind_name(enum tree_kind kind);

/* A child by key, NULL if absent or `map` is not a map (NULL included). */
struct tree *tree_get(const struct tree *map, const char *key);
struct tree *tree_at(const struct tree *list, size_t index);

/* "nodes.min", "command[0]"; "" is the root itself. NULL if any step is absent. A key with a dot
 * cannot be reached this way; use tree_get. */
struct tree *tree_find(const struct tree *root, const char *path);

/* The path of a node from its root, in the same notation; returns `ret`, cut if it is too long. */
const char *tree_path(const struct tree *node, char *ret, size_t size);

/* First child; NULL if there is none or `node` cannot have any. */
static inline struct tree *tree_first(const struct tree *node)
{
    return node->kind == TREE_LIST || node->kind == TREE_MAP ? node->first : NULL;
}

/* For all children in order. */
#define tree_each(child, node) for ((child) = tree_first(node); (child); (child) = (child)->next)

/* Typed reads that fill `err` with the place, the path (err->field) and what was expected. An
 * integer is accepted as a number. */
int tree_read_bool(const struct tree *node, bool *ret, struct error *err);
int tree_read_i64(const struct tree *node, int64_t *ret, struct error *err);
int tree_read_f64(const struct tree *node, double *ret, struct error *err);
int tree_read_string(const struct tree *node, const char **ret, struct error *err);

/* E_INVALID_ARGUMENT with "line L, column C: <sentence>" (if parsed), the node's path as field. */
int tree_fail(const struct tree *node, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Same kinds and values; maps compare without regard to order; 1 and 1.0 differ. */
bool tree_equal(const struct tree *a, const struct tree *b);

#endif
