#include "coordinator/salvage.h"

#include "common/base/str.h"
#include "coordinator/store/store_sqlite_salvage.h"

int salvage_check(const char *path, char *ret, size_t size, struct error *err)
{
    struct store_facts facts;
    int rc = store_sqlite_examine(path, &facts, err);
    if (rc) {
        if (rc == E_DATA_LOSS)
            error_hint(err, "muster store salvage %.100s NEW.db copies what can be read", path);
        return rc;
    }
    (void)str_printf(ret, size, "whole: cluster %s, %d jobs, up to event %d, schema %d",
                     facts.cluster[0] ? facts.cluster : "(none yet)", facts.jobs, facts.events,
                     facts.schema);
    return 0;
}

int salvage_copy(const char *path, const char *to, char *ret, size_t size, struct error *err)
{
    struct store_salvage told;
    int rc = store_sqlite_salvage(path, to, &told, err);
    if (!rc)
        (void)str_printf(ret, size,
                         "%d jobs, %d events and %d other rows copied; %d rows made no sense%s",
                         told.jobs, told.events, told.others, told.dropped,
                         told.damaged ? "; some pages could not be read" : "");
    return rc;
}
