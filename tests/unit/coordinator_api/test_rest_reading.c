/* Reading often: what is given again without being made again, and that it is never too old, nor
 * for anybody else. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/unit/coordinator_api/rest_client.h"

TestSuite(rest_reading, .init = rest_init, .fini = rest_fini);

static const char job_body[] = "{\"name\":\"a\",\"command\":[\"true\"],\"nodes\":2}";

static int get(const char *path, const char *headers)
{
    return rest_request((struct http){"GET", path, NULL, headers});
}

static void submit(char ret_id[32])
{
    cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs", job_body}), 201, "%s", rest.answer);
    rest_job_id(ret_id);
}

/* Of a job that has ended nothing changes any more: its queueing time stands still, too. */
static void submit_ended(void)
{
    char id[32], path[64];
    submit(id);
    snprintf(path, sizeof(path), "/v1/jobs/%s:cancel", id);
    cr_assert_eq(rest_request((struct http){"POST", path, "{}"}), 200, "%s", rest.answer);
    cr_assert(strstr(rest.answer, "\"state\":\"cancelled\""), "%s", rest.answer);
}

static const char *body_of_answer(void)
{
    const char *end = strstr(rest.answer, "\r\n\r\n");
    cr_assert(end, "%s", rest.answer);
    return end + 4;
}

static void header_of_answer(const char *name, char *ret, size_t size)
{
    char pattern[64];
    snprintf(pattern, sizeof(pattern), "\r\n%s: ", name);
    const char *at = strstr(rest.answer, pattern);
    cr_assert(at, "no %s: %.400s", name, rest.answer);
    at += strlen(pattern);
    snprintf(ret, size, "%.*s", (int)strcspn(at, "\r"), at);
}

static long shared_answers(void)
{
    static const char name[] = "\nmuster_http_answers_shared_total ";
    cr_assert_eq(get("/metrics", NULL), 200);
    const char *at = strstr(rest.answer, name);
    cr_assert(at, "%s", rest.answer);
    return strtol(at + strlen(name), NULL, 10);
}

Test(rest_reading, an_etag_saves_what_the_client_has)
{
    char id[32], etag[80], headers[160], other[80];
    submit_ended();
    static const char *const paths[] = {"/v1/jobs", "/v1/jobs/a", "/v1/nodes", "/", "/app.js"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        cr_assert_eq(get(paths[i], NULL), 200);
        header_of_answer("ETag", etag, sizeof(etag));
        static const char *const before[] = {"", "\"x\", ", "*, "};
        for (size_t j = 0; j < sizeof(before) / sizeof(*before); j++) {
            snprintf(headers, sizeof(headers), "If-None-Match: %s%s\r\n", before[j], etag);
            cr_assert_eq(get(paths[i], headers), 304, "%s: %s", paths[i], rest.answer);
            cr_assert_str_empty(body_of_answer());
        }
        cr_assert_eq(get(paths[i], "If-None-Match: \"x\"\r\n"), 200);
    }
    cr_assert_eq(get("/v1/jobs", NULL), 200);
    header_of_answer("ETag", etag, sizeof(etag));
    snprintf(headers, sizeof(headers), "If-None-Match: %s\r\n", etag);
    submit(id);
    cr_assert_eq(get("/v1/jobs", headers), 200);
    header_of_answer("ETag", other, sizeof(other));
    cr_assert_str_neq(other, etag);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs", NULL, headers, "wrong"}), 401);
}

static void inflated(const char *from, size_t size, char *ret, size_t max)
{
    z_stream stream = {.next_in = (z_const Bytef *)from,
                       .avail_in = (uInt)size,
                       .next_out = (Bytef *)ret,
                       .avail_out = (uInt)max - 1};
    cr_assert_eq(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
    cr_assert_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
    ret[stream.total_out] = 0;
    inflateEnd(&stream);
}

Test(rest_reading, gzip_is_for_those_that_take_it)
{
    static char plain[REST_ANSWER_MAX], unpacked[REST_ANSWER_MAX];
    char size[32], vary[64];
    for (int i = 0; i < 5; i++)
        submit_ended();
    static const char *const refusals[] = {NULL, "Accept-Encoding: identity\r\n",
                                           "Accept-Encoding: gzip;q=0, br\r\n",
                                           "Accept-Encoding: gzip; q=0.000\r\n"};
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
        cr_assert_eq(get("/v1/jobs", refusals[i]), 200);
        cr_assert_not(strstr(rest.answer, "Content-Encoding"), "%s", refusals[i]);
        header_of_answer("Vary", vary, sizeof(vary));
        cr_assert_str_eq(vary, "Accept-Encoding");
    }
    snprintf(plain, sizeof(plain), "%s", body_of_answer());
    static const char *const wishes[] = {"Accept-Encoding: gzip\r\n",
                                         "Accept-Encoding: deflate, GZIP;q=0.5\r\n",
                                         "Accept-Encoding: *\r\n"};
    for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++) {
        cr_assert_eq(get("/v1/jobs", wishes[i]), 200);
        header_of_answer("Content-Length", size, sizeof(size));
        cr_assert(strstr(rest.answer, "Content-Encoding: gzip"), "%s", wishes[i]);
        inflated(body_of_answer(), strtoul(size, NULL, 10), unpacked, sizeof(unpacked));
        cr_assert_str_eq(unpacked, plain);
        cr_assert_lt(strtoul(size, NULL, 10), strlen(plain) / 2);
    }
}

