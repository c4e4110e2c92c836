/* Attributes of an operation by name, for people and for ranks that compare their graphs. A row
 * with attributes lists them:
 *
 *     static const struct op_attribute attributes[] = {OP_ATTRIBUTE(struct scale, factor), {0}};
 *
 * Pure.
 */
#ifndef GRAPH_ATTRIBUTE_H
#define GRAPH_ATTRIBUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node;

enum op_attribute_kind {
    ATTRIBUTE_INT,
    ATTRIBUTE_UNSIGNED, /* enums, too */
    ATTRIBUTE_I64,
    ATTRIBUTE_BOOL,
    ATTRIBUTE_FLOAT,
    ATTRIBUTE_DOUBLE,
};

struct op_attribute {
    const char *name;
    size_t offset; /* in node->attributes */
    enum op_attribute_kind kind;
};

#define OP_ATTRIBUTE(type, field)                                                                  \
    {                                                                                              \
        .name = #field, .offset = offsetof(type, field),                                           \
        .kind = _Generic(((type *)0)->field, int                                                   \
                         : ATTRIBUTE_INT, unsigned                                                 \
                         : ATTRIBUTE_UNSIGNED, int64_t                                             \
                         : ATTRIBUTE_I64, bool                                                     \
                         : ATTRIBUTE_BOOL, float                                                   \
                         : ATTRIBUTE_FLOAT, double                                                 \
                         : ATTRIBUTE_DOUBLE)                                                       \
    }

/* "heads 6, causal, scale 0.125": those that are not 0; "" without any. Cut at the end of ret. */
enum { ATTRIBUTES_TEXT_MAX = 240 };
const char *attributes_text(const struct node *node, char ret[ATTRIBUTES_TEXT_MAX]);

#endif
