#include "common/base/name.h"

#include <string.h>

bool name_has(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

bool name_valid(const char *name)
{
    size_t length = strnlen(name, NAME_LENGTH_MAX + 1);
    if (length == 0 || length > NAME_LENGTH_MAX || name[0] == '.' || name[0] == '-')
        return false;
    for (const char *c = name; *c; c++)
        if (!name_has(*c))
            return false;
    return true;
}

bool metric_name_valid(const char *name)
{
    size_t length =
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-");
    return length > 0 && length <= METRIC_NAME_MAX && !name[length];
}
