#include "common/base/meant.h"

#include "common/base/str.h"

bool meant_name(struct error *err, const char *nearest)
{
    if (nearest)
        error_hint(err, "did you mean %s?", nearest);
    return nearest;
}

bool meant_hint(struct error *err, const char *text, const char *const *names)
{
    return meant_name(err, str_nearest(text, names));
}
