#include <criterion/criterion.h>
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

static void check_refs(const struct tree *node, const struct tree *schemas)
{
    const struct tree *child;
    tree_each(child, node) {
        if (child->key && strcmp(child->key, "$ref") == 0) {
            const char *name = strrchr(child->string, '/') + 1;
            cr_assert(tree_get(schemas, name), "%s is not described", name);
        }
        check_refs(child, schemas);
    }
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
        cr_assert(tree_get(tree_get(tree, "paths"), route->path), "%s", route->path);
    struct tree *schemas = tree_get(tree_get(tree, "components"), "schemas");
    check_refs(tree, schemas);
    struct tree *job = tree_get(tree_get(schemas, "muster.Job"), "properties");
    cr_assert_str_eq(tree_get(tree_get(job, "step"), "format")->string, "uint64");
    cr_assert(tree_get(tree_get(job, "step"), "nullable")->boolean,
              "no step is told by most programs");
    cr_assert_null(tree_get(tree_get(job, "generation"), "nullable"));
    arena_fini(&arena);
    buf_fini(&text);
}
