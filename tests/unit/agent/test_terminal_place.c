/* Where terminals run, what is refused, and connections: beside real workers. */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/env/proc.h"
#include "tests/unit/agent/terminal_rig.h"

static struct rig rig;

static void begin(void)
{
    terminal_rig_begin(&rig);
}

static void finish(void)
{
    terminal_rig_finish(&rig);
}

TestSuite(terminal_place, .init = begin, .fini = finish);

static void read_proc(pid_t pid, const char *name, struct buf *ret)
{
    char path[64], bytes[4096];
    size_t size;
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    while ((size = fread(bytes, 1, sizeof(bytes), file)) > 0)
        cr_assert_eq(buf_append(ret, bytes, size), 0);
    fclose(file);
}

static void expect_same_file(pid_t a, pid_t b, const char *name)
{
    struct buf of_a = {0}, of_b = {0};
    read_proc(a, name, &of_a);
    read_proc(b, name, &of_b);
    cr_expect(of_a.size == of_b.size && memcmp(of_a.data, of_b.data, of_a.size) == 0,
              "%s: %s, and %s", name, buf_cstr(&of_a), buf_cstr(&of_b));
    buf_fini(&of_a);
    buf_fini(&of_b);
}

static void expect_same_link(pid_t a, pid_t b, const char *name)
{
    char path[64], of_a[256] = "", of_b[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)a, name);
    cr_assert(readlink(path, of_a, sizeof(of_a) - 1) > 0);
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)b, name);
    cr_assert(readlink(path, of_b, sizeof(of_b) - 1) > 0);
    cr_expect_str_eq(of_a, of_b, "%s: %s, and %s", name, of_a, of_b);
}

/* What the kernel shows of a worker's process and of a terminal's is the same. */
static void expect_same_place(const struct rig_worker *w, pid_t pid)
{
    static const char *const links[] = {"cwd", "ns/mnt", "ns/ipc", "ns/net", "ns/pid"};
    static const char *const files[] = {"cgroup", "environ", "oom_score_adj", "loginuid"};
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        expect_same_link((pid_t)w->pid, pid, links[i]);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        expect_same_file((pid_t)w->pid, pid, files[i]);
    static const char *const lines[] = {
        "Uid:", "Gid:", "Groups:", "NoNewPrivs:", "CapEff:", "Cpus_allowed:", "SigBlk:", "SigIgn:"};
    struct buf theirs = {0}, own = {0};
    read_proc((pid_t)w->pid, "status", &theirs);
    read_proc(pid, "status", &own);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const char *a = strstr(buf_cstr(&theirs), lines[i]), *b = strstr(buf_cstr(&own), lines[i]);
        cr_assert(a && b, "%s", lines[i]);
        cr_expect(strncmp(a, b, strcspn(a, "\n") + 1) == 0, "%.60s, and %.60s", a, b);
    }
    buf_fini(&theirs);
    buf_fini(&own);
}

/* The only other `sleep` that this process has started, once it has become it. */
static pid_t other_sleep(const struct rig_worker *w)
{
    pid_t found = 0;
    for (int i = 0; i < RIG_PATIENCE_MS && !found; i += 10) {
        pid_t *pids = NULL;
        size_t count = 0;
        rig_turn(&rig, 10);
        cr_assert_eq(proc_descendants(getpid(), &pids, &count, NULL), 0);
        for (size_t j = 0; j < count; j++) {
            char path[64], exe[256] = "";
            snprintf(path, sizeof(path), "/proc/%d/exe", (int)pids[j]);
            if (pids[j] != (pid_t)w->pid && readlink(path, exe, sizeof(exe) - 1) > 0 &&
                strcmp(strrchr(exe, '/'), "/sleep") == 0)
                found = pids[j];
        }
        free(pids);
    }
    return found;
}

