#include "common/base/tree_build.h"
#include "common/rpc/widen.h"

int widen_no_memory(const struct widen *w)
{
    return error_set(w->err, E_RESOURCE_EXHAUSTED, "no memory for the spec");
}

int widen_put(const struct widen *w, struct tree *map, const char *name, struct tree *value,
              const struct tree *origin)
{
    if (!value || tree_map_set(w->arena, map, name, value))
        return widen_no_memory(w);
    value->line = origin->line;
    value->column = origin->column;
    return 0;
}
