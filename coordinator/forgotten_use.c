#include "coordinator/forgotten_use.h"

#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "coordinator/model/tenant.h"
#include "coordinator/store/meta.h"

static void key_of(const struct tenant *tenant, char ret[STORE_META_KEY_MAX + 1])
{
    (void)str_printf(ret, STORE_META_KEY_MAX + 1, "forgotten_use/%s", tenant->name);
}

/* "SLOTS WALL_MS" */
static void read_sum(struct tenant *tenant, char *text)
{
    double use;
    int64_t wall_ms;
    char *space = strchr(text, ' ');
    if (!space)
        return;
    *space = 0;
    if (!parse_f64(text, &use, NULL) && use > 0 &&
        !parse_i64(space + 1, 1, INT64_MAX, &wall_ms, NULL))
        tenant_charge_forgotten(tenant, use, wall_ms);
}

int forgotten_use_load(struct store *store, struct cluster *cluster, struct error *err)
{
    char key[STORE_META_KEY_MAX + 1], text[STORE_META_VALUE_MAX + 1];
    for (struct tenant *tenant = cluster_first_tenant(cluster); tenant;
         tenant = cluster_next_tenant(cluster, tenant)) {
        key_of(tenant, key);
        int rc = store->verbs->get_meta(store, key, text, err);
        if (rc && rc != E_NOT_FOUND)
            return rc;
        if (!rc)
            read_sum(tenant, text);
        else
            error_clear(err);
    }
    return 0;
}

static int put_sum(struct store *store, const struct tenant *tenant, double use, int64_t wall_ms,
                   struct error *err)
{
    char key[STORE_META_KEY_MAX + 1], text[STORE_META_VALUE_MAX + 1], slots[FORMAT_MAX];
    key_of(tenant, key);
    (void)str_printf(text, sizeof(text), "%s %lld", format_f64(use, slots), (long long)wall_ms);
    return store->verbs->put_meta(store, key, text, err);
}

int forgotten_use_put(struct store *store, struct job *const *jobs, int count, int64_t wall_ms,
                      struct error *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < count; i++) {
        const struct tenant *tenant = jobs[i]->tenant;
        double use = 0;
        bool first = true;
        for (int other = 0; other < count; other++) {
            if (jobs[other]->tenant != tenant)
                continue;
            first &= other >= i;
            use += job_use(jobs[other], wall_ms);
        }
        if (first && use > 0)
            rc = put_sum(store, tenant, use + tenant_forgotten_use(tenant, wall_ms), wall_ms, err);
    }
    return rc;
}
