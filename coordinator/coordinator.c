#include "coordinator/coordinator.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hex.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/token.h"
#include "common/env/net_url.h"
#include "common/rpc/server.h"
#include "coordinator/api_rpc/access.h"
#include "coordinator/api_rpc/api_rpc.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/api_rpc/service_admit.h"
#include "coordinator/api_rpc/service_nodes.h"
#include "coordinator/model/query.h"
#include "coordinator/driver.h"
#include "coordinator/store/meta.h"

enum {
    /* More than the service admits: the service refuses with a sentence, the transport only stops
     * reading. */
    IN_FLIGHT_DEFAULT = SERVICE_CALLS_MAX + 1,
    TOKEN_FILE_MAX = 256,
    CLUSTER_ID_BYTES = 8,
};

struct coordinator {
    struct env *env;
    struct loop *loop;
    struct store *store;
    char cluster_id[STORE_META_VALUE_MAX + 1];
    int64_t restored_wall_ms;
    char pin[TOKEN_PIN_LENGTH + 1];
    struct driver driver;
    struct rpc_server *server;
    struct service *service;
    struct api_rpc *api;
};

static int ensure_cluster_id(struct coordinator *self, struct error *err)
{
    const struct store_verbs *verbs = self->store->verbs;
    int rc = verbs->get_meta(self->store, STORE_CLUSTER_KEY, self->cluster_id, err);
    if (rc != E_NOT_FOUND)
        return rc;
    uint8_t id[CLUSTER_ID_BYTES];
    self->env->rng.fill(self->env->rng.self, id, sizeof(id));
    hex_encode(id, sizeof(id), self->cluster_id);
    rc = verbs->begin(self->store, err);
    if (!rc)
        rc = verbs->put_meta(self->store, STORE_CLUSTER_KEY, self->cluster_id, err);
    if (!rc)
        rc = verbs->commit(self->store, err);
    if (rc)
        verbs->rollback(self->store);
    return rc;
}

static int read_restored(struct coordinator *self, struct error *err)
{
    char text[STORE_META_VALUE_MAX + 1];
    int rc = self->store->verbs->get_meta(self->store, STORE_RESTORED_KEY, text, err);
    if (!rc)
        rc = parse_i64(text, 0, INT64_MAX, &self->restored_wall_ms, err);
    if (rc == E_NOT_FOUND) {
        error_clear(err);
        rc = 0;
    }
    return rc;
}

static int write_token_file(struct coordinator *self, const char *path, const char *token,
                            struct error *err)
{
    char text[TOKEN_TEXT_MAX + 1];
    struct disk *disk = &self->env->disk;
    (void)str_printf(text, sizeof(text), "%s%s%s\n", token, *self->pin ? "." : "", self->pin);
    return disk->write_file(disk->self, path, text, strlen(text), 0600, err);
}

/* Update the pin after the token in a file: the cluster's key may have changed, or tokens had no
 * pin then. */
static int renew_token_file(struct coordinator *self, const char *data_dir, const char *role,
                            struct error *err)
{
    char path[PATH_MAX], token[TOKEN_MAX], *data;
    size_t size;
    struct disk *disk = &self->env->disk;
    int rc = str_printf(path, sizeof(path), "%s/%s.token", data_dir, role);
    if (rc || disk->read_file(disk->self, path, TOKEN_FILE_MAX, &data, &size, NULL) < 0)
        return 0;
    data[strcspn(data, "\r\n")] = 0;
    const char *pin = token_pin(data);
    bool stale = !token_check(data, NULL, NULL) && !token_plain(data, token) &&
                 strcmp(pin ? pin : "", self->pin) != 0;
    free(data);
    return stale ? write_token_file(self, path, token, err) : 0;
}

/* Use a token file again if a start died before it stored the hash. A file with a known token means
 * that this was revoked or has expired. */
