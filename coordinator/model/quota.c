#include "coordinator/model/quota.h"

#include <string.h>

#include "common/base/str.h"

static const struct {
    const char *name, *about;
    int64_t fallback, least, most;
} table[] = {
#define X(upper, lower, fallback, least, most, about) {#lower, about, fallback, least, most},
    QUOTAS(X)
#undef X
};

const char *quota_name(enum quota quota)
{
    return table[quota].name;
}

const char *quota_about(enum quota quota)
{
    return table[quota].about;
}

int quota_find(const char *name, enum quota *ret, struct error *err)
{
    char names[256] = "";
    for (int i = 0; i < QUOTA_COUNT; i++) {
        if (strcmp(table[i].name, name) == 0) {
            *ret = (enum quota)i;
            return 0;
        }
        (void)str_printf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
                         i ? ", " : "", table[i].name);
    }
    error_set(err, E_INVALID_ARGUMENT, "no quota is named '%.40s'", name);
    error_field(err, "quotas");
    error_hint(err, "%s", names);
    return E_INVALID_ARGUMENT;
}

int64_t quota_limit(const struct quotas *quotas, enum quota quota)
{
    return quotas->set[quota] ? quotas->limit[quota] : table[quota].fallback;
}

int quota_set(struct quotas *quotas, enum quota quota, int64_t limit, struct error *err)
{
    if (limit < table[quota].least || limit > table[quota].most) {
        error_set(err, E_INVALID_ARGUMENT, "quota %s: %lld is not between %lld and %lld",
                  table[quota].name, (long long)limit, (long long)table[quota].least,
                  (long long)table[quota].most);
        error_field(err, "quotas");
        return E_INVALID_ARGUMENT;
    }
    quotas->limit[quota] = limit;
    quotas->set[quota] = true;
    return 0;
}
