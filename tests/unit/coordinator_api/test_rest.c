/* REST as a client sees it: a real coordinator process on a free port, raw bytes over TCP. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/env/disk_os.h"
#include "coordinator/api_rest/routes.h"
#include "tests/unit/coordinator_api/rest_client.h"

static const char job_body[] = "{\"name\":\"a\",\"command\":[\"true\"],\"nodes\":2}";

TestSuite(rest, .init = rest_init, .fini = rest_fini);

Test(rest, a_job_from_submit_to_cancel)
{
    char id[32], path[128];
    cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs", job_body}), 201, "%s", rest.answer);
    rest_job_id(id);
    cr_assert(strstr(rest.answer, "\"state\":\"queued\""));
    cr_assert(strstr(rest.answer, "\"nodes\":{\"min\":2,\"max\":2"), "short forms are widened");
    snprintf(path, sizeof(path), "/v1/jobs/%s/why", id);
    cr_assert_eq(rest_request((struct http){"GET", path}), 200);
    cr_assert(strstr(rest.answer, "no_nodes"), "%s", rest.answer);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs?state=queued&limit=5"}), 200);
    cr_assert(strstr(rest.answer, id));
    static const char *const parts[] = {"logs?tail=5", "events", "metrics", "checkpoints"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        snprintf(path, sizeof(path), "/v1/jobs/a/%s", parts[i]);
        cr_assert_eq(rest_request((struct http){"GET", path}), 200, "%s: %s", path, rest.answer);
    }
    snprintf(path, sizeof(path), "/v1/jobs/%s:cancel", id);
    cr_assert_eq(rest_request((struct http){"POST", path, "{\"reason\":\"test\"}"}), 200, "%s",
                 rest.answer);
    cr_assert(strstr(rest.answer, "\"state\":\"cancelled\""), "%s", rest.answer);
}

Test(rest, idempotency_key_makes_a_post_safe_to_repeat_across_a_crash)
{
    char first[32], second[32];
    struct http how = {"POST", "/v1/jobs", job_body, "Idempotency-Key: k-1\r\n"};
    cr_assert_eq(rest_request(how), 201);
    rest_job_id(first);
    rest_stop(SIGKILL);
    rest_start();
    cr_assert_eq(rest_request(how), 201);
    rest_job_id(second);
    cr_assert_str_eq(first, second);
}

/* A job is sent and not waited for, so that the kill meets the coordinator at work. */
static void send_and_leave(const char *key)
{
    char text[512];
    int fd = rest_dial();
    int size = snprintf(text, sizeof(text),
                        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                        "Idempotency-Key: %s\r\nContent-Length: %zu\r\n\r\n%s",
                        rest.token, key, strlen(job_body), job_body);
    rest_send(fd, text, (size_t)size);
    close(fd);
}

Test(rest, kill_9_at_any_moment_loses_no_acknowledged_job)
{
    enum { ROUNDS = 12, JOBS = 6 };
    static char ids[ROUNDS * JOBS][32];
    int count = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char key[32], headers[64], quoted[64];
        for (int i = 0; i < JOBS; i++) {
            snprintf(headers, sizeof(headers), "Idempotency-Key: r%d-%d\r\n", round, i);
            cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs", job_body, headers}), 201);
            rest_job_id(ids[count++]);
        }
        snprintf(key, sizeof(key), "r%d-late", round);
        send_and_leave(key);
        usleep((useconds_t)(round * 300));
        rest_stop(SIGKILL);
        rest_start();
        cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs?limit=1000"}), 200);
        for (int i = 0; i < count; i++) {
            snprintf(quoted, sizeof(quoted), "\"id\":\"%.31s\"", ids[i]);
            cr_assert(strstr(rest.answer, quoted), "round %d: job %s is lost", round, ids[i]);
        }
    }
}

