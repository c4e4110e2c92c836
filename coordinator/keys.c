#include "coordinator/keys.h"

#include <unistd.h>

#include "common/base/str.h"

static const int64_t day_ms = 86400000;

static int take_facts(struct keys *keys, struct tls_facts *ret, struct error *err)
{
    struct stat now = {0};
    (void)stat(keys->server, &now); /* first: what replaces it meanwhile is seen later */
    int rc = tls_read_facts(keys->server, ret, err);
    if (rc != 0)
        return rc;
    keys->read = now;
    (void)str_copy(keys->pin, sizeof(keys->pin), keys->cluster[0] ? ret->signer : ret->pin);
    keys->expires_wall_ms = ret->expires_wall_ms;
    return 0;
}

int keys_renew(struct keys *keys, int64_t wall_ms, struct error *err)
{
    struct tls_facts facts;
    int rc = take_facts(keys, &facts, err);
    if (rc != 0 || !keys->cluster[0] || access(keys->cluster, R_OK) != 0 ||
        facts.expires_wall_ms - wall_ms > TLS_RENEW_DAYS * day_ms)
        return rc;
    rc = tls_make_server_key(keys->server, keys->cluster, err);
    if (rc == 0)
        rc = take_facts(keys, &facts, err);
    return rc == 0 ? 1 : rc;
}

bool keys_replaced(const struct keys *keys)
{
    struct stat now;
    return stat(keys->server, &now) == 0 &&
           (now.st_ino != keys->read.st_ino || now.st_size != keys->read.st_size ||
            now.st_mtim.tv_sec != keys->read.st_mtim.tv_sec ||
            now.st_mtim.tv_nsec != keys->read.st_mtim.tv_nsec);
}

static int use_own(const char *own, struct keys *ret, struct error *err)
{
    struct tls_facts facts;
    int rc = str_copy(ret->server, sizeof(ret->server), own);
    if (rc != 0)
        return error_set(err, E_INVALID_ARGUMENT, "the path is too long: %.60s...", own);
    return take_facts(ret, &facts, err);
}

int keys_open(const char *data_dir, const char *own, int64_t wall_ms, struct keys *ret,
              struct error *err)
{
    *ret = (struct keys){0};
    if (own)
        return use_own(own, ret, err);
    int rc = str_printf(ret->server, sizeof(ret->server), "%s/server.pem", data_dir);
    if (rc == 0)
        rc = str_printf(ret->cluster, sizeof(ret->cluster), "%s/cluster.pem", data_dir);
    if (rc != 0)
        return error_set(err, E_INVALID_ARGUMENT, "the path is too long: %.60s...", data_dir);
    bool has_server = access(ret->server, F_OK) == 0, has_cluster = access(ret->cluster, F_OK) == 0;
    if (!has_server && !has_cluster)
        rc = tls_make_cluster_key(ret->cluster, NULL, err);
    if (rc == 0 && !has_server)
        rc = tls_make_server_key(ret->server, ret->cluster, err);
    if (rc == 0)
        rc = keys_renew(ret, wall_ms, err);
    if (rc < 0 && wall_ms < ret->expires_wall_ms) { /* good still: weeks are left to mend that */
        error_clear(err);
        rc = 0;
    }
    return rc < 0 ? rc : 0;
}
