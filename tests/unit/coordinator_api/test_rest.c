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

#include "common/env/disk_os.h"
#include "coordinator/api_rest/routes.h"

enum { ANSWER_MAX = 1 << 20 };

static char dir[64], token[128], agent_token[128];
static int port;
static pid_t daemon_pid;
static char answer[ANSWER_MAX];

static bool read_line(const char *name, char *ret, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "re");
    bool good = file && fgets(ret, (int)size, file);
    if (file)
        fclose(file);
    ret[good ? strcspn(ret, "\n") : 0] = 0;
    return good;
}

static void start_daemon(void)
{
    char url[128] = "", path[128];
    snprintf(path, sizeof path, "%s/http.url", dir);
    unlink(path);
    daemon_pid = fork();
    if (daemon_pid == 0) {
        snprintf(path, sizeof path, "%s/log", dir);
        int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(log, STDERR_FILENO);
        execl(COORDINATOR_DAEMON, "coordinator", "--data", dir, "--rpc", "tcp://127.0.0.1:0",
              "--http", "127.0.0.1:0", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 2000 && !read_line("http.url", url, sizeof url); i++)
        usleep(10000);
    cr_assert(strrchr(url, ':'), "the coordinator did not start");
    port = atoi(strrchr(url, ':') + 1);
    cr_assert(read_line("admin.token", token, sizeof token));
    cr_assert(read_line("agent.token", agent_token, sizeof agent_token));
}

static void stop_daemon(int signal)
{
    int status;
    kill(daemon_pid, signal);
    waitpid(daemon_pid, &status, 0);
    if (signal == SIGTERM)
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "SIGTERM did not end it cleanly");
}

static void init(void)
{
    snprintf(dir, sizeof dir, "/tmp/muster-rest-XXXXXX");
    cr_assert(mkdtemp(dir));
    start_daemon();
}

static void fini(void)
{
    stop_daemon(SIGTERM);
    struct disk disk = disk_os();
    cr_assert_eq(disk.remove_tree(disk.self, dir, NULL), 0);
}

TestSuite(rest, .init = init, .fini = fini);

static int dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void send_all(int fd, const void *data, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t now = send(fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL);
        if (now <= 0)
            return; /* they hung up: what they said before is what counts */
        sent += (size_t)now;
    }
}

/* Until the peer closes, `until` has come, or patience ends. */
static void receive(int fd, const char *until)
{
    size_t size = 0;
    answer[0] = 0;
    while (size < sizeof answer - 1 && !(until && strstr(answer, until))) {
        ssize_t got = recv(fd, answer + size, sizeof answer - 1 - size, 0);
        if (got <= 0)
            break;
        size += (size_t)got;
        answer[size] = 0;
    }
}

static int status_of(void)
{
    int status = 0;
    return sscanf(answer, "HTTP/1.1 %d", &status) == 1 ? status : -1;
}

struct http {
    const char *method, *path, *body;
    const char *headers; /* "Name: value\r\n..." */
    const char *token;   /* NULL = the admin's, "" = none */
};

static int request(struct http how)
{
    static char text[4 << 20];
    const char *with = how.token ? how.token : token;
    int size = snprintf(text, sizeof text,
                        "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s%s%s%s"
                        "Content-Length: %zu\r\n\r\n%s",
                        how.method, how.path, *with ? "Authorization: Bearer " : "", with,
                        *with ? "\r\n" : "", how.headers ? how.headers : "",
                        how.body ? strlen(how.body) : 0, how.body ? how.body : "");
    int fd = dial();
    send_all(fd, text, (size_t)size);
    receive(fd, NULL);
    close(fd);
    return status_of();
}

static const char job_body[] = "{\"name\":\"a\",\"command\":[\"true\"],\"nodes\":2}";

static void job_id(char ret[32])
{
    const char *at = strstr(answer, "{\"id\":\"");
    cr_assert(at, "%s", answer);
    cr_assert_eq(sscanf(at, "{\"id\":\"%31[^\"]", ret), 1);
}