static void expect_beside(void)
{
    static const char *const envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                                       "CUDA_VISIBLE_DEVICES=GPU-1,GPU-3", "RANK=3", NULL};
    static const struct launch_secret secrets[] = {{"API_KEY", "hidden-value"}};
    static const char *const argv[] = {"/bin/sleep", "1000", NULL};
    struct seen seen = {0};
    struct launch launch = {.key = {.job = "job", .uid = 1},
                            .argv = argv,
                            .envp = envp,
                            .token = "tok",
                            .secrets = secrets,
                            .secrets_count = 1,
                            .memory_bytes = 64 << 20,
                            .processes = 64,
                            .cores = "0",
                            .workdir = ""};
    cr_assert_eq(rig_launch(&rig, &launch, NULL), 0);
    struct rig_worker *w = rig_worker(&rig, 1);
    cr_assert(rig_until(&rig, &w->started));
    open_wish(&rig, &seen, &(struct terminal_wish){.argv = argv});
    expect_same_place(w, other_sleep(w));
    close_seen(&seen);
}

Test(terminal_place, it_is_where_the_worker_is)
{
    expect_beside();
}

Test(terminal_place, it_is_where_a_worker_of_another_user_is)
{
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    namespaces_find(rig.dir, &rig.namespaces);
    rig_as_user(&rig, 65534, 65533);
    expect_beside();
}

/* An agent that provides no namespaces any more still enters the worker's. */
Test(terminal_place, an_adopted_worker_keeps_its_namespaces)
{
    struct seen seen = {0};
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    namespaces_find(rig.dir, &rig.namespaces);
    rig_as_user(&rig, 65534, 65533);
    rig_sleeper(&rig, 1);
    rig.namespaces = (struct namespaces){0};
    rig_restart(&rig);
    struct rig_worker *w = rig_worker(&rig, 1);
    cr_assert(w->found);
    static const char *const argv[] = {"/bin/sleep", "1000", NULL};
    open_wish(&rig, &seen, &(struct terminal_wish){.argv = argv});
    expect_same_link((pid_t)w->pid, other_sleep(w), "ns/mnt");
    expect_same_link((pid_t)w->pid, other_sleep(w), "ns/ipc");
    close_seen(&seen);
}

/* Its user owns it, no other user can write to it, and it is the controlling one. */
Test(terminal_place, the_pty_is_its_users_alone)
{
    struct seen seen = {0};
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    namespaces_find(rig.dir, &rig.namespaces);
    rig_as_user(&rig, 65534, 65533);
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, true, "stat -c '%u %a' $(tty); echo x >/dev/tty; exit 0");
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_str_eq(buf_cstr(&seen.text[0]), "65534 600\r\nx\r\n");
    close_seen(&seen);
}

Test(terminal_place, it_inherits_no_descriptor_of_the_agent)
{
    struct seen ptys = {0}, pipes = {0};
    rig_sleeper(&rig, 1);
    static const char *const argv[] = {"/bin/ls", "-1", "/proc/self/fd", NULL}; /* 3 is its own */
    open_wish(&rig, &ptys, &(struct terminal_wish){.argv = argv, .pty = true});
    open_wish(&rig, &pipes, &(struct terminal_wish){.argv = argv});
    cr_assert(rig_until(&rig, &ptys.ended) && rig_until(&rig, &pipes.ended));
    cr_expect_str_eq(buf_cstr(&ptys.text[0]), "0\r\n1\r\n2\r\n3\r\n");
    cr_expect_str_eq(buf_cstr(&pipes.text[0]), "0\n1\n2\n3\n");
    close_seen(&ptys);
    close_seen(&pipes);
}

/* Refusals */

static void expect_refused(const struct terminal_wish *wish, int code, const char *text)
{
    struct seen seen = {0};
    struct error err = {0};
    cr_expect_eq(try_open(&rig, &seen, wish, &err), code, "%s", err.text);
    cr_expect(strstr(err.text, text), "%s", err.text);
}

