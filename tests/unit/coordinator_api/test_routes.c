#include <ctype.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/tree.h"
#include "coordinator/api_rest/openapi.h"
#include "coordinator/api_rest/routes.h"

static const struct route *find(const char *method, const char *path, struct route_match *match)
{
    route_find(method, path, match);
    return match->route;
}

Test(routes, paths_are_taken_apart)
{
    struct route_match match;
    cr_assert_str_eq(find("GET", "/v1/jobs/j1", &match)->call, "GetJob");
    cr_assert_str_eq(match.field, "id");
    cr_assert_str_eq(match.value, "j1");
    cr_assert_str_eq(find("HEAD", "/v1/jobs", &match)->call, "ListJobs");
    cr_assert_str_eq(find("POST", "/v1/jobs/my.job-2:cancel", &match)->call, "CancelJob");
    cr_assert_str_eq(match.value, "my.job-2");
    cr_assert_str_eq(find("POST", "/v1/nodes/n:drain", &match)->constant.value, "drain");
    cr_assert_null(find("GET", "/v1/jobs/", &match));
    cr_assert_null(find("GET", "/v1/jobs/a/b/c", &match));
    cr_assert_null(find("GET", "/v1/jobs/a/logs/", &match));
    cr_assert_null(find("GET", "", &match));
}

Test(routes, a_wrong_method_learns_the_right_ones)
{
    struct route_match match;
    cr_assert_null(find("DELETE", "/v1/jobs", &match));
    cr_assert_str_eq(match.allow, "POST, GET");
    cr_assert_null(find("GET", "/v1/jobs/a:cancel", &match));
    cr_assert_str_eq(match.allow, "POST");
    cr_assert_null(find("GET", "/v1/nothing", &match));
    cr_assert_str_empty(match.allow);
    cr_assert_str_eq(route_nearest("/v1/jbos"), "/v1/jobs");
}

Test(routes, every_route_names_a_method_of_the_service)
{
    for (const struct route *route = routes; route->path; route++)
        if (route->kind == ROUTE_CALL)
            cr_assert(route_call(route), "%s", route->call);
}

static void check_refs(const struct tree *node, const struct tree *components)
{
    const struct tree *child;
    tree_each(child, node) {
        if (child->key && strcmp(child->key, "$ref") == 0) {
            char kind[32], name[96];
            cr_assert_eq(sscanf(child->string, "#/components/%31[^/]/%95s", kind, name), 2);
            cr_assert(tree_get(tree_get(components, kind), name), "%s is not described", name);
        }
        check_refs(child, components);
    }
}

static const struct tree *operation_of(const struct tree *document, const struct route *route)
{
    char method[8];
    snprintf(method, sizeof(method), "%s", route->method);
    for (char *c = method; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return tree_get(tree_get(tree_get(document, "paths"), route->path), method);
}

static bool has_parameter(const struct tree *operation, const char *where, const char *name)
{
    const struct tree *one;
    tree_each(one, tree_get(operation, "parameters")) {
        const struct tree *in = tree_get(one, "in"), *called = tree_get(one, "name");
        if (in && strcmp(in->string, where) == 0 && strcmp(called->string, name) == 0)
            return strcmp(where, "path") != 0 || tree_get(one, "required")->boolean;
    }
    return false;
}

static void check_id(const char *id)
{
    cr_assert(islower((unsigned char)id[0]), "%s", id);
    for (const char *c = id; *c; c++)
        cr_assert(isalnum((unsigned char)*c), "%s", id);
    int count = 0;
    for (const struct route *other = routes; other->path; other++)
        count += strcasecmp(other->id, id) == 0;
    cr_assert_eq(count, 1, "%s", id);
}

static void check_operation(const struct tree *operation, const struct route *route)
{
    char name[32] = "";
    const char *open = strchr(route->path, '{');
    const struct tree *answers = tree_get(operation, "responses"), *one;
    cr_assert_str_eq(tree_get(operation, "operationId")->string, route->id);
    check_id(route->id);
    if (open)
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(open + 1, "}"), open + 1);
    cr_assert(!open || has_parameter(operation, "path", name), "%s", route->path);
    tree_each(one, answers) {
        cr_assert_eq(strspn(one->key, "0123456789"), 3, "%s: %s", route->id, one->key);
        cr_assert(tree_get(one, "description") || tree_get(one, "$ref"));
    }
    bool asks = !route->open;
    cr_assert_eq(tree_get(operation, "security") != NULL, route->open, "%s", route->id);
    cr_assert(!asks || (tree_get(answers, "401") && tree_get(answers, "403")), "%s", route->id);
    cr_assert(route->kind != ROUTE_LOGIN || tree_get(answers, "400"));
    bool body = route->body != ROUTE_NO_BODY || route->kind == ROUTE_LOGIN;
    cr_assert_eq(tree_get(operation, "requestBody") != NULL, body, "%s", route->id);
    const struct tree *good = tree_get(answers, route->status ? "201" : "200");
    bool streams = route->stream != ROUTE_NO_STREAM;
    cr_assert_eq(tree_get(tree_get(good, "content"), "text/event-stream") != NULL, streams);
}

/* Every object of a request says that it holds nothing else; answers say what they always have. */
static void check_schemas(const struct tree *schemas)
{
    const struct tree *schema, *name;
    tree_each(schema, schemas) {
        const struct tree *more = tree_get(schema, "additionalProperties");
        bool input = strstr(schema->key, ".Input");
        cr_assert(!input || (more && !more->boolean), "%s", schema->key);
    }
    int found = 0;
    tree_each(name, tree_get(tree_get(schemas, "muster.Job"), "required"))
        found += strcmp(name->string, "state") == 0 || strcmp(name->string, "loss") == 0;
    cr_assert_eq(found, 2, "a job always has a state and a loss, which may be null");
}

Test(openapi, is_json_that_describes_every_route_and_schema)
{
    struct buf text;
    struct arena arena;
    struct tree *tree;
    struct error err = {0};
    buf_init(&text, 1 << 20);
    arena_init(&arena, 16 << 20);
    cr_assert_eq(openapi_render("1", &text), 0);
    struct tree_input input = {.text = buf_cstr(&text), .size = text.size};
    cr_assert_eq(tree_parse_json(&input, &arena, &tree, &err), 0, "%s", err.text);
    for (const struct route *route = routes; route->path; route++)
        check_operation(operation_of(tree, route), route);
    struct tree *schemas = tree_get(tree_get(tree, "components"), "schemas");
    check_refs(tree, tree_get(tree, "components"));
    struct tree *job = tree_get(tree_get(schemas, "muster.Job"), "properties");
    cr_assert_str_eq(tree_get(tree_get(job, "step"), "format")->string, "uint64");
    cr_assert(tree_get(tree_get(job, "step"), "nullable")->boolean,
              "no step is told by most programs");
    cr_assert_null(tree_get(tree_get(job, "generation"), "nullable"));
    check_schemas(schemas);
    const struct tree *logs =
        tree_get(tree_get(tree_get(tree, "paths"), "/v1/jobs/{id}/logs"), "get");
    cr_assert(has_parameter(logs, "query", "tail") && !has_parameter(logs, "query", "tail_lines"));
    arena_fini(&arena);
    buf_fini(&text);
}