Test(rest, a_job_from_submit_to_cancel)
{
    char id[32], path[128];
    cr_assert_eq(request((struct http){"POST", "/v1/jobs", job_body}), 201, "%s", answer);
    job_id(id);
    cr_assert(strstr(answer, "\"state\":\"queued\""));
    cr_assert(strstr(answer, "\"nodes\":{\"min\":2,\"max\":2"), "short forms are widened");
    snprintf(path, sizeof path, "/v1/jobs/%s/why", id);
    cr_assert_eq(request((struct http){"GET", path}), 200);
    cr_assert(strstr(answer, "no_nodes"), "%s", answer);
    cr_assert_eq(request((struct http){"GET", "/v1/jobs?state=queued&limit=5"}), 200);
    cr_assert(strstr(answer, id));
    static const char *const parts[] = {"logs?tail=5", "events", "metrics", "checkpoints"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "/v1/jobs/a/%s", parts[i]);
        cr_assert_eq(request((struct http){"GET", path}), 200, "%s: %s", path, answer);
    }
    snprintf(path, sizeof path, "/v1/jobs/%s:cancel", id);
    cr_assert_eq(request((struct http){"POST", path, "{\"reason\":\"test\"}"}), 200, "%s", answer);
    cr_assert(strstr(answer, "\"state\":\"cancelled\""), "%s", answer);
}

Test(rest, idempotency_key_makes_a_post_safe_to_repeat_across_a_crash)
{
    char first[32], second[32];
    struct http how = {"POST", "/v1/jobs", job_body, "Idempotency-Key: k-1\r\n"};
    cr_assert_eq(request(how), 201);
    job_id(first);
    stop_daemon(SIGKILL);
    start_daemon();
    cr_assert_eq(request(how), 201);
    job_id(second);
    cr_assert_str_eq(first, second);
}

/* A job is sent and not waited for, so that the kill meets the coordinator at work. */
static void send_and_leave(const char *key)
{
    char text[512];
    int fd = dial();
    int size = snprintf(text, sizeof text,
                        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                        "Idempotency-Key: %s\r\nContent-Length: %zu\r\n\r\n%s",
                        token, key, strlen(job_body), job_body);
    send_all(fd, text, (size_t)size);
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
            snprintf(headers, sizeof headers, "Idempotency-Key: r%d-%d\r\n", round, i);
            cr_assert_eq(request((struct http){"POST", "/v1/jobs", job_body, headers}), 201);
            job_id(ids[count++]);
        }
        snprintf(key, sizeof key, "r%d-late", round);
        send_and_leave(key);
        usleep((useconds_t)(round * 300));
        stop_daemon(SIGKILL);
        start_daemon();
        cr_assert_eq(request((struct http){"GET", "/v1/jobs?limit=1000"}), 200);
        for (int i = 0; i < count; i++) {
            snprintf(quoted, sizeof quoted, "\"id\":\"%.31s\"", ids[i]);
            cr_assert(strstr(answer, quoted), "round %d: job %s is lost", round, ids[i]);
        }
    }
}

Test(rest, errors_say_what_where_and_what_next)
{
    cr_assert_eq(request((struct http){"GET", "/v1/jbos"}), 404);
    cr_assert(strstr(answer, "did you mean /v1/jobs"), "%s", answer);
    cr_assert_eq(request((struct http){"DELETE", "/v1/jobs"}), 405);
    cr_assert(strstr(answer, "Allow: POST, GET"), "%s", answer);
    cr_assert_eq(request((struct http){"GET", "/v1/jobs?stat=queued"}), 400);
    cr_assert(strstr(answer, "did you mean state"), "%s", answer);
    cr_assert_eq(request((struct http){"GET", "/v1/jobs?limit=many"}), 400);
    cr_assert_eq(request((struct http){"GET", "/v1/jobs/nobody"}), 404);
    cr_assert_eq(request((struct http){"POST", "/v1/jobs", "{\"name\":\"a\",\n\"comand\":[]}"}),
                 400);
    cr_assert(strstr(answer, "line 2") && strstr(answer, "did you mean"), "%s", answer);
    cr_assert_eq(request((struct http){"POST", "/v1/jobs", "{\"name\": \"a\", \"comm"}), 400);
    cr_assert(strstr(answer, "INVALID_ARGUMENT"));
    cr_assert_eq(request((struct http){"POST", "/v1/jobs", "[]"}), 400);
    cr_assert_eq(request((struct http){"POST", "/v1/jobs", ""}), 400);
    cr_assert_eq(request((struct http){"POST", "/v1/nodes/n:drain", "{}"}), 404);
}