Test(terminal_place, a_bad_wish_is_refused_with_its_reason)
{
    static const char *many[TERMINAL_ARGS_MAX + 2];
    static char large[TERMINAL_ARGS_MAX_BYTES + 2];
    static const char *const none[] = {NULL}, *const big[] = {"echo", large, NULL};
    for (int i = 0; i <= TERMINAL_ARGS_MAX; i++)
        many[i] = "x";
    memset(large, 'x', sizeof(large) - 1);
    rig_sleeper(&rig, 1);
    expect_refused(&(struct terminal_wish){.argv = none}, E_INVALID_ARGUMENT, "empty");
    expect_refused(&(struct terminal_wish){.argv = many}, E_OUT_OF_RANGE, "257 arguments");
    expect_refused(&(struct terminal_wish){.argv = big}, E_OUT_OF_RANGE, "a script");
    expect_refused(&(struct terminal_wish){.pty = true, .type = "a b"}, E_INVALID_ARGUMENT, "TERM");
    expect_refused(&(struct terminal_wish){.pty = true, .rows = 5000}, E_OUT_OF_RANGE, "rows");
    many[TERMINAL_ARGS_MAX] = NULL; /* as many as are allowed */
    many[0] = "/bin/true";
    struct seen seen = {0};
    open_wish(&rig, &seen, &(struct terminal_wish){.argv = many});
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.code, 0, "%s", seen.end.why);
    close_seen(&seen);
}

Test(terminal_place, only_a_running_worker_has_one)
{
    struct seen seen = {0};
    struct error err = {0};
    struct terminal_wish wish = {.pty = true};
    cr_expect_eq(try_open(&rig, &seen, &wish, &err), E_NOT_FOUND);
    struct rig_worker *w = rig_sh(&rig, 1, "exit 0");
    cr_expect_eq(try_open(&rig, &seen, &wish, &err), E_FAILED_PRECONDITION);
    cr_expect_str_eq(err.text, "the worker has not started yet");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(try_open(&rig, &seen, &wish, &err), E_FAILED_PRECONDITION);
    cr_expect_str_eq(err.text, "the worker has ended");
}

Test(terminal_place, a_worker_has_a_limited_number)
{
    struct seen seen[TERMINALS_WORKER_MAX + 1] = {0};
    struct error err = {0};
    const char *const argv[] = {"/bin/cat", NULL};
    struct terminal_wish wish = {.argv = argv};
    rig_sleeper(&rig, 1);
    for (int i = 0; i < TERMINALS_WORKER_MAX; i++)
        open_wish(&rig, &seen[i], &wish);
    cr_expect_eq(try_open(&rig, &seen[TERMINALS_WORKER_MAX], &wish, &err), E_RESOURCE_EXHAUSTED);
    cr_expect(strstr(err.text, "16 terminals are open beside this worker"), "%s", err.text);
    terminal_end_input(seen[0].terminal);
    cr_assert(rig_until(&rig, &seen[0].ended));
    close_seen(&seen[0]);
    int rc = E_RESOURCE_EXHAUSTED;
    for (int i = 0; i < RIG_PATIENCE_MS && rc; i += 2) {
        rig_turn(&rig, 2);
        rc = try_open(&rig, &seen[TERMINALS_WORKER_MAX], &wish, &err);
    }
    cr_expect_eq(rc, 0, "%s", err.text);
    for (int i = 1; i <= TERMINALS_WORKER_MAX; i++)
        close_seen(&seen[i]);
}

/* Connections */

static int listen_here(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 4) == 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* A socket has the user that files would have (setfsuid(2)). */
static int listen_as(uid_t user, uint16_t *ret_port)
{
    int own = setfsuid(user);
    int fd = listen_here(ret_port);
    (void)setfsuid((uid_t)own);
    return fd;
}

static int try_connect(struct seen *seen, uint16_t port, struct error *err)
{
    struct terminal_events events = seen_events(seen);
    return rig.launcher.open_connection(rig.launcher.self, &rig_worker(&rig, 1)->key, port, &events,
                                        &seen->terminal, err);
}

