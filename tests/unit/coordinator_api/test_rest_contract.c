/* What REST accepts is what it says that it accepts, and nothing is accepted to be ignored. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_api/rest_client.h"

TestSuite(rest_contract, .init = rest_init, .fini = rest_fini);

static const char job_body[] = "{\"name\":\"a\",\"command\":[\"true\"],\"nodes\":2}";

static int post(const char *path, const char *body)
{
    return rest_request((struct http){"POST", path, body});
}

Test(rest_contract, a_body_says_nothing_else_than_its_address)
{
    static const char *const paths[] = {"/v1/jobs/a:cancel", "/v1/jobs/a:scale",
                                        "/v1/tokens/admin:revoke"};
    static const char *const bodies[] = {"{\"id\":5}", "{\"id\":{}}", "{\"id\":[\"a\"]}",
                                         "{\"id\":null}", "{\"id\":\"b\"}"};
    cr_assert_eq(post("/v1/jobs", job_body), 201);
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
        for (size_t j = 0; j < sizeof(bodies) / sizeof(*bodies); j++) {
            cr_assert_eq(post(paths[i], bodies[j]), 400, "%s %s: %s", paths[i], bodies[j],
                         rest.answer);
            cr_assert(strstr(rest.answer, "\"field\":\"id\""), "%s", rest.answer);
        }
    cr_assert_eq(post("/v1/nodes/n1:drain", "{\"action\":\"cordon\"}"), 400);
    cr_assert_eq(post("/v1/tenants", "{\"name\":\"t\",\"create\":false}"), 400);
    cr_assert_eq(
        rest_request((struct http){"POST", "/v1/login", "{\"token\":\"x\",\"more\":1}",
                                   "X-Muster-Request: 1\r\nContent-Type: application/json\r\n"}),
        400);
    cr_assert_eq(post("/v1/jobs/a:cancel", "{\"id\":\"a\",\"reason\":\"done\"}"), 200, "%s",
                 rest.answer);
}

Test(rest_contract, a_nul_in_an_address_does_not_end_it)
{
    static const char *const paths[] = {"/v1/jobs?tenant=default%00x", "/v1/jobs%00?tenant=a",
                                        "/v1/jobs/a%00b", "/v1/jobs/a/metrics?series=%00"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
        cr_assert_eq(rest_request((struct http){"GET", paths[i]}), 400, "%s: %s", paths[i],
                     rest.answer);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs?tenant=%2500"}), 200);
}

Test(rest_contract, a_rank_that_is_none_is_refused)
{
    cr_assert_eq(post("/v1/jobs", job_body), 201);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs/a/logs?rank=1"}), 200);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs/a/logs?rank=99"}), 400);
    cr_assert(strstr(rest.answer, "has no rank 99") && strstr(rest.answer, "0 to 1"), "%s",
              rest.answer);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs/a/logs?rank=-2"}), 400);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs/a/logs"}), 200);
}

Test(rest_contract, limits_are_those_that_are_told)
{
    cr_assert_eq(post("/v1/tenants", "{\"name\":\"t\",\"weight\":1001}"), 400, "%s", rest.answer);
    cr_assert_eq(post("/v1/tenants", "{\"name\":\"t\",\"weight\":1000}"), 201, "%s", rest.answer);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/events?after=9223372036854775808"}), 400);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/events?after=9223372036854775807"}), 200);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/events?after="}), 400);
}

Test(rest_contract, strangers_hear_of_nothing_but_that)
{
    static const char *const paths[] = {"/v1/jobs?limit=many", "/v1/jobs/nobody", "/v1/nodes?x=1",
                                        "/v1/events/replay?at=-1"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        cr_assert_eq(rest_request((struct http){"GET", paths[i], .token = ""}), 401, "%s: %s",
                     paths[i], rest.answer);
        cr_assert(strstr(rest.answer, "WWW-Authenticate: Bearer"));
    }
    cr_assert_eq(rest_request((struct http){"GET", "/v1/version?x=1", .token = ""}), 400);
}
