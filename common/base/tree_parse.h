/* Shared by the JSON and the YAML reader: limits, places, duplicate keys. Private to tree_*.c. */
#ifndef BASE_TREE_PARSE_H
#define BASE_TREE_PARSE_H

#include "common/base/tree.h"

struct tree_parse {
    const struct tree_input *input; /* after a byte order mark */
    struct tree_input without_mark;
    struct arena *arena;
    struct error *err;
    struct tree_limits limits; /* with the defaults filled in */
    size_t nodes;
    int depth;
    struct tree *root;
    struct tree *in; /* the list or map being filled; NULL at the top */
};

/* Begin a parse, and check the input: size, UTF-8, NUL characters. Makes no node yet. */
int tree_parse_init(struct tree_parse *parse, const struct tree_input *input, struct arena *arena,
                    struct error *err);

/* E_INVALID_ARGUMENT with "<name>:<line>:<column>: <sentence>". */
int tree_parse_fail(const struct tree_parse *parse, int line, int column, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int tree_parse_out_of_memory(const struct tree_parse *parse);

/* A new node in the open container (or the root); a list or map becomes the open container. */
int tree_parse_add(struct tree_parse *parse, const struct tree *value);

/* Close the open container; refuses a map with a key twice. */
int tree_parse_close(struct tree_parse *parse);

#endif
