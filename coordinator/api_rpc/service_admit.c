#include "coordinator/api_rpc/service_admit.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/api_rpc/method.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/model/cluster_walk.h"

enum { USES_STORED_EVERY_MS = 60000 };

struct access *service_access(struct service *service)
{
    return service->access;
}

int service_load_access(struct service *service, struct error *err)
{
    int rc = access_load(service->access, service->options.store, err);
    if (rc)
        return rc;
    return secrets_load(service->secrets, service->options.store, err);
}

static void store_use(void *arg, const struct store_token *token)
{
    struct service *service = arg;
    struct change change = {.kind = CHANGE_TOKEN, .token = *token};
    service->options.host.write(service->options.host.self, &change);
}

static void store_secret_use(void *arg, const struct store_secret *secret)
{
    struct service *service = arg;
    struct change change = {.kind = CHANGE_SECRET};
    (void)str_copy(change.secret.tenant, sizeof(change.secret.tenant), secret->tenant);
    (void)str_copy(change.secret.name, sizeof(change.secret.name), secret->name);
    service->options.host.write(service->options.host.self, &change);
}

static void store_uses(void *arg)
{
    struct service *service = arg;
    secrets_flush_uses(service->secrets, store_secret_use, service);
    service->uses_armed = access_flush_uses(service->access, 1, store_use, service);
    if (service->uses_armed)
        loop_timer_set(service->options.loop, &service->uses,
                       service_now_ms(service) + USES_STORED_EVERY_MS, store_uses, service);
}

void service_store_uses(struct service *service)
{
    if (service->uses_armed)
        return;
    service->uses_armed = true;
    loop_timer_set(service->options.loop, &service->uses,
                   service_now_ms(service) + USES_STORED_EVERY_MS, store_uses, service);
}

int service_identify(struct service *service, const char *token, const struct store_token **ret,
                     struct error *err)
{
    int rc = access_identify(service->access, token, service_wall_ms(service), ret, err);
    if (!rc)
        service_store_uses(service);
    return rc;
}

/* The advice is the role that may do least of those that suffice: the last. */
static int refuse_role(const struct service_method *method, const char *role, struct error *err)
{
    char names[96];
    access_role_names(method->roles, names, sizeof(names));
    error_set(err, E_PERMISSION_DENIED, "%s needs a token of role %s, not %s", method->words, names,
              role);
    const char *space = strrchr(names, ' ');
    const char *least = space ? space + 1 : names;
    error_hint(err,
               "an administrator makes one: muster token create NAME --role %s%s; --token or "
               "MUSTER_TOKEN chooses it",
               least, access_role_bound(access_role(least)) ? " --tenant TENANT" : "");
    return E_PERMISSION_DENIED;
}

/* Identify the caller by its token. */
static int authorise(struct service *service, const struct service_method *method,
                     struct service_request *request, struct error *err)
{
    const struct store_token *caller = NULL;
    int rc = service_identify(service, request->token, &caller, err);
    if (rc) {
        service_audit_stranger(
            service,
            &(struct service_stranger){request->carrier, request->peer_address, method->name}, err);
        return rc;
    }
    request->caller = caller;
    request->role = access_role(caller->role);
    if (request->role & method->roles)
        return 0;
    rc = refuse_role(method, caller->role, err);
    if (service_audits(method)) {
        struct service_trace trace = {0};
        service_trace_init(&trace, request);
        service_audit_attempt(service, caller, method, &trace, err);
    }
    return rc;
}

int service_unknown_key(struct error *err)
{
    error_set(err, E_NOT_FOUND, "no node is known by this key");
    error_hint(err, "register first");
    return E_NOT_FOUND;
}

/* The entry of the node with this key, or NULL. */
static const struct store_token *node_of(struct service *service,
                                         const struct service_request *request, const char *key)
{
    struct connection *connection =
        connection_find(&service->connections, request->peer, request->peer_data);
    if (connection && connection->node && access_node_is_valid(connection->node))
        return connection->node;
    const struct store_token *node = access_node(service->access, key);
    if (node && !connection)
        connection = connection_get(&service->connections, request->peer, request->peer_data);
    if (node && connection)
        connection->node = node;
    return node;
}