Test(rest, tokens_are_asked_for_and_told_apart)
{
    cr_assert_eq(request((struct http){"GET", "/v1/jobs", .token = ""}), 401);
    cr_assert(strstr(answer, "WWW-Authenticate: Bearer"));
    cr_assert_eq(request((struct http){"GET", "/v1/jobs", .token = "mst_admin_wrong"}), 401);
    cr_assert_eq(request((struct http){"GET", "/v1/jobs", .token = agent_token}), 403);
    cr_assert_eq(request((struct http){"GET", "/metrics", .token = ""}), 401);
    cr_assert_eq(request((struct http){"POST", "/v1/jobs", "garbage", .token = ""}), 401);
    cr_assert_eq(request((struct http){"GET", "/healthz", .token = ""}), 200);
    cr_assert_eq(request((struct http){"GET", "/readyz", .token = ""}), 200);
    cr_assert_eq(request((struct http){"GET", "/openapi.json", .token = ""}), 200);
    cr_assert_eq(request((struct http){"GET", "/v1/version", .token = ""}), 200);
}

Test(rest, sessions_need_our_header_to_change_anything)
{
    char body[256], cookie[256], headers[512], value[128];
    snprintf(body, sizeof body, "{\"token\":\"%s\"}", token);
    cr_assert_eq(request((struct http){"POST", "/v1/login", body, .token = ""}), 200, "%s", answer);
    const char *set = strstr(answer, "Set-Cookie: muster_session=");
    cr_assert(set && strstr(set, "HttpOnly") && strstr(set, "SameSite=Strict"));
    cr_assert_eq(sscanf(set, "Set-Cookie: muster_session=%127[^;]", value), 1);
    snprintf(cookie, sizeof cookie, "Cookie: theme=dark; muster_session=%s\r\n", value);
    cr_assert_eq(request((struct http){"GET", "/v1/jobs", NULL, cookie, ""}), 200, "%s", answer);
    cr_assert_eq(request((struct http){"POST", "/v1/jobs", job_body, cookie, ""}), 403);
    snprintf(headers, sizeof headers, "%sX-Muster-Request: 1\r\n", cookie);
    cr_assert_eq(request((struct http){"POST", "/v1/jobs", job_body, headers, ""}), 201);
    cr_assert_eq(request((struct http){"POST", "/v1/logout", "", headers, ""}), 200);
    cr_assert_eq(request((struct http){"GET", "/v1/jobs", NULL, cookie, ""}), 401);
    snprintf(body, sizeof body, "{\"token\":\"%s\"}", agent_token);
    cr_assert_eq(request((struct http){"POST", "/v1/login", body, .token = ""}), 403);
    cr_assert_eq(request((struct http){"POST", "/v1/login", "{}", .token = ""}), 400);
}

static void still_fine(void)
{
    cr_assert_eq(request((struct http){"GET", "/v1/jobs"}), 200, "%s", answer);
}

Test(rest, garbage_harms_nobody)
{
    static char garbage[1 << 20];
    srand(1); /* the same bytes in every run */
    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (char)rand();
    static const char *const texts[] = {
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"spec\"",
        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        "GET /v1/jobs/%00%ff%2e%2e/%2fetc HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "\r\n\r\n",
        "GET",
    };
    int fd = dial();
    send_all(fd, garbage, sizeof garbage);
    close(fd);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct timeval patience = {.tv_usec = 300000}; /* half a request gets no answer */
        fd = dial();
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        send_all(fd, texts[i], strlen(texts[i]));
        shutdown(fd, SHUT_WR);
        receive(fd, NULL);
        cr_assert(status_of() < 0 || status_of() >= 400, "%s -> %.40s", texts[i], answer);
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
    cr_assert_eq(request((struct http){"POST", "/v1/jobs", body}), 400, "%.300s", answer);
    cr_assert(strstr(answer, "INVALID_ARGUMENT"), "%s", answer);
    memset(body, 'x', LARGE);
    int fd = dial();
    int size = snprintf(head, sizeof head,
                        "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                        "Connection: close\r\nContent-Length: %d\r\n\r\n",
                        token, LARGE);
    send_all(fd, head, (size_t)size);
    send_all(fd, body, LARGE);
    receive(fd, NULL);
    cr_assert_eq(status_of(), 413, "%.300s", answer);
    close(fd);
    free(body);
    still_fine();
}

static int open_stream(const char *path)
{
    char text[512];
    int fd = dial();
    int size = snprintf(text, sizeof text,
                        "GET %s HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
                        "Authorization: Bearer %s\r\n\r\n",
                        path, token);
    send_all(fd, text, (size_t)size);
    return fd;
}