Test(rest_reading, every_change_is_in_the_next_answer)
{
    char id[32], quoted[64], path[64];
    long before = shared_answers();
    for (int i = 0; i < 40; i++) {
        cr_assert_eq(get("/v1/jobs?limit=3", NULL), 200);
        cr_assert_eq(get("/v1/jobs?limit=3", NULL), 200);
        submit(id);
        snprintf(quoted, sizeof(quoted), "\"id\":\"%.31s\"", id);
        cr_assert_eq(get("/v1/jobs?limit=3", NULL), 200);
        cr_assert(strstr(rest.answer, quoted), "%s is not among: %s", id, rest.answer);
        snprintf(path, sizeof(path), "/v1/jobs/%.31s", id);
        cr_assert_eq(get(path, NULL), 200);
        cr_assert(strstr(rest.answer, "\"state\":\"queued\""));
        snprintf(path, sizeof(path), "/v1/jobs/%.31s:cancel", id);
        cr_assert_eq(rest_request((struct http){"POST", path}), 200);
        snprintf(path, sizeof(path), "/v1/jobs/%.31s", id);
        cr_assert_eq(get(path, NULL), 200);
        cr_assert(strstr(rest.answer, "\"state\":\"cancelled\""), "%s", rest.answer);
    }
    cr_assert_geq(shared_answers() - before, 20, "most second readings are given again");
}

static void make(const char *path, const char *body)
{
    cr_assert_eq(rest_request((struct http){"POST", path, body}), 201, "%s", rest.answer);
}

static void make_viewer(const char *tenant, char ret_token[128])
{
    char body[160];
    snprintf(body, sizeof(body), "{\"name\":\"%s\",\"weight\":1}", tenant);
    make("/v1/tenants", body);
    snprintf(body, sizeof(body), "{\"name\":\"%s\",\"role\":\"member\",\"tenant\":\"%s\"}", tenant,
             tenant);
    make("/v1/tokens", body);
    const char *at = strstr(rest.answer, "\"plain\":\"");
    cr_assert(at && sscanf(at, "\"plain\":\"%127[^\"]", ret_token) == 1, "%s", rest.answer);
}

Test(rest_reading, nobody_gets_what_was_made_for_others)
{
    enum { TENANTS = 2 };
    static const char *const names[TENANTS] = {"red", "blue"};
    char tokens[TENANTS][128], mine[64], others[64];
    for (int i = 0; i < TENANTS; i++) {
        char body[96];
        make_viewer(names[i], tokens[i]);
        snprintf(body, sizeof(body), "{\"name\":\"of-%s\",\"command\":[\"true\"]}", names[i]);
        cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs", body, NULL, tokens[i]}), 201);
    }
    for (int i = 0; i < 30; i++) {
        const char *own = names[i % TENANTS], *other = names[(i + 1) % TENANTS];
        snprintf(mine, sizeof(mine), "\"name\":\"of-%s\"", own);
        snprintf(others, sizeof(others), "\"name\":\"of-%s\"", other);
        struct http how = {"GET", "/v1/jobs", NULL, NULL, tokens[i % TENANTS]};
        cr_assert_eq(rest_request(how), 200);
        cr_assert(strstr(rest.answer, mine) && !strstr(rest.answer, others), "%s", rest.answer);
        cr_assert_eq(get("/v1/jobs", NULL), 200);
        cr_assert(strstr(rest.answer, mine) && strstr(rest.answer, others), "the admin sees both");
        snprintf(mine, sizeof(mine), "/v1/jobs/of-%s", other);
        how.path = mine;
        cr_assert_eq(rest_request(how), 404, "%s", rest.answer);
        how.token = "";
        how.path = "/v1/jobs";
        cr_assert_eq(rest_request(how), 401);
    }
}

Test(rest_reading, a_token_or_session_that_ends_reads_nothing_more)
{
    char token[128], session[512], ends[600];
    make_viewer("red", token);
    struct http how = {"GET", "/v1/jobs", NULL, NULL, token};
    for (int i = 0; i < 3; i++)
        cr_assert_eq(rest_request(how), 200);
    for (int i = 0; i < 10; i++) {
        rest_log_in(token, session);
        for (int j = 0; j < 2; j++)
            cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs", NULL, session, ""}), 200);
        snprintf(ends, sizeof(ends), "%sX-Muster-Request: 1\r\n", session);
        cr_assert_eq(rest_request((struct http){"POST", "/v1/logout", "", ends, ""}), 200);
        cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs", NULL, session, ""}), 401);
    }
    cr_assert_eq(rest_request(how), 200);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/tokens/red:revoke"}), 200);
    cr_assert_eq(rest_request(how), 401, "%s", rest.answer);
}

Test(rest_reading, many_that_ask_the_same_at_once_get_the_same)
{
    enum { CLIENTS = 40 };
    static char first[REST_ANSWER_MAX];
    char text[512];
    int fds[CLIENTS];
    submit_ended();
    cr_assert_eq(get("/v1/jobs", NULL), 200);
    snprintf(first, sizeof(first), "%s", body_of_answer());
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = rest_dial();
        snprintf(
            text, sizeof(text),
            "GET /v1/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "
            "%s\r\n\r\n",
            i % 4 == 3 ? "whoami" : "jobs", i % 4 == 2 ? "mst_wrong" : rest.token);
        rest_send(fds[i], text, strlen(text));
    }
    for (int i = 0; i < CLIENTS; i++) {
        rest_receive(fds[i], NULL);
        cr_assert_eq(rest_status(), i % 4 == 2 ? 401 : 200, "%d: %s", i, rest.answer);
        if (i % 4 < 2)
            cr_assert_str_eq(body_of_answer(), first);
        close(fds[i]);
    }
}
