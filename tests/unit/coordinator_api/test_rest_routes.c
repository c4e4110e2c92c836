/* Every route there is, taken from the table so that a new one cannot be forgotten, tried with no
 * token, wrong ones, another tenant's ids, bodies too large, malformed and repeated. What must hold
 * for all: a refusal with the right status and our error form, never a 5xx, and the coordinator
 * goes on.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/api_rest/routes.h"
#include "tests/unit/coordinator_api/rest_client.h"

enum { PATH_SIZE = 8192 };

static struct {
    char red[128], blue[128]; /* tokens of two members */
    char job[32];             /* of red */
} made;

static void make_member(const char *tenant, char ret[128])
{
    char body[256];
    snprintf(body, sizeof(body), "{\"name\":\"%s\"}", tenant);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/tenants", body}), 201, "%s", rest.answer);
    snprintf(body, sizeof(body), "{\"name\":\"%s\",\"role\":\"member\",\"tenant\":\"%s\"}", tenant,
             tenant);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/tokens", body}), 201, "%s", rest.answer);
    const char *plain = strstr(rest.answer, "\"plain\":\"");
    cr_assert(plain && sscanf(plain, "\"plain\":\"%127[^\"]", ret) == 1, "%s", rest.answer);
}

static void init(void)
{
    rest_init();
    make_member("red", made.red);
    make_member("blue", made.blue);
    struct http how = {"POST", "/v1/jobs", "{\"name\":\"red-secret\",\"command\":[\"true\"]}"};
    how.token = made.red;
    cr_assert_eq(rest_request(how), 201, "%s", rest.answer);
    rest_job_id(made.job);
}

TestSuite(rest_routes, .init = init, .fini = rest_fini);

/* The pattern with its {name} replaced, and `tail` behind it. */
static const char *path_of(const struct route *route, const char *value, const char *tail)
{
    static char path[PATH_SIZE];
    const char *open = strchr(route->path, '{');
    if (open)
        snprintf(path, sizeof(path), "%.*s%s%s%s", (int)(open - route->path), route->path, value,
                 strchr(open, '}') + 1, tail);
    else
        snprintf(path, sizeof(path), "%s%s", route->path, tail);
    return path;
}

static bool is_public(const struct route *route)
{
    return route->kind == ROUTE_HEALTH || route->kind == ROUTE_READY ||
           route->kind == ROUTE_OPENAPI || route->kind == ROUTE_LOGIN ||
           route->kind == ROUTE_LOGOUT || strcmp(route->path, "/v1/version") == 0;
}

static int try(const struct route *route, struct http how)
{
    how.method = route->method;
    int status = rest_request(how);
    cr_assert(status > 0 && status < 500, "%s %s -> %d %.300s", route->method, how.path, status,
              rest.answer);
    return status;
}