Test(rest, errors_say_what_where_and_what_next)
{
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jbos"}), 404);
    cr_assert(strstr(rest.answer, "did you mean /v1/jobs"), "%s", rest.answer);
    cr_assert_eq(rest_request((struct http){"DELETE", "/v1/jobs"}), 405);
    cr_assert(strstr(rest.answer, "Allow: POST, GET"), "%s", rest.answer);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs?stat=queued"}), 400);
    cr_assert(strstr(rest.answer, "did you mean state"), "%s", rest.answer);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs?limit=many"}), 400);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs/nobody"}), 404);
    cr_assert_eq(
        rest_request((struct http){"POST", "/v1/jobs", "{\"name\":\"a\",\n\"comand\":[]}"}), 400);
    cr_assert(strstr(rest.answer, "line 2") && strstr(rest.answer, "did you mean"), "%s",
              rest.answer);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs", "{\"name\": \"a\", \"comm"}), 400);
    cr_assert(strstr(rest.answer, "INVALID_ARGUMENT"));
    cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs", "[]"}), 400);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs", ""}), 400);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/nodes/n:drain", "{}"}), 404);
}

Test(rest, tokens_are_asked_for_and_told_apart)
{
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs", .token = ""}), 401);
    cr_assert(strstr(rest.answer, "WWW-Authenticate: Bearer"));
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs", .token = "mst_admin_wrong"}), 401);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs", .token = rest.agent_token}), 403);
    cr_assert_eq(rest_request((struct http){"GET", "/metrics", .token = ""}), 401);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs", "garbage", .token = ""}), 401);
    cr_assert_eq(rest_request((struct http){"GET", "/healthz", .token = ""}), 200);
    cr_assert_eq(rest_request((struct http){"GET", "/readyz", .token = ""}), 200);
    cr_assert_eq(rest_request((struct http){"GET", "/openapi.json", .token = ""}), 200);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/version", .token = ""}), 200);
}

/* What a page of ours sends with its login. */
static const char form[] = "X-Muster-Request: 1\r\nContent-Type: application/json\r\n";

static int sign_in(const char *token, const char *headers)
{
    char body[256];
    snprintf(body, sizeof(body), "{\"token\":\"%s\"}", token);
    return rest_request((struct http){"POST", "/v1/login", body, headers, ""});
}

Test(rest, sessions_need_our_header_to_change_anything)
{
    char session[512], headers[600];
    rest_log_in(rest.token, session);
    const char *set = strstr(rest.answer, "Set-Cookie: muster_session=");
    cr_assert(set && strstr(set, "HttpOnly") && strstr(set, "SameSite=Strict"));
    cr_assert_not(strstr(set, "Secure"));
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs", NULL, session, ""}), 200, "%s",
                 rest.answer);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs", job_body, session, ""}), 403);
    snprintf(headers, sizeof(headers), "%sX-Muster-Request: 1\r\n", session);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs", job_body, headers, ""}), 201);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/logout", "", session, ""}), 403);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/logout", "", headers, ""}), 200);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs", NULL, session, ""}), 401);
    cr_assert_eq(sign_in(rest.agent_token, form), 403);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/login", "{}", form, ""}), 400);
}

Test(rest, neither_half_of_a_session_opens_anything_alone)
{
    char session[512];
    rest_log_in(rest.token, session);
    char *half = strstr(session, "X-Muster-Session");
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs", NULL, session, ""}), 200);
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs", NULL, half, ""}), 401);
    *half = 0; /* the same address and cookie were just answered: not to this one */
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs", NULL, session, ""}), 401);
}

Test(rest, a_login_is_our_page_s_and_says_how_its_cookie_travels)
{
    cr_expect_eq(sign_in(rest.token, NULL), 403);
    cr_expect_eq(sign_in(rest.token, "X-Muster-Request: 1\r\nContent-Type: text/plain\r\n"), 400);
    cr_expect_eq(sign_in(rest.token, "X-Muster-Request: 1\r\nContent-Type: application/json\r\n"
                                     "X-Forwarded-Proto: https\r\n"),
                 200);
    cr_expect(strstr(rest.answer, "; Secure"), "%s", rest.answer);
}

/* The headers of a session that token opened, with the one for changes. */
static void log_in(const char *token, char ret_headers[512])
{
    rest_log_in(token, ret_headers);
    strcat(ret_headers, "X-Muster-Request: 1\r\n");
}