static int read_token_file(struct coordinator *self, const char *path, const char *role,
                           char ret[TOKEN_MAX], struct error *err)
{
    struct disk *disk = &self->env->disk;
    char *data, found[TOKEN_ROLE_MAX + 1];
    size_t size;
    struct store_token known;
    int rc = disk->read_file(disk->self, path, TOKEN_FILE_MAX, &data, &size, NULL);
    if (!rc) {
        data[strcspn(data, "\r\n")] = 0;
        bool good =
            !token_check(data, found, NULL) && strcmp(found, role) == 0 && !token_plain(data, ret);
        free(data);
        if (good)
            access_name_token(ret, &known);
        if (good && !access_token(service_access(self->service), known.id, 0))
            return 0;
    }
    uint8_t secret[TOKEN_SECRET_BYTES];
    self->env->rng.fill(self->env->rng.self, secret, sizeof(secret));
    rc = token_compose(role, secret, ret);
    if (rc)
        return error_set(err, rc, "token of role %s", role);
    return write_token_file(self, path, ret, err);
}

static int make_token(struct coordinator *self, const char *data_dir, const char *role,
                      struct error *err)
{
    char path[PATH_MAX], text[TOKEN_MAX];
    int rc = str_printf(path, sizeof(path), "%s/%s.token", data_dir, role);
    if (!rc)
        rc = read_token_file(self, path, role, text, err);
    if (rc)
        return rc;
    struct clock *clock = &self->env->clock;
    struct store_token token = {.created_wall_ms = clock->wall_ms(clock->self)};
    (void)str_copy(token.role, sizeof(token.role), role);
    (void)str_copy(token.name, sizeof(token.name), role);
    access_name_token(text, &token);
    const struct store_verbs *verbs = self->store->verbs;
    rc = verbs->begin(self->store, err);
    if (!rc)
        rc = verbs->put_token(self->store, &token, err);
    if (!rc)
        rc = verbs->commit(self->store, err);
    if (rc)
        verbs->rollback(self->store);
    if (rc)
        return rc;
    return access_put_token(service_access(self->service), &token, err);
}

static int make_default_tenant(struct coordinator *self, struct error *err)
{
    struct clock *clock = &self->env->clock;
    struct store_tenant tenant = {
        .name = "default", .weight = 1, .created_wall_ms = clock->wall_ms(clock->self)};
    const struct store_verbs *verbs = self->store->verbs;
    int rc = verbs->begin(self->store, err);
    if (!rc)
        rc = verbs->put_tenant(self->store, &tenant, err);
    if (!rc)
        rc = verbs->commit(self->store, err);
    if (rc)
        verbs->rollback(self->store);
    if (rc)
        return rc;
    return access_put_tenant(service_access(self->service), &tenant, err);
}

/* Load or make what every start needs. */
static int load_access(struct coordinator *self, const char *data_dir, struct error *err)
{
    struct clock *clock = &self->env->clock;
    struct access *access = service_access(self->service);
    int64_t wall_ms = clock->wall_ms(clock->self);
    int rc = service_load_access(self->service, err);
    if (!rc && !access_tenant(access, "default"))
        rc = make_default_tenant(self, err);
    if (!rc && access_count_valid(access, ACCESS_ADMIN, wall_ms) == 0)
        rc = make_token(self, data_dir, "admin", err);
    if (!rc && access_count_valid(access, ACCESS_AGENT, wall_ms) == 0)
        rc = make_token(self, data_dir, "agent", err);
    if (!rc)
        rc = renew_token_file(self, data_dir, "admin", err);
    if (!rc)
        rc = renew_token_file(self, data_dir, "agent", err);
    return rc;
}

static int make_service(struct coordinator *self, const struct coordinator_options *options,
                        struct error *err)
{
    struct service_options service_options = {
        .env = self->env,
        .loop = self->loop,
        .store = self->store,
        .host = driver_host(&self->driver),
        .data_dir = options->data_dir,
        .secrets_key_path = options->secrets_key_path,
        .secrets_key = options->secrets_key,
        .version = options->version,
        .commit = options->commit,
        .cluster_id = self->cluster_id,
        .restored_wall_ms = self->restored_wall_ms,
        .pin = options->pin,
        /* A Unix socket proves no keys and belongs to its user alone: there the token decides. */
        .keyed = options->pin && *options->pin && !net_url_path(options->rpc_url),
        .channel_idle_ms = options->terminal_idle_ms,
        .log = options->log,
    };
    int rc = service_new(&service_options, &self->service, err);
    self->driver.service = self->service;
    if (rc)
        return rc;
    return load_access(self, options->data_dir, err);
}

