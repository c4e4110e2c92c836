#include "coordinator/api_rest/routes.h"

#include <string.h>

#include "common/base/str.h"
#include "proto/client.pb-c.h"

const struct route routes[] = {
    {"POST", "/v1/jobs", "submitJob", .call = "SubmitJob", .body = ROUTE_SPEC_BODY, .status = 201,
     .summary = "Submit a job; Idempotency-Key makes it safe to repeat"},
    {"GET", "/v1/jobs", "listJobs", .call = "ListJobs", .shared = true,
     .summary = "Jobs, newest first"},
    {"GET", "/v1/jobs/{id}", "getJob", .call = "GetJob", .stream = ROUTE_STREAM_JOB, .shared = true,
     .summary = "A job by id, or the newest of a name; as a stream, each change of it"},
    {"POST", "/v1/jobs/{id}:cancel", "cancelJob", .call = "CancelJob", .body = ROUTE_OPTIONAL_BODY,
     .summary = "Cancel a job"},
    {"POST", "/v1/jobs/{id}:scale", "scaleJob", .call = "ScaleJob", .body = ROUTE_OPTIONAL_BODY,
     .summary = "Change a job's number of nodes"},
    {"POST", "/v1/jobs/{id}:stacks", "takeStacks", .call = "TakeStacks",
     .body = ROUTE_OPTIONAL_BODY,
     .summary = "Have the stacks of a job's programs written to its output"},
    {"GET", "/v1/jobs/{id}/channels", "listJobChannels", .call = "ListChannels",
     .summary = "Terminals and connections that are open beside a job's workers"},
    {"GET", "/v1/jobs/{id}/logs", "getJobLogs", .call = "GetLogs", .stream = ROUTE_STREAM_LOGS,
     .summary = "Output of a job's workers; with follow it waits for more"},
    {"GET", "/v1/jobs/{job}/events", "listJobEvents", .call = "ListEvents",
     .stream = ROUTE_STREAM_EVENTS, .summary = "What happened to a job"},
    {"GET", "/v1/jobs/{id}/why", "whyJob", .call = "WhyJob",
     .summary = "Why a job is in its state, and what would change it"},
    {"GET", "/v1/jobs/{id}/metrics", "getJobMetrics", .call = "GetMetrics",
     .summary = "Series of numbers that its program reported"},
    {"GET", "/v1/jobs/{id}/ranks", "getJobRanks", .call = "GetRanks",
     .summary = "What each rank reported last, how long its steps take, and the slowest"},
    {"GET", "/v1/jobs/{id}/checkpoints", "listJobCheckpoints", .call = "ListCheckpoints",
     .summary = "Committed checkpoints"},
    {"POST", "/v1/plan", "plan", .call = "Plan", .body = ROUTE_OPTIONAL_BODY,
     .summary = "What if: when and where a job would start, and what others would notice"},
    {"GET", "/v1/overview", "getOverview", .call = "Overview", .shared = true,
     .summary = "Counts of jobs and nodes, and the first of what runs, waits and has ended"},
    {"GET", "/v1/nodes", "listNodes", .call = "ListNodes", .shared = true, .summary = "Nodes"},
    {"POST", "/v1/nodes/{name}:cordon", "cordonNode", .call = "SetNode",
     .body = ROUTE_OPTIONAL_BODY, .constant = {"action", "cordon"},
     .summary = "Place no new work on a node"},
    {"POST", "/v1/nodes/{name}:drain", "drainNode", .call = "SetNode", .body = ROUTE_OPTIONAL_BODY,
     .constant = {"action", "drain"}, .summary = "Move work off a node"},
    {"POST", "/v1/nodes/{name}:uncordon", "uncordonNode", .call = "SetNode",
     .body = ROUTE_OPTIONAL_BODY, .constant = {"action", "uncordon"},
     .summary = "Let a node take work again"},
    {"POST", "/v1/nodes/{name}:rekey", "rekeyNode", .call = "SetNode", .body = ROUTE_OPTIONAL_BODY,
     .constant = {"action", "rekey"},
     .summary = "Forget a node's key: the next agent of its name that has a join token is it"},
    {"GET", "/v1/events", "listEvents", .call = "ListEvents", .stream = ROUTE_STREAM_EVENTS,
     .summary = "What happened, in order"},
    {"GET", "/v1/events/replay", "replay", .call = "Replay",
     .summary = "What was stored when an event was the newest"},
    {"GET", "/v1/version", "getVersion", .call = "Version", .open = true,
     .summary = "This build and its cluster"},
    {"GET", "/v1/whoami", "whoAmI", .call = "WhoAmI", .summary = "The token this request carries"},
    {"GET", "/v1/tenants", "listTenants", .call = "ListTenants",
     .summary = "Tenants and their shares"},
    {"POST", "/v1/tenants", "createTenant", .call = "SetTenant", .body = ROUTE_OPTIONAL_BODY,
     .status = 201, .constant = {"create", "true"}, .summary = "Make a tenant"},
    {"GET", "/v1/tenants/{name}", "getTenant", .call = "ListTenants", .summary = "One tenant"},
    {"PUT", "/v1/tenants/{name}", "changeTenant", .call = "SetTenant", .body = ROUTE_OPTIONAL_BODY,
     .constant = {"create", "false"}, .summary = "Change a tenant: all of its figures"},
    {"GET", "/v1/tokens", "listTokens", .call = "ListTokens",
     .summary = "Tokens, without their secrets"},
    {"POST", "/v1/tokens", "createToken", .call = "CreateToken", .body = ROUTE_OPTIONAL_BODY,
     .status = 201, .summary = "Make a token; the answer shows it this once"},
    {"POST", "/v1/tokens/{id}:revoke", "revokeToken", .call = "RevokeToken",
     .body = ROUTE_OPTIONAL_BODY, .summary = "Revoke a token"},
    {"GET", "/v1/secrets", "listSecrets", .call = "ListSecrets",
     .summary = "Secrets by name, with times; never their values"},
    {"PUT", "/v1/secrets/{name}", "setSecret", .call = "SetSecret", .body = ROUTE_OPTIONAL_BODY,
     .secret = "value", .summary = "Make a secret, or replace its value"},
    {"DELETE", "/v1/secrets/{name}", "removeSecret", .call = "RemoveSecret",
     .summary = "Remove a secret; workers that run keep their value"},
    {"POST", "/v1/secrets:rekey", "rekeySecrets", .call = "RekeySecrets",
     .body = ROUTE_OPTIONAL_BODY, .summary = "Seal all secrets again with a new key"},
    {"GET", "/v1/audit", "listAudit", .call = "ListAudit", .summary = "Who changed what"},
    {"POST", "/v1/backup", "backup", .call = "Backup", .body = ROUTE_OPTIONAL_BODY,
     .summary = "Copy the store to a file on the coordinator's machine"},
    {"POST", "/v1/login", "login", ROUTE_LOGIN, .open = true,
     .summary = "Exchange a token for a session cookie"},
    {"POST", "/v1/logout", "logout", ROUTE_LOGOUT, .open = true, .summary = "End the session"},
    {"GET", "/healthz", "isAlive", ROUTE_HEALTH, .open = true,
     .summary = "200 while the program runs"},
    {"GET", "/readyz", "isReady", ROUTE_READY, .open = true,
     .summary = "200 while changes are accepted, else 503 and the reason"},
    {"GET", "/metrics", "getMetrics", ROUTE_METRICS, .summary = "Prometheus metrics"},
    {"GET", "/openapi.json", "getOpenApi", ROUTE_OPENAPI, .open = true,
     .summary = "This description"},
    {.path = NULL},
};