static int accept_one(int listener)
{
    int fd = -1;
    for (int i = 0; i < RIG_PATIENCE_MS && fd < 0; i += 2) {
        rig_turn(&rig, 2);
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    cr_assert_geq(fd, 0);
    return fd;
}

Test(terminal_place, a_connection_carries_bytes_both_ways)
{
    struct seen seen = {0};
    struct error err = {0};
    uint16_t port;
    char bytes[64] = "";
    int listener = listen_here(&port);
    rig_sleeper(&rig, 1);
    cr_assert_eq(try_connect(&seen, port, &err), 0, "%s", err.text);
    cr_expect_eq(terminal_write(seen.terminal, "early", 5), 0);
    cr_assert(rig_until(&rig, &seen.room));
    type_text(&seen, "question");
    int fd = accept_one(listener);
    terminal_end_input(seen.terminal);
    cr_expect_eq(recv(fd, bytes, sizeof(bytes), MSG_WAITALL), 8);
    cr_expect_str_eq(bytes, "question");
    cr_assert_eq(write(fd, "answer", 6), 6);
    cr_expect(wait_text(&rig, &seen, "answer"));
    cr_expect_not(seen.ended);
    close(fd);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_CLOSED, "%s", seen.end.why);
    close_seen(&seen);
    close(listener);
}

Test(terminal_place, a_port_without_a_program_is_refused)
{
    struct seen seen = {0};
    struct error err = {0};
    uint16_t port;
    close(listen_here(&port));
    rig_sleeper(&rig, 1);
    cr_expect_eq(try_connect(&seen, 0, &err), E_INVALID_ARGUMENT);
    cr_assert_eq(try_connect(&seen, port, &err), 0, "%s", err.text);
    cr_expect_not(seen.ended);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_REFUSED);
    cr_expect(strstr(seen.end.why, "Connection refused"), "%s", seen.end.why);
    close_seen(&seen);
}

Test(terminal_place, the_workers_end_ends_its_connections)
{
    struct seen seen = {0};
    struct error err = {0};
    uint16_t port;
    char byte;
    int listener = listen_here(&port);
    struct rig_worker *w = rig_sleeper(&rig, 1);
    cr_assert_eq(try_connect(&seen, port, &err), 0, "%s", err.text);
    int fd = accept_one(listener);
    rig.launcher.kill(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_WORKER_ENDED);
    cr_expect_eq(read(fd, &byte, 1), 0);
    close_seen(&seen);
    close(fd);
    close(listener);
}

/* The file of the socket that is connected to this port. */
static int owner_of_connection(uint16_t port)
{
    struct stat status = {.st_uid = (uid_t)-1};
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t size = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == port)
            cr_assert_eq(fstat(fd, &status), 0);
    }
    return (int)status.st_uid;
}

/* Rules of a firewall for a tenant's user hold for it too. */
Test(terminal_place, a_connection_belongs_to_the_workers_user)
{
    struct seen seen = {0};
    struct error err = {0};
    uint16_t port;
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    int listener = listen_as(65534, &port);
    rig_as_user(&rig, 65534, 65533);
    rig_sleeper(&rig, 1);
    cr_assert_eq(try_connect(&seen, port, &err), 0, "%s", err.text);
    int fd = accept_one(listener);
    cr_expect_eq(owner_of_connection(port), 65534);
    cr_expect_eq(geteuid(), 0);
    close_seen(&seen);
    close(fd);
    close(listener);
}

/* The coordinator's, another tenant's, the machine's. */
Test(terminal_place, a_port_of_another_user_is_refused)
{
    struct seen seen = {0};
    struct error err = {0};
    uint16_t port;
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    rig_as_user(&rig, 65534, 65533);
    rig_sleeper(&rig, 1);
    for (uid_t user = 0; user < 2; user++) {
        int listener = listen_as(user, &port);
        cr_expect_eq(try_connect(&seen, port, &err), E_PERMISSION_DENIED);
        cr_expect(strstr(err.text, "not the job's"), "%s", err.text);
        cr_expect_eq(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), -1);
        close(listener);
    }
}