static int listen_rpc(struct coordinator *self, const struct coordinator_options *options,
                      struct error *err)
{
    int in_flight = options->max_in_flight ? options->max_in_flight : IN_FLIGHT_DEFAULT;
    int rc = rpc_server_new(self->env, self->loop, options->rpc_url, in_flight, &self->server, err);
    if (rc)
        return rc;
    return api_rpc_new(self->server, self->service, &self->api, err);
}

static int start_parts(struct coordinator *self, const struct coordinator_options *options,
                       struct error *err)
{
    self->driver.env = self->env;
    self->driver.loop = self->loop;
    self->driver.store = self->store;
    self->driver.log = options->log;
    self->driver.data_dir = options->data_dir;
    self->driver.on_audit = options->on_audit;
    self->driver.on_audit_arg = options->on_audit_arg;
    self->driver.pass_gap_ms = options->pass_gap_ms;
    self->driver.retention.keep_jobs = options->keep_jobs;
    self->driver.retention.keep_ms = options->keep_ms;
    self->driver.node_retention.keep = options->keep_nodes;
    self->driver.node_retention.keep_ms = options->keep_nodes_ms;
    int rc = driver_init(&self->driver, err);
    if (!rc)
        rc = ensure_cluster_id(self, err);
    if (!rc)
        rc = read_restored(self, err);
    if (!rc)
        rc = make_service(self, options, err);
    if (!rc)
        rc = driver_start(&self->driver, err);
    if (!rc)
        service_load_nodes(self->service);
    if (!rc)
        rc = listen_rpc(self, options, err);
    if (!rc) {
        loop_on_turn_end(self->loop, driver_turn_end, &self->driver);
        loop_on_slow_turn(self->loop, driver_slow_turn, &self->driver);
    }
    return rc;
}

int coordinator_new(const struct coordinator_options *options, struct env *env, struct loop *loop,
                    struct store *store, struct coordinator **ret, struct error *err)
{
    struct coordinator *self = calloc(1, sizeof(*self));
    if (!self)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    self->env = env;
    self->loop = loop;
    self->store = store;
    (void)str_copy(self->pin, sizeof(self->pin), options->pin ? options->pin : "");
    int rc = start_parts(self, options, err);
    if (rc)
        coordinator_free(self);
    else
        *ret = self;
    return rc;
}

void coordinator_free(struct coordinator *coordinator)
{
    if (!coordinator)
        return;
    loop_on_turn_end(coordinator->loop, NULL, NULL);
    loop_on_slow_turn(coordinator->loop, NULL, NULL);
    rpc_server_free(coordinator->server);
    api_rpc_free(coordinator->api);
    service_free(coordinator->service);
    driver_fini(&coordinator->driver);
    free(coordinator);
}

void coordinator_set_pin(struct coordinator *coordinator, const char *pin)
{
    static const char *const roles[] = {"admin", "agent"};
    struct error err = {0};
    if (strcmp(coordinator->pin, pin) == 0)
        return;
    (void)str_copy(coordinator->pin, sizeof(coordinator->pin), pin);
    service_set_pin(coordinator->service, pin);
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        if (renew_token_file(coordinator, coordinator->driver.data_dir, roles[i], &err))
            log_warn(coordinator->driver.log, err.text, log_str("role", roles[i]));
}

void coordinator_stop(struct coordinator *coordinator)
{
    service_stop(coordinator->service);
}

void coordinator_halt(struct coordinator *coordinator)
{
    struct service_host host = driver_host(&coordinator->driver);
    struct event event = {.kind = EVENT_HALT};
    host.step(host.self, &event);
}

int coordinator_living(const struct coordinator *coordinator)
{
    return cluster_living_workers(coordinator_cluster(coordinator));
}

const char *coordinator_rpc_url(const struct coordinator *coordinator)
{
    return rpc_server_url(coordinator->server);
}

const char *coordinator_cluster_id(const struct coordinator *coordinator)
{
    return coordinator->cluster_id;
}

const struct cluster *coordinator_cluster(const struct coordinator *coordinator)
{
    return coordinator->driver.cluster;
}

bool coordinator_ready(const struct coordinator *coordinator, const char **ret_why)
{
    if (ret_why)
        *ret_why = coordinator->driver.refusing ? coordinator->driver.why : "";
    return !coordinator->driver.refusing;
}

struct service *coordinator_service(struct coordinator *coordinator)
{
    return coordinator->service;
}