static int read_with(const char *cookie)
{
    return rest_request((struct http){"GET", "/v1/whoami", NULL, cookie, ""});
}

Test(rest, sessions_outlive_the_coordinator_until_they_end)
{
    char first[512], second[512], third[512], token[128], path[128], kept[65536] = "";
    cr_assert_eq(rest_request((struct http){"POST", "/v1/tokens",
                                            "{\"name\":\"wall\",\"role\":\"operator\"}"}),
                 201);
    const char *plain = strstr(rest.answer, "\"plain\":\"");
    cr_assert(plain && sscanf(plain, "\"plain\":\"%127[^\"]", token) == 1);
    log_in(rest.token, first);
    log_in(rest.token, second);
    log_in(token, third);
    rest_stop(SIGKILL);
    rest_start();
    cr_expect_eq(read_with(first), 200, "%s", rest.answer);
    cr_expect_eq(read_with(second), 200);
    cr_expect_eq(read_with(third), 200);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/logout", "", first, ""}), 200);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/tokens/wall:revoke", ""}), 200);
    cr_expect_eq(read_with(first), 401);
    cr_expect_eq(read_with(third), 401, "its token was revoked");
    rest_stop(SIGKILL);
    rest_start();
    cr_expect_eq(read_with(first), 401, "one that has ended comes back from no file");
    cr_expect_eq(read_with(second), 200);
    cr_expect_eq(read_with(third), 401);
    snprintf(path, sizeof(path), "%s/sessions.json", rest.dir);
    FILE *file = fopen(path, "r");
    cr_assert(file && fread(kept, 1, sizeof(kept) - 1, file) > 0);
    fclose(file);
    cr_expect(!strstr(kept, rest.token) && !strstr(kept, token), "no token can be read off it");
}

static void still_fine(void)
{
    cr_assert_eq(rest_request((struct http){"GET", "/v1/jobs"}), 200, "%s", rest.answer);
}

Test(rest, garbage_harms_nobody)
{
    static char garbage[1 << 20];
    srand(1); /* the same bytes in every run */
    for (size_t i = 0; i < sizeof(garbage); i++)
        garbage[i] = (char)rand();
    static const char *const texts[] = {
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{\"spec\"",
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        "GET /v1/jobs/%00%ff%2e%2e/%2fetc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "\r\n\r\n",
        "GET",
    };
    int fd = rest_dial();
    rest_send(fd, garbage, sizeof(garbage));
    close(fd);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct timeval patience = {.tv_usec = 300000}; /* half a request gets no answer */
        fd = rest_dial();
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        rest_send(fd, texts[i], strlen(texts[i]));
        shutdown(fd, SHUT_WR);
        rest_receive(fd, NULL);
        cr_assert(rest_status() < 0 || rest_status() >= 400, "%s -> %.40s", texts[i], rest.answer);
        close(fd);
    }
    still_fine();
}

Test(rest, deep_and_large_bodies_are_refused)
{
    enum { LARGE = 3 << 20 };
    char head[256];
    char *body = malloc(LARGE + 1);
    memset(body, '[', LARGE);
    body[200000] = 0;
    cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs", body}), 400, "%.300s", rest.answer);
    cr_assert(strstr(rest.answer, "INVALID_ARGUMENT"), "%s", rest.answer);
    memset(body, 'x', LARGE);
    int fd = rest_dial();
    int size = snprintf(head, sizeof(head),
                        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                        "Connection: close\r\nContent-Length: %d\r\n\r\n",
                        rest.token, LARGE);
    rest_send(fd, head, (size_t)size);
    rest_send(fd, body, LARGE);
    rest_receive(fd, NULL);
    cr_assert_eq(rest_status(), 413, "%.300s", rest.answer);
    close(fd);
    free(body);
    still_fine();
}

static int open_stream(const char *path)
{
    char text[512];
    int fd = rest_dial();
    int size = snprintf(text, sizeof(text),
                        "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                        "Authorization: Bearer %s\r\n\r\n",
                        path, rest.token);
    rest_send(fd, text, (size_t)size);
    return fd;
}

