#include "coordinator/daemon/keys.h"

#include <unistd.h>

#include "common/base/str.h"
#include "common/env/tls_read.h"

static const int64_t day_ms = 86400000;

static int read_facts(struct keys *keys, struct tls_facts *ret, struct error *err)
{
    struct stat now = {0};
    (void)stat(keys->server, &now); /* first: a replacement during the read is noticed later */
    int rc = tls_read_facts(keys->server, ret, err);
    if (rc)
        return rc;
    keys->read = now;
    (void)str_copy(keys->pin, sizeof(keys->pin), keys->cluster[0] ? ret->signer : ret->pin);
    keys->expires_wall_ms = ret->expires_wall_ms;
    return 0;
}

/* Without its cluster's key nothing can be renewed. */
static bool can_renew(const struct keys *keys)
{
    return keys->cluster[0] && access(keys->cluster, R_OK) == 0;
}

int keys_renew(struct keys *keys, int64_t wall_ms, struct error *err)
{
    struct tls_facts facts;
    int rc = read_facts(keys, &facts, err);
    bool ends = facts.expires_wall_ms - wall_ms <= TLS_RENEW_DAYS * day_ms;
    if (rc || !can_renew(keys) || (!ends && keys_have_names(keys)))
        return rc;
    rc = tls_make_server_key(keys->server, keys->cluster, keys->names, err);
    if (!rc)
        rc = read_facts(keys, &facts, err);
    if (rc)
        return rc;
    return 1;
}

bool keys_have_names(const struct keys *keys)
{
    return !keys->names || tls_has_names(keys->server, keys->names);
}

bool keys_replaced(const struct keys *keys)
{
    return tls_file_replaced(keys->server, &keys->read, NULL);
}

static int use_own(const char *own, struct keys *ret, struct error *err)
{
    struct tls_facts facts;
    int rc = str_copy(ret->server, sizeof(ret->server), own);
    if (rc)
        return error_set(err, E_INVALID_ARGUMENT, "the path is too long: %.60s...", own);
    return read_facts(ret, &facts, err);
}

static int find_own(const char *data_dir, struct keys *ret, struct error *err)
{
    int rc = str_printf(ret->server, sizeof(ret->server), "%s/server.pem", data_dir);
    if (!rc)
        rc = str_printf(ret->cluster, sizeof(ret->cluster), "%s/cluster.pem", data_dir);
    if (rc)
        return error_set(err, E_INVALID_ARGUMENT, "the path is too long: %.60s...", data_dir);
    bool has_server = access(ret->server, F_OK) == 0, has_cluster = access(ret->cluster, F_OK) == 0;
    if (!has_server && !has_cluster)
        rc = tls_make_cluster_key(ret->cluster, NULL, err);
    if (!rc && !has_server)
        rc = tls_make_server_key(ret->server, ret->cluster, ret->names, err);
    return rc;
}

int keys_open(const struct keys_options *options, int64_t wall_ms, struct keys *ret,
              struct error *err)
{
    *ret = (struct keys){.names = options->names};
    if (options->own)
        return use_own(options->own, ret, err);
    int rc = find_own(options->data_dir, ret, err);
    if (rc)
        return rc;
    rc = keys_renew(ret, wall_ms, err);
    if (rc < 0 && wall_ms < ret->expires_wall_ms)
        return 1; /* there are weeks left to repair that */
    return rc < 0 ? rc : 0;
}
