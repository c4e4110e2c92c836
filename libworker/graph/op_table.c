#include "libworker/graph/op.h"
#include "libworker/graph/op_list.h"

#define X(name) extern const struct op_row op_##name;
OP_LIST(X)
#undef X

unsigned op_keeps(const struct node *node)
{
    return node->row->keeps_of ? node->row->keeps_of(node) : node->row->keeps;
}

unsigned op_product_keeps(const struct node *node, int a, int b)
{
    return (node->in[b]->trains ? OP_IN(a) : 0) | (node->in[a]->trains ? OP_IN(b) : 0);
}

const struct op_row *op_row_at(int i)
{
    static const struct op_row *const rows[] = {
#define X(name) &op_##name,
        OP_LIST(X)
#undef X
            NULL,
    };
    return i >= 0 && i < (int)(sizeof(rows) / sizeof(rows[0])) ? rows[i] : NULL;
}
