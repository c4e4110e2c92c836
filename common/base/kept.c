#include "common/base/kept.h"

#include <assert.h>
#include <string.h>

static _Thread_local char kept[ERROR_KINDS][sizeof(((struct error *)0)->text)];

int error_keep_of(int kind, const struct error *err)
{
    assert(kind >= 0 && kind < ERROR_KINDS);
    memcpy(kept[kind], err->text, sizeof(kept[kind]));
    return error_keep(err);
}

const char *error_kept_of(int kind)
{
    assert(kind >= 0 && kind < ERROR_KINDS);
    return kept[kind];
}

int error_tell(const struct error_ear *ear, const struct error *err, bool lasting)
{
    return ear->hear ? ear->hear(ear->arg, err, lasting) : error_keep(err);
}
