/* Which agent may register as which node, by its key; and how many new nodes a token admits. */
#include "coordinator/api_rpc/join.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/model/cluster_nodes.h"

enum { JOIN_LOG_MS = 1000 };

static int refuse_other_name(const char *owner, const char *name, struct error *err)
{
    error_set(err, E_PERMISSION_DENIED, "this key is node '%s' and cannot be '%s' too", owner,
              name);
    error_hint(err,
               "start it with --name %s; or, on another machine, remove node.pem that was copied "
               "from there",
               owner);
    return E_PERMISSION_DENIED;
}

/* A running agent ends as if a newer one had replaced it; at its next start it gets the reason. */
static int refuse_taken_key(const struct node *known, const struct node *facts, struct error *err)
{
    if (known->incarnation == facts->incarnation || node_has_fenced(known, facts->incarnation))
        return error_set(err, E_ABORTED, "fenced: `muster rekey %s` gave the name to another key",
                         known->name);
    error_set(err, E_PERMISSION_DENIED, "`muster rekey %s` took the name from this key",
              known->name);
    error_hint(err, "start this machine's agent with another --name; or, to use this machine "
                    "again, remove its node.pem and let an administrator or operator run rekey "
                    "once more");
    return E_PERMISSION_DENIED;
}

static int refuse_other_key(const struct node *known, struct error *err)
{
    error_set(err, E_PERMISSION_DENIED, "node '%s' is known by another key", known->name);
    error_hint(err,
               "if its machine was set up again, an administrator or operator runs `muster rekey "
               "%s`; else start this agent with another --name",
               known->name);
    return E_PERMISSION_DENIED;
}

static int check_key(struct service *service, const struct node *known, const char *key,
                     const struct node *facts, struct error *err)
{
    const struct store_token *of_key = access_node(service->access, key);
    if (of_key && strcmp(of_key->name, facts->name) != 0)
        return refuse_other_name(of_key->name, facts->name, err);
    if (known && node_refuses_key(known, key))
        return refuse_taken_key(known, facts, err);
    if (known && known->key[0] && strcmp(known->key, key) != 0)
        return refuse_other_key(known, err);
    return 0;
}

static int check_uses(const struct store_token *token, struct error *err)
{
    if (token->uses_max == 0 || token->uses < token->uses_max)
        return 0;
    error_set(err, E_UNAUTHENTICATED, "token '%s' has let in %lld of %lld new nodes: none is left",
              token->name, (long long)token->uses, (long long)token->uses_max);
    error_hint(err, "an administrator makes another: muster token create NAME --role agent "
                    "--expires 1d --uses N");
    return E_UNAUTHENTICATED;
}

/* One token must not fill the places of all. */
static int check_share(struct service *service, const struct store_token *token,
                       const struct node *known, struct error *err)
{
    bool counted = known && strcmp(known->let_in_by, token->id) == 0;
    int count = cluster_nodes_let_in_by(service_cluster(service), token->id);
    if (counted || count < MAX_TOKEN_NODES)
        return 0;
    return budget_refuse(&service->budgets, LIMIT_TOKEN_NODES, err);
}

/* A caller can be refused thousands of times a second; the audit trail counts them all. */
static void log_refusal(struct service *service, const struct join *join, const char *key,
                        const struct node *facts, const struct error *err)
{
    int64_t now_ms = service_now_ms(service);
    if (now_ms < service->join_log.next_ms) {
        service->join_log.left_out++;
        return;
    }
    log_warn(service->options.log, "a node may not join", log_str("node", facts->name),
             log_str("key", key ? key : ""), log_str("token", join->caller->name),
             log_str("reason", err->text),
             log_int("others_since_the_last_line", service->join_log.left_out));
    service->join_log.next_ms = now_ms + JOIN_LOG_MS;
    service->join_log.left_out = 0;
}

/* The key of a node that was forgotten in this very turn is still valid. It lets nothing in. */
static int check_new(struct service *service, const struct store_token *caller, const char *key,
                     const struct node *known, struct error *err)
{
    if (service->options.keyed && caller == access_node(service->access, key))
        return error_set(err, E_UNAVAILABLE, "node '%s' was forgotten: register again",
                         caller->name);
    int rc = check_uses(caller, err);
    if (rc)
        return rc;
    return check_share(service, caller, known, err);
}

int join_check(struct service *service, struct join *join, const char *key, struct node *facts,
               struct error *err)
{
    const struct node *known = cluster_node(service_cluster(service), facts->name);
    int rc = 0;
    if (service->options.keyed)
        rc = check_key(service, known, key, facts, err);
    join->is_new = !known || (service->options.keyed && strcmp(known->key, key) != 0);
    if (!rc && join->is_new)
        rc = check_new(service, join->caller, key, known, err);
    if (rc) {
        log_refusal(service, join, key, facts, err);
        return rc;
    }
    if (join->is_new)
        log_info(service->options.log, "a node joins", log_str("node", facts->name),
                 log_str("key", key ? key : ""), log_str("token", join->caller->name));
    if (service->options.keyed)
        (void)str_copy(facts->key, sizeof(facts->key), key);
    if (join->is_new)
        (void)str_copy(facts->let_in_by, sizeof(facts->let_in_by), join->caller->id);
    return 0;
}

void join_count(struct service_call *call, const struct join *join, const struct node *node,
                const char *detail)
{
    struct service *service = call->service;
    if (!join->is_new || access_role(join->caller->role) != ACCESS_AGENT)
        return;
    struct change change = {.kind = CHANGE_TOKEN, .token = *join->caller};
    change.token.uses++;
    insist(!access_put_token(service->access, &change.token, NULL));
    service->options.host.write(service->options.host.self, &change);
    char text[256];
    (void)str_printf(text, sizeof(text), "%s; node %lld that token %s lets in", detail,
                     (long long)change.token.uses, change.token.name);
    if (change.token.uses_max)
        (void)str_printf(text + strlen(text), sizeof(text) - strlen(text), " (of %lld)",
                         (long long)change.token.uses_max);
    service_trace(call, node->name, text);
}