Test(rest_routes, want_a_token_that_is_good_and_may)
{
    static const char *const wrong[] = {"", "nonsense", "mst_admin_wrong",
                                        "mst_admin_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
    for (const struct route *route = routes; route->path; route++) {
        if (is_public(route))
            continue;
        const char *path = path_of(route, "red", "");
        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
            cr_assert_eq(try(route, (struct http){.path = path, .token = wrong[i]}), 401,
                         "%s %s with token %zu: %.200s", route->method, path, i, rest.answer);
        cr_assert_eq(try(route, (struct http){.path = path, .token = rest.agent_token}), 403,
                     "%s %s: %.200s", route->method, path, rest.answer);
    }
}

/* By id and by name; what is asked for is the caller's own word, what it would tell is not. */
Test(rest_routes, tell_nothing_of_another_tenant)
{
    const char *const theirs[] = {made.job, "red-secret", "red"};
    const char *const hidden[] = {"red-secret", made.job, "red-secret"};
    for (const struct route *route = routes; route->path; route++) {
        const char *open = strchr(route->path, '{');
        for (size_t i = 0; i < 3; i++) {
            const char *path = path_of(route, theirs[i], "");
            int status = try(route, (struct http){.path = path, .token = made.blue});
            const char *body = strstr(rest.answer, "\r\n\r\n");
            cr_assert(open == NULL || status >= 400, "%s %s -> %d %.300s", route->method, path,
                      status, rest.answer);
            cr_assert(!body || !strstr(body, hidden[i]), "%s %s tells: %.500s", route->method, path,
                      body);
            if (strncmp(route->path, "/v1/jobs/{", 10) == 0)
                cr_assert_eq(status, 404, "%s %s -> %d", route->method, path, status);
        }
    }
    struct http own = {"GET", "/v1/jobs/red-secret"};
    own.token = made.red;
    cr_assert_eq(rest_request(own), 200, "it is there, and not cancelled");
    cr_assert_null(strstr(rest.answer, "cancelled"));
}

Test(rest_routes, refuse_what_is_malformed)
{
    static const char *const bodies[] = {"{",
                                         "[]",
                                         "null",
                                         "\xff\xfe",
                                         "{\"no_such_field\":1}",
                                         "{\"reason\":{}}",
                                         "{\"min\":[1]}",
                                         "\"text\"",
                                         "{\"spec\":7}"};
    static const char *const tails[] = {"?no_such_parameter=1", "?%zz=%", "?=", "?limit=many&&"};
    char large[5000];
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = 0;
    for (const struct route *route = routes; route->path; route++) {
        for (size_t i = 0; route->body && i < sizeof(bodies) / sizeof(*bodies); i++)
            cr_assert_geq(
                try(route, (struct http){.path = path_of(route, "red", ""), .body = bodies[i]}),
                400, "%s %s took %s", route->method, route->path, bodies[i]);
        for (size_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
            int status = try(route, (struct http){.path = path_of(route, "red", tails[i])});
            cr_assert(status >= 400 || route->kind != ROUTE_CALL || i > 0, "%s %s%s -> %d",
                      route->method, route->path, tails[i], status);
        }
        if (strchr(route->path, '{'))
            cr_assert_geq(try(route, (struct http){.path = path_of(route, large, "")}), 400);
    }
}

Test(rest_routes, refuse_what_is_too_large)
{
    enum { LARGE = 2 << 20 };
    char *body = malloc(LARGE + 1);
    memset(body, ' ', LARGE);
    body[LARGE] = 0;
    body[0] = '{';
    for (const struct route *route = routes; route->path; route++) {
        if (!route->body)
            continue;
        cr_assert_eq(try(route, (struct http){.path = path_of(route, "red", ""), .body = body}),
                     413, "%s %s: %.200s", route->method, route->path, rest.answer);
    }
    free(body);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs"}), 200);
}

/* What a call is usually asked with; others are asked with nothing. */
static const char *body_of(const struct route *route)
{
    static char backup[128];
    snprintf(backup, sizeof(backup), "{\"path\":\"%s/copy\"}", rest.dir);
    const struct {
        const char *call, *body;
    } known[] = {{"SubmitJob", "{\"name\":\"again\",\"command\":[\"true\"]}"},
                 {"ScaleJob", "{\"min\":1}"},
                 {"Plan", "{\"spec\":{\"name\":\"p\",\"command\":\"true\"}}"},
                 {"SetTenant", "{\"name\":\"again\"}"},
                 {"CreateToken", "{\"name\":\"again\",\"role\":\"viewer\",\"tenant\":\"red\"}"},
                 {"Backup", backup}};
    for (size_t i = 0; route->call && i < sizeof(known) / sizeof(*known); i++)
        if (strcmp(known[i].call, route->call) == 0)
            return known[i].body;
    return route->body ? "{}" : NULL;
}

static const char *value_of(const struct route *route)
{
    if (strncmp(route->path, "/v1/jobs/", 9) == 0)
        return made.job;
    return strncmp(route->path, "/v1/tokens/", 11) == 0 ? "blue" : "red";
}

Test(rest_routes, answer_a_repeat_as_they_did_or_say_that_it_is_done)
{
    for (const struct route *route = routes; route->path; route++) {
        struct http how = {.path = path_of(route, value_of(route), ""),
                           .body = body_of(route),
                           .headers = "Idempotency-Key: k-1\r\n"};
        int first = try(route, how), second = try(route, how);
        bool done = second == 409 || (second == 404 && strstr(route->path, ":revoke"));
        cr_assert(second == first || (first < 300 && done), "%s %s -> %d, then %d: %.300s",
                  route->method, how.path, first, second, rest.answer);
    }
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs?limit=100"}), 200);
    const char *first = strstr(rest.answer, "\"again\"");
    cr_assert(first && !strstr(first + 1, "\"again\""), "one key, one job");
}

/* A browser's session and what it opened. */

static int open_stream(const char *path, const char *cookie)
{
    char text[1024];
    int fd = rest_dial();
    int size = snprintf(text, sizeof(text),
                        "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n%s\r\n",
                        path, cookie);
    rest_send(fd, text, (size_t)size);
    return fd;
}

Test(rest_routes, streams_end_with_the_session_or_the_token_they_came_with)
{
    static const char last_chunk[] = "\r\n0\r\n\r\n";
    char cookie[512], other[512], headers[600];
    rest_log_in(made.red, cookie);
    rest_log_in(made.red, other);
    int ends = open_stream("/v1/events?after=0", cookie);
    int stays = open_stream("/v1/events?after=0", other);
    rest_receive(ends, "\"kind\":\"job_state\"");
    rest_receive(stays, "\"kind\":\"job_state\"");
    snprintf(headers, sizeof(headers), "%sX-Muster-Request: 1\r\n", cookie);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/logout", "", headers, ""}), 200);
    rest_receive(ends, last_chunk);
    cr_assert(strstr(rest.answer, last_chunk) && strstr(rest.answer, "UNAUTHENTICATED"), "%s",
              rest.answer);
    struct http submit = {"POST", "/v1/jobs", "{\"name\":\"later\",\"command\":[\"true\"]}"};
    submit.token = made.red;
    cr_assert_eq(rest_request(submit), 201);
    rest_receive(stays, "\"kind\":\"job_state\"");
    cr_assert(strstr(rest.answer, "job_state"), "another session's goes on: %s", rest.answer);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/tokens/red:revoke", "{}"}), 200);
    rest_receive(stays, last_chunk);
    cr_assert(strstr(rest.answer, last_chunk), "%s", rest.answer);
    close(ends);
    close(stays);
}