Test(rest, streams_are_live)
{
    int events = open_stream("/v1/events?after=0");
    cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs", job_body}), 201);
    rest_receive(events, "\"kind\":\"job_state\"");
    cr_assert(strstr(rest.answer, "text/event-stream") && strstr(rest.answer, "id: 1\ndata: {"),
              "%s", rest.answer);
    int job = open_stream("/v1/jobs/a");
    rest_receive(job, "\"state\":\"queued\"");
    cr_assert(strstr(rest.answer, "event: job\n"), "%s", rest.answer);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/jobs/a:cancel", ""}), 200);
    rest_receive(job, "event: end");
    cr_assert(strstr(rest.answer, "\"state\":\"cancelled\"") && strstr(rest.answer, "event: end"),
              "%s", rest.answer);
    int logs = open_stream("/v1/jobs/a/logs");
    rest_receive(logs, "event: end");
    cr_assert(strstr(rest.answer, "event: end"), "%s", rest.answer);
    int missing = open_stream("/v1/jobs/nobody/logs");
    rest_receive(missing, "}}");
    cr_assert_eq(rest_status(), 404, "an error before the stream is an HTTP error");
    close(events); /* a client that goes away is no failure */
    close(job);
    close(logs);
    close(missing);
    still_fine();
}

Test(rest, many_idle_and_dying_clients_leave_room_for_others)
{
    int fds[300];
    for (size_t i = 0; i < 300; i++) {
        fds[i] = i % 2 ? rest_dial() : open_stream("/v1/events");
        if (i % 3 == 0)
            close(fds[i]);
    }
    still_fine();
    for (size_t i = 0; i < 300; i++)
        if (i % 3)
            close(fds[i]);
    still_fine();
}

/* The head of the answer is in rest.answer. */
static int open_events(const char *token)
{
    char text[512];
    int fd = rest_dial();
    int size = snprintf(text, sizeof(text),
                        "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: "
                        "text/event-stream\r\nAuthorization: Bearer %s\r\n\r\n",
                        token);
    rest_send(fd, text, (size_t)size);
    rest_receive(fd, "\r\n\r\n");
    return fd;
}

static void make_viewer(char ret[128])
{
    cr_assert_eq(rest_request((struct http){
                     "POST", "/v1/tokens",
                     "{\"name\":\"eyes\",\"role\":\"viewer\",\"tenant\":\"default\"}"}),
                 201, "%s", rest.answer);
    const char *at = strstr(rest.answer, "\"plain\":\"");
    cr_assert(at && sscanf(at, "\"plain\":\"%127[^\"]", ret) == 1, "%s", rest.answer);
}

static int pings_in(const char *text)
{
    int count = 0;
    while ((text = strstr(text, ": ping"))) {
        text++;
        count++;
    }
    return count;
}

static int pings_of(int fd)
{
    char text[4096];
    ssize_t size = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
    text[size > 0 ? size : 0] = 0;
    return pings_in(text);
}

/* The second ping, which comes after 15 s, ends them in any case: places are free before it. */
Test(rest, streams_whose_clients_have_left_hold_no_places)
{
    char viewer[128];
    int fds[MAX_TOKEN_STREAMS], pings = 0;
    make_viewer(viewer);
    for (size_t i = 0; i < MAX_TOKEN_STREAMS; i++) {
        fds[i] = open_events(viewer);
        cr_assert_eq(rest_status(), 200, "%s", rest.answer);
        pings += i == 0 ? pings_in(rest.answer) : 0;
    }
    close(open_events(viewer));
    cr_assert_eq(rest_status(), 429, "%s", rest.answer);
    for (size_t i = 1; i < MAX_TOKEN_STREAMS; i++)
        close(fds[i]);
    for (;;) {
        close(open_events(viewer));
        if (rest_status() == 200)
            break;
        cr_assert_lt(pings, 2, "they were there until the ping");
        pings += pings_of(fds[0]);
        (void)poll(NULL, 0, 20);
    }
    close(fds[0]);
}