/* True if `path` matches the pattern. The one value may contain anything except '/' and ':'. */
static bool fits(const char *pattern, const char *path, struct route_match *ret)
{
    const char *open = strchr(pattern, '{');
    ret->field[0] = ret->value[0] = 0;
    if (!open)
        return strcmp(pattern, path) == 0;
    size_t head = (size_t)(open - pattern);
    const char *close = strchr(open, '}');
    if (strncmp(pattern, path, head) != 0)
        return false;
    const char *value = path + head, *tail = close + 1;
    size_t size = strcspn(value, "/:");
    if (size == 0 || size >= sizeof(ret->value) || strcmp(value + size, tail) != 0)
        return false;
    memcpy(ret->value, value, size);
    ret->value[size] = 0;
    memcpy(ret->field, open + 1, (size_t)(close - open - 1));
    ret->field[close - open - 1] = 0;
    return true;
}

void route_find(const char *method, const char *path, struct route_match *ret)
{
    struct route_match match;
    *ret = (struct route_match){0};
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    for (const struct route *route = routes; route->path; route++) {
        if (!fits(route->path, path, &match))
            continue;
        if (strcmp(route->method, method) == 0) {
            (void)str_copy(ret->field, sizeof(ret->field), match.field);
            (void)str_copy(ret->value, sizeof(ret->value), match.value);
            ret->route = route;
            return;
        }
        size_t used = strlen(ret->allow);
        (void)str_printf(ret->allow + used, sizeof(ret->allow) - used, "%s%s", used ? ", " : "",
                         route->method);
    }
}

const char *route_nearest(const char *path)
{
    enum { ROUTES_MAX = 64 };
    const char *names[ROUTES_MAX + 1];
    int count = 0;
    for (const struct route *route = routes; route->path && count < ROUTES_MAX; route++)
        names[count++] = route->path;
    names[count] = NULL;
    return strlen(path) <= STR_DISTANCE_LENGTH_MAX ? str_nearest(path, names) : NULL;
}

const ProtobufCMethodDescriptor *route_call(const struct route *route)
{
    return protobuf_c_service_descriptor_get_method_by_name(&muster__coordinator__descriptor,
                                                            route->call);
}