/* An agent is identified by its node's key; a token only admits a new node. */
static int authorise_agent(struct service *service, const struct service_method *method,
                           struct service_request *request, struct error *err)
{
    const char *key = request->peer_key ? request->peer_key : "";
    if (!service->options.keyed)
        return authorise(service, method, request, err);
    if (!*key) {
        error_set(err, E_UNAUTHENTICATED, "%s needs a key of the node's own, and none was shown",
                  method->words);
        error_hint(err, "agents make one at their first start; this one is of an older version");
        return E_UNAUTHENTICATED;
    }
    request->caller = node_of(service, request, key);
    if (request->caller) {
        request->role = ACCESS_AGENT;
        return 0;
    }
    if (strcmp(method->name, "RegisterNode") == 0)
        return authorise(service, method, request, err);
    return service_unknown_key(err);
}

const struct service_method *service_find_method(const struct service *service,
                                                 const struct service_request *request)
{
    if (request->row)
        return request->row;
    for (const struct service_method *row = service->methods; row->name; row++)
        if (strcmp(row->name, request->method->name) == 0 &&
            strcmp(row->service, request->service) == 0)
            return row;
    return NULL;
}

/* Agents have no smaller limit: reports are as large as messages may be. */
static int check_size(struct service *service, const struct service_method *method, size_t bytes,
                      struct error *err)
{
    enum limit limit = method->roles == 0 ? LIMIT_STRANGER_CALL_BYTES
                       : method->has_spec ? LIMIT_SPEC_CALL_BYTES
                                          : LIMIT_READ_CALL_BYTES;
    if (method->roles == ACCESS_AGENT || bytes <= (size_t)limit_number(limit))
        return 0;
    return budget_refuse(&service->budgets, limit, err);
}

static struct budget_ask ask_of(const struct service *service, const struct service_method *method,
                                const struct service_request *request)
{
    struct connection *connection =
        connection_find(&service->connections, request->peer, request->peer_data);
    bool node = service->options.keyed && method->roles == ACCESS_AGENT &&
                strcmp(method->name, "RegisterNode") != 0;
    return (struct budget_ask){
        .caller = request->caller,
        .role = request->role,
        .peer = request->peer,
        .node = node,
        .known = node && connection ? &connection->budget : NULL,
        .plan = method->plans,
        .forwarded = method->forwarded,
    };
}

int service_admit(struct service *service, struct service_request *request, size_t payload_bytes,
                  struct error *err)
{
    const struct service_method *method = service_find_method(service, request);
    request->caller = NULL;
    request->role = 0;
    if (!method)
        return error_set(err, E_UNIMPLEMENTED, "%s.%s is not offered", request->service,
                         request->method->name);
    int rc = 0;
    if (method->roles == ACCESS_AGENT)
        rc = authorise_agent(service, method, request, err);
    else if (method->roles)
        rc = authorise(service, method, request, err);
    if (!rc)
        rc = check_size(service, method, payload_bytes, err);
    if (!rc) {
        struct budget_ask ask = ask_of(service, method, request);
        rc = budget_check(&service->budgets, &ask, err);
    }
    request->admitted = !rc;
    return rc;
}

int service_refuse_limit(struct service *service, enum limit limit, struct error *err)
{
    return budget_refuse(&service->budgets, limit, err);
}

void service_count_refusal(struct service *service)
{
    service->stats.calls++;
    service->stats.failures++;
}

struct budget *service_budget(struct service *service, const struct service_method *method,
                              const struct service_request *request, struct error *err)
{
    struct budget_ask ask = ask_of(service, method, request);
    return budget_open(&service->budgets, &ask, err);
}

void service_set_pin(struct service *service, const char *pin)
{
    (void)str_copy(service->pin, sizeof(service->pin), pin);
}

void service_add_pin(const struct service *service, char token[TOKEN_TEXT_MAX])
{
    size_t length = strlen(token);
    if (service->pin[0])
        insist(!str_printf(token + length, TOKEN_TEXT_MAX - length, ".%s", service->pin));
}