Test(rest, streams_are_live)
{
    int events = open_stream("/v1/events?after=0");
    cr_assert_eq(request((struct http){"POST", "/v1/jobs", job_body}), 201);
    receive(events, "\"kind\":\"job_state\"");
    cr_assert(strstr(answer, "text/event-stream") && strstr(answer, "id: 1\ndata: {"), "%s",
              answer);
    int job = open_stream("/v1/jobs/a");
    receive(job, "\"state\":\"queued\"");
    cr_assert(strstr(answer, "event: job\n"), "%s", answer);
    cr_assert_eq(request((struct http){"POST", "/v1/jobs/a:cancel", ""}), 200);
    receive(job, "event: end");
    cr_assert(strstr(answer, "\"state\":\"cancelled\"") && strstr(answer, "event: end"), "%s",
              answer);
    int logs = open_stream("/v1/jobs/a/logs");
    receive(logs, "event: end");
    cr_assert(strstr(answer, "event: end"), "%s", answer);
    int missing = open_stream("/v1/jobs/nobody/logs");
    receive(missing, "}}");
    cr_assert_eq(status_of(), 404, "an error before the stream is an HTTP error");
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
        fds[i] = i % 2 ? dial() : open_stream("/v1/events");
        if (i % 3 == 0)
            close(fds[i]);
    }
    still_fine();
    for (size_t i = 0; i < 300; i++)
        if (i % 3)
            close(fds[i]);
    still_fine();
}

Test(rest, the_page_and_its_parts_are_served)
{
    static const char *const paths[] = {"/", "/app.js", "/style.css", "/chart.js"};
    static const char *const types[] = {"text/html", "text/javascript", "text/css",
                                        "text/javascript"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        cr_assert_eq(request((struct http){"GET", paths[i], .token = ""}), 200, "%s", paths[i]);
        cr_assert(strstr(answer, types[i]) && strstr(answer, "Content-Security-Policy"));
    }
    cr_assert_eq(request((struct http){"GET", "/metrics"}), 200);
    cr_assert(strstr(answer, "muster_jobs{state=\"queued\"} 0\n"), "%s", answer);
}

/* Every path of the table, with every kind of wrong token and every kind of wrong body. */

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
    cr_assert_eq(request((struct http){"POST", "/v1/tokens", body}), 201, "%s", answer);
    const char *at = strstr(answer, "\"plain\":\"");
    cr_assert(at && sscanf(at, "\"plain\":\"%127[^\"]", ret) == 1, "%s", answer);
}

Test(rest, no_path_lets_a_wrong_token_in)
{
    char revoked[128], expired[128], path[128];
    new_token("{\"name\":\"r\",\"role\":\"admin\"}", revoked);
    new_token("{\"name\":\"e\",\"role\":\"admin\",\"expires\":\"1ms\"}", expired);
    cr_assert_eq(request((struct http){"POST", "/v1/tokens/r:revoke"}), 200, "%s", answer);
    const char *const wrong[] = {"-", "mst_admin_nonsense",
                                 "mst_worker_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                                 revoked, expired};
    for (const struct route *route = routes; route->path; route++) {
        if (open_to_all(route))
            continue;
        example_path(route, path);
        struct http how = {route->method, path, NULL, NULL, ""};
        cr_assert_eq(request(how), 401, "%s %s without a token: %s", how.method, path, answer);
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            how.token = wrong[i];
            cr_assert_eq(request(how), 401, "%s %s with %s: %s", how.method, path, wrong[i],
                         answer);
        }
        how.token = agent_token;
        cr_assert_eq(request(how), 403, "%s %s with an agent's: %s", how.method, path, answer);
    }
}

Test(rest, no_path_fails_at_a_wrong_body_or_at_the_same_request_again)
{
    static char large[2 << 20];
    char path[128];
    memset(large, ' ', sizeof large - 1);
    large[0] = '{';
    for (const struct route *route = routes; route->path; route++) {
        if (route->body == ROUTE_NO_BODY)
            continue;
        example_path(route, path);
        const char *const bodies[] = {
            "{", "[]", "null", "{\"nope\":1}", "\xff\xfe", "{\"a\":{\"a\":"};
        for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
            struct http how = {route->method, path, bodies[i]};
            int first = request(how);
            cr_assert_eq(first, 400, "%s %s with %s: %s", how.method, path, bodies[i], answer);
            cr_assert_eq(request(how), first, "%s %s again: %s", how.method, path, answer);
        }
        int status = request((struct http){route->method, path, large});
        cr_assert(status == 413 || status == -1, "%s %s with 2 MiB: %d %s", route->method, path,
                  status, answer);
    }
}
