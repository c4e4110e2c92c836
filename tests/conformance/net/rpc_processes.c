/* RPC between real processes that are killed, stopped, restarted, and that speak garbage. The
 * program starts itself again as `server URL` and `client URL`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/rng.h"
#include "common/base/str.h"
#include "common/env/clock_os.h"
#include "common/env/env.h"
#include "common/loop/loop.h"
#include "common/rpc/call.h"
#include "common/rpc/server.h"
#include "common/rpc/sync.h"
#include "proto/client.pb-c.h"
#include "tests/lib/loopback.h"

enum {
    URL_MAX = 128,
    HANG_MS = 300000, /* only what hangs takes so long */
    CLIENTS = 12,
    ROUNDS = 4,
    GARBAGE_BYTES = 1 << 20,
    SILENT_MS = 5500,
    LEAVERS = 200,
    REJECTIONS = 6
};

#define expect(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("    %s:%d: expected %s\n", __FILE__, __LINE__, #condition);                    \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

static const ProtobufCServiceDescriptor *const service = &muster__coordinator__descriptor;

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- the two roles ---- */

static void answer_version(void *arg, struct rpc_call *call)
{
    (void)arg;
    Muster__VersionAnswer answer = MUSTER__VERSION_ANSWER__INIT;
    answer.version = (char *)(uintptr_t) "1";
    rpc_call_answer(call, &answer.base);
}

static void never_answer(void *arg, struct rpc_call *call)
{
    (void)arg;
    (void)call;
}

static int be_server(const char *url)
{
    struct loop *loop;
    struct env env;
    struct rpc_server *server;
    struct error err = {0};
    if (loop_new(clock_os(), &loop, &err) != 0 || env_os_init(&env, loop, &err) != 0 ||
        rpc_server_new(&env, loop, url, 64, &server, &err) != 0 ||
        rpc_server_add(server, service, "Version", answer_version, NULL, &err) != 0 ||
        rpc_server_add(server, service, "GetJob", never_answer, NULL, &err) != 0) {
        fprintf(stderr, "server: %s\n", err.text);
        return 1;
    }
    printf("%s\n", rpc_server_url(server));
    fflush(stdout);
    loop_run(loop);
    return 0;
}

static int ask_version(struct rpc_sync *sync, int64_t timeout_ms, bool retry)
{
    Muster__VersionRequest request = MUSTER__VERSION_REQUEST__INIT;
    struct rpc_options options = {.timeout_ms = timeout_ms, .retry = retry};
    ProtobufCMessage *answer;
    int rc = rpc_sync_call(sync, service, "Version", &request.base, &options, &answer, NULL);
    if (rc == 0)
        rpc_message_free(answer);
    return rc;
}

static int poll_job(struct rpc_sync *sync, int64_t timeout_ms)
{
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    struct rpc_options options = {.timeout_ms = timeout_ms};
    ProtobufCMessage *answer;
    int rc = rpc_sync_call(sync, service, "GetJob", &request.base, &options, &answer, NULL);
    if (rc == 0)
        rpc_message_free(answer);
    return rc;
}

static int be_client(const char *url)
{
    struct rpc_sync *sync;
    if (rpc_sync_new(url, "", &sync, NULL) != 0)
        return 1;
    for (int i = 0; i < 100; i++)
        ask_version(sync, HANG_MS, true);
    poll_job(sync, HANG_MS);
    return 0;
}

/* ---- starting and ending them ---- */

