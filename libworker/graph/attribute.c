#include "libworker/graph/attribute.h"

#include <stdio.h>
#include <string.h>

#include "libworker/graph/op.h"

/* Its value; false if it is 0. */
static bool value_text(const void *at, enum op_attribute_kind kind, char ret[32])
{
    int number;
    int64_t large;
    float single;
    double real = 0;
    ret[0] = '\0';
    switch (kind) {
    case ATTRIBUTE_BOOL:
        return *(const bool *)at;
    case ATTRIBUTE_INT:
    case ATTRIBUTE_UNSIGNED:
        memcpy(&number, at, sizeof(number));
        snprintf(ret, 32, " %d", number);
        return number != 0;
    case ATTRIBUTE_I64:
        memcpy(&large, at, sizeof(large));
        snprintf(ret, 32, " %lld", (long long)large);
        return large != 0;
    case ATTRIBUTE_FLOAT:
        memcpy(&single, at, sizeof(single));
        snprintf(ret, 32, " %.9g", (double)single);
        return single < 0 || single > 0;
    case ATTRIBUTE_DOUBLE:
        memcpy(&real, at, sizeof(real));
        snprintf(ret, 32, " %.17g", real);
        return real < 0 || real > 0;
    }
    return false;
}

const char *attributes_text(const struct node *node, char ret[ATTRIBUTES_TEXT_MAX])
{
    size_t used = 0;
    const struct op_attribute *all = node->row->attributes;
    ret[0] = '\0';
    for (int i = 0; all && node->attributes && all[i].name && used < ATTRIBUTES_TEXT_MAX; i++) {
        char value[32];
        if (value_text((const char *)node->attributes + all[i].offset, all[i].kind, value))
            used += (size_t)snprintf(ret + used, ATTRIBUTES_TEXT_MAX - used, "%s%s%s",
                                     used ? ", " : "", all[i].name, value);
    }
    return ret;
}