Test(rest, the_page_and_its_parts_are_served)
{
    static const char *const paths[] = {"/", "/app.js", "/style.css", "/chart.js"};
    static const char *const types[] = {"text/html", "text/javascript", "text/css",
                                        "text/javascript"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        cr_assert_eq(rest_request((struct http){"GET", paths[i], .token = ""}), 200, "%s",
                     paths[i]);
        cr_assert(strstr(rest.answer, types[i]) && strstr(rest.answer, "Content-Security-Policy"));
    }
    cr_assert_eq(rest_request((struct http){"GET", "/metrics"}), 200);
    cr_assert(strstr(rest.answer, "muster_jobs{state=\"queued\"} 0\n"), "%s", rest.answer);
}

/* Every path of the table, with every kind of wrong rest.token and every kind of wrong body. */

static void example_path(const struct route *route, char ret[128])
{
    const char *open = strchr(route->path, '{');
    if (open)
        snprintf(ret, 128, "%.*snone%s", (int)(open - route->path), route->path,
                 strchr(open, '}') + 1);
    else
        snprintf(ret, 128, "%s", route->path);
}

static bool open_to_all(const struct route *route)
{
    return route->kind == ROUTE_HEALTH || route->kind == ROUTE_READY ||
           route->kind == ROUTE_OPENAPI || route->kind == ROUTE_LOGIN ||
           route->kind == ROUTE_LOGOUT || (route->call && strcmp(route->call, "Version") == 0);
}

static void new_token(const char *body, char ret[128])
{
    cr_assert_eq(rest_request((struct http){"POST", "/v1/tokens", body}), 201, "%s", rest.answer);
    const char *at = strstr(rest.answer, "\"plain\":\"");
    cr_assert(at && sscanf(at, "\"plain\":\"%127[^\"]", ret) == 1, "%s", rest.answer);
}

Test(rest, no_path_lets_a_wrong_token_in)
{
    char revoked[128], expired[128], path[128];
    new_token("{\"name\":\"r\",\"role\":\"admin\"}", revoked);
    new_token("{\"name\":\"e\",\"role\":\"admin\",\"expires\":\"1ms\"}", expired);
    cr_assert_eq(rest_request((struct http){"POST", "/v1/tokens/r:revoke"}), 200, "%s",
                 rest.answer);
    const char *const wrong[] = {"-", "mst_admin_nonsense",
                                 "mst_worker_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                                 revoked, expired};
    for (const struct route *route = routes; route->path; route++) {
        if (open_to_all(route))
            continue;
        example_path(route, path);
        struct http how = {route->method, path, NULL, NULL, ""};
        cr_assert_eq(rest_request(how), 401, "%s %s without a token: %s", how.method, path,
                     rest.answer);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
            how.token = wrong[i];
            cr_assert_eq(rest_request(how), 401, "%s %s with %s: %s", how.method, path, wrong[i],
                         rest.answer);
        }
        how.token = rest.agent_token;
        cr_assert_eq(rest_request(how), 403, "%s %s with an agent's: %s", how.method, path,
                     rest.answer);
    }
}

Test(rest, no_path_fails_at_a_wrong_body_or_at_the_same_request_again)
{
    static char large[2 << 20];
    char path[128];
    memset(large, ' ', sizeof(large) - 1);
    large[0] = '{';
    for (const struct route *route = routes; route->path; route++) {
        if (route->body == ROUTE_NO_BODY)
            continue;
        example_path(route, path);
        const char *const bodies[] = {
            "{", "[]", "null", "{\"nope\":1}", "\xff\xfe", "{\"a\":{\"a\":"};
        for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
            struct http how = {route->method, path, bodies[i]};
            int first = rest_request(how);
            cr_assert_eq(first, 400, "%s %s with %s: %s", how.method, path, bodies[i], rest.answer);
            cr_assert_eq(rest_request(how), first, "%s %s again: %s", how.method, path,
                         rest.answer);
        }
        int status = rest_request((struct http){route->method, path, large});
        cr_assert(status == 413 || status == -1, "%s %s with 2 MiB: %d %s", route->method, path,
                  status, rest.answer);
    }
}