static pid_t start(const char *role, const char *url, int *ret_stdout)
{
    int fds[2];
    if (pipe(fds) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        execl("/proc/self/exe", "rpc_processes", role, url, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    *ret_stdout = fds[0];
    return pid;
}

static pid_t start_server(const char *url, char ret_url[URL_MAX])
{
    int out;
    pid_t pid = start("server", url, &out);
    size_t size = 0;
    char c;
    while (size < URL_MAX - 1 && read(out, &c, 1) == 1 && c != '\n')
        ret_url[size++] = c;
    ret_url[size] = '\0';
    close(out);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* No port. */
static struct sockaddr_in own_address(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    (void)inet_pton(AF_INET, loopback_own(), &address.sin_addr);
    return address;
}

/* Of a server that has no address yet. */
static const char *own_url(void)
{
    static char url[URL_MAX];
    snprintf(url, sizeof(url), "tcp://%s:0", loopback_own());
    return url;
}

static int connect_raw(const char *url)
{
    struct sockaddr_in address = own_address();
    address.sin_port = htons((uint16_t)atol(strrchr(url, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* What the peer does with it does not matter: only that it lives on. */
static void send_raw(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        at += sent;
        size -= (size_t)sent;
    }
}

/* ---- the cases ---- */

static bool a_killed_server_is_noticed_and_found_again(void)
{
    char url[URL_MAX], again[URL_MAX];
    pid_t pid = start_server(own_url(), url);
    struct rpc_sync *sync;
    expect(rpc_sync_new(url, "", &sync, NULL) == 0);
    expect(ask_version(sync, HANG_MS, true) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t killer = fork();
        if (killer == 0) {
            usleep(100000);
            kill(pid, SIGKILL);
            _exit(0);
        }
        expect(poll_job(sync, HANG_MS) == E_UNAVAILABLE);
        waitpid(killer, NULL, 0);
        waitpid(pid, NULL, 0);
        expect(ask_version(sync, HANG_MS, false) == E_UNAVAILABLE);
        pid = start_server(url, again);
        expect(strcmp(url, again) == 0);
        expect(ask_version(sync, HANG_MS, true) == 0);
    }
    end(pid);
    rpc_sync_free(sync);
    return true;
}

static bool garbage_does_no_harm(void)
{
    /* SP's greeting of a requester (protocol 0x30), then messages of length, request id, bytes */
    static const unsigned char hello[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
    static const unsigned char huge[] = {0x7f, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3};
    static const unsigned char no_id[] = {0, 0, 0, 0, 0, 0, 0, 2, 1, 2};
    static const unsigned char cut[] = {0, 0, 0, 0, 0, 0, 0, 100, 0x80, 0, 0, 1, 'M', 'S', 'T'};
    static const unsigned char bad[] = {0, 0, 0,   0,   0,   0,   0,   12,  0x80, 0,
                                        0, 1, 'M', 'S', 'T', '1', 255, 255, 255,  255};
    const struct {
        const void *bytes;
        size_t size;
    } after_hello[] = {
        {huge, sizeof(huge)}, {no_id, sizeof(no_id)}, {cut, sizeof(cut)}, {bad, sizeof(bad)}};
    char url[URL_MAX];
    pid_t pid = start_server(own_url(), url);
    struct rpc_sync *sync;
    expect(rpc_sync_new(url, "", &sync, NULL) == 0);
    char *noise = malloc(GARBAGE_BYTES);
    struct rng rng;
    rng_seed(&rng, 1);
    rng_fill(&rng, noise, GARBAGE_BYTES);
    for (size_t i = 0; i < 4 + 2 * sizeof(after_hello) / sizeof(after_hello[0]); i++) {
        int fd = connect_raw(url);
        expect(fd >= 0);
        if (i < 2) {
            send_raw(fd, noise, GARBAGE_BYTES);
        } else if (i < 4) {
            send_raw(fd, hello, sizeof(hello));
            send_raw(fd, noise, GARBAGE_BYTES);
        } else {
            send_raw(fd, hello, sizeof(hello));
            send_raw(fd, after_hello[(i - 4) / 2].bytes, after_hello[(i - 4) / 2].size);
            if (i % 2)
                usleep(20000);
        }
        if (i % 2) {
            struct linger reset = {.l_onoff = 1};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        }
        close(fd);
        expect(ask_version(sync, HANG_MS, true) == 0);
    }
    free(noise);
    expect(waitpid(pid, NULL, WNOHANG) == 0);
    end(pid);
    rpc_sync_free(sync);
    return true;
}

static int connect_ipc(const char *url)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (str_copy(address.sun_path, sizeof(address.sun_path), url + strlen("ipc://")) != 0)
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* A port scanner, a worker killed while it starts: gone before the greeting. NNG 1.5.2 alone would
 * never accept again after the first of them (see net_nng_epipe.c). */
static bool early_leavers_do_not_end_accepting(const char *where)
{
    char url[URL_MAX];
    pid_t pid = start_server(where, url);
    for (int i = 0; i < LEAVERS; i++) {
        int fd = where[0] == 'i' ? connect_ipc(url) : connect_raw(url);
        expect(fd >= 0);
        struct linger reset = {.l_onoff = 1};
        if (i % 3 != 0)
            shutdown(fd, SHUT_WR);
        if (i % 2 == 0)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
    }
    struct rpc_sync *sync;
    expect(rpc_sync_new(url, "", &sync, NULL) == 0);
    expect(ask_version(sync, HANG_MS, true) == 0);
    end(pid);
    rpc_sync_free(sync);
    return true;
}

static bool early_leavers_over_tcp(void)
{
    return early_leavers_do_not_end_accepting(own_url());
}

static bool early_leavers_over_ipc(void)
{
    char folder[] = "/tmp/muster-rpc-XXXXXX", url[URL_MAX];
    expect(mkdtemp(folder) != NULL);
    snprintf(url, sizeof(url), "ipc://%s/hub.sock", folder);
    bool ok = early_leavers_do_not_end_accepting(url);
    unlink(url + strlen("ipc://"));
    rmdir(folder);
    return ok;
}

/* A server killed while callers connect: they must go on trying. */
static bool rejections_do_not_end_reconnecting(void)
{
    struct sockaddr_in address = own_address();
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    expect(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    expect(listen(listener, 8) == 0);
    expect(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    char url[URL_MAX], again[URL_MAX];
    snprintf(url, sizeof(url), "tcp://%s:%d", loopback_own(), ntohs(address.sin_port));
    struct rpc_sync *sync;
    expect(rpc_sync_new(url, "", &sync, NULL) == 0);
    for (int i = 0; i < REJECTIONS; i++) {
        int fd = accept(listener, NULL, NULL);
        expect(fd >= 0);
        struct linger reset = {.l_onoff = 1};
        shutdown(fd, SHUT_WR);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
    }
    close(listener);
    pid_t pid = start_server(url, again);
    expect(strcmp(url, again) == 0);
    expect(ask_version(sync, HANG_MS, true) == 0);
    end(pid);
    rpc_sync_free(sync);
    return true;
}

static bool a_stopped_server_costs_only_the_deadline(void)
{
    char url[URL_MAX];
    pid_t pid = start_server(own_url(), url);
    struct rpc_sync *sync;
    expect(rpc_sync_new(url, "", &sync, NULL) == 0);
    expect(ask_version(sync, HANG_MS, true) == 0);
    kill(pid, SIGSTOP);
    int64_t before = now_ms();
    expect(ask_version(sync, 400, false) == E_DEADLINE_EXCEEDED);
    expect(now_ms() - before >= 390);
    kill(pid, SIGCONT);
    expect(ask_version(sync, HANG_MS, true) == 0);
    end(pid);
    rpc_sync_free(sync);
    return true;
}

/* After a cut without a word the kernel would keep the connection for many minutes. A stopped
 * server looks the same: what shows that the connection was given up is that the next call is told
 * so at once instead of waiting for its deadline. */
static bool a_silent_connection_is_given_up(void)
{
    char url[URL_MAX];
    pid_t pid = start_server(own_url(), url);
    struct rpc_sync *sync;
    expect(rpc_sync_new(url, "", &sync, NULL) == 0);
    expect(ask_version(sync, HANG_MS, true) == 0);
    kill(pid, SIGSTOP);
    expect(ask_version(sync, SILENT_MS, false) == E_DEADLINE_EXCEEDED);
    expect(ask_version(sync, HANG_MS, false) == E_UNAVAILABLE);
    kill(pid, SIGCONT);
    expect(ask_version(sync, HANG_MS, true) == 0);
    end(pid);
    rpc_sync_free(sync);
    return true;
}

struct watched {
    struct rpc_server *server;
    int gone, polls;
};

static void count_gone(void *arg, uint64_t peer)
{
    (void)peer;
    ((struct watched *)arg)->gone++;
}

static void count_poll(void *arg, struct rpc_call *call)
{
    (void)call;
    ((struct watched *)arg)->polls++;
}

static bool turn_until(struct loop *loop, const int *counter, int least)
{
    for (int64_t until = now_ms() + HANG_MS; *counter < least && now_ms() < until;) {
        loop_turn(loop);
        usleep(200);
    }
    return *counter >= least;
}

static bool killed_clients_are_noticed(void)
{
    struct loop *loop;
    struct env env;
    struct watched w = {0};
    pid_t clients[CLIENTS];
    expect(loop_new(clock_os(), &loop, NULL) == 0 && env_os_init(&env, loop, NULL) == 0);
    expect(rpc_server_new(&env, loop, own_url(), 64, &w.server, NULL) == 0);
    expect(rpc_server_add(w.server, service, "Version", answer_version, NULL, NULL) == 0);
    expect(rpc_server_add(w.server, service, "GetJob", count_poll, &w, NULL) == 0);
    rpc_server_on_gone(w.server, count_gone, &w);
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            int out;
            clients[i] = start("client", rpc_server_url(w.server), &out);
            expect(clients[i] > 0);
            close(out);
        }
        /* Half are killed while they poll, half in the middle of their calls. */
        expect(turn_until(loop, &w.polls, CLIENTS * (round - 1) + CLIENTS / 2));
        for (int i = 0; i < CLIENTS; i++)
            kill(clients[i], SIGKILL);
        for (int i = 0; i < CLIENTS; i++)
            waitpid(clients[i], NULL, 0);
        expect(turn_until(loop, &w.gone, CLIENTS / 2 * round));
        w.polls = CLIENTS * round;
    }
    struct rpc_server_stats stats;
    rpc_server_stats(w.server, &stats);
    printf("    %llu calls of %d killed clients, %d connections seen to go\n",
           (unsigned long long)stats.calls, CLIENTS * ROUNDS, w.gone);
    rpc_server_free(w.server);
    env_os_fini(&env);
    loop_free(loop);
    return true;
}

static const struct {
    const char *name;
    bool (*run)(void);
} cases[] = {
    {"a killed server is noticed and found again", a_killed_server_is_noticed_and_found_again},
    {"garbage does no harm", garbage_does_no_harm},
    {"early leavers do not end accepting, tcp", early_leavers_over_tcp},
    {"early leavers do not end accepting, ipc", early_leavers_over_ipc},
    {"rejections do not end reconnecting", rejections_do_not_end_reconnecting},
    {"a stopped server costs only the deadline", a_stopped_server_costs_only_the_deadline},
    {"a silent connection is given up", a_silent_connection_is_given_up},
    {"killed clients are noticed", killed_clients_are_noticed},
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "server") == 0)
        return be_server(argv[2]);
    if (argc == 3 && strcmp(argv[1], "client") == 0)
        return be_client(argv[2]);
    int failed = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool ok = cases[i].run();
        printf("%s  rpc: %s\n", ok ? "ok  " : "FAIL", cases[i].name);
        fflush(stdout);
        failed += !ok;
    }
    _exit(failed != 0); /* NNG's sockets are not closed, its threads not joined */
}
