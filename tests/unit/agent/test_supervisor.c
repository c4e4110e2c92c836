/* The shim and its launcher with real processes. */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/supervisor/cgroup.h"
#include "agent/supervisor/output.h"
#include "agent/supervisor/rundir.h"
#include "common/env/proc.h"
#include "tests/lib/open_files.h"
#include "tests/unit/agent/supervisor_rig.h"

static struct rig rig;

static void begin(void)
{
    rig_init(&rig);
}

static void finish(void)
{
    rig_end(&rig);
}

TestSuite(supervisor, .init = begin, .fini = finish);

Test(supervisor, exit_code_and_output_are_recorded)
{
    /* Two pipes have no order: each line is written when the one before has been recorded. */
    struct rig_worker *w =
        rig_sh(&rig, 1,
               "recorded() { until grep -q $1 ../../runs/job.1/output; do sleep 0.01; done; };"
               "echo out; recorded out; echo err >&2; recorded err; printf unfinished; exit 3");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect(w->started);
    cr_expect_eq(w->exit.code, 3);
    cr_expect_eq(w->exit.signal, 0);
    cr_expect_str_eq(w->exit.text, "exited with code 3");
    cr_expect_str_eq(w->exit.last_output, "out\nerr\nunfinished\n");
    rig_expect_output(&rig, 1, "o out\ne err\no unfinished\n");
    cr_expect_geq(w->outputs, 1);
    struct run_worker record;
    struct rundir dir = rig_run_dir(&rig, 1);
    cr_assert_eq(rundir_read_worker(&dir, &record, NULL), 0);
    cr_expect(!record.cgroup[0] || access(record.cgroup, F_OK) != 0, "%s is left", record.cgroup);
}

static int never_write(void *self, const char *path, const void *data, size_t size, int mode,
                       struct error *err)
{
    (void)self, (void)data, (void)size, (void)mode;
    return error_set(err, E_UNAVAILABLE, "the loop waits for the disk at %s", path);
}

/* A disk that others fill makes a sync take seconds; a node that is silent so long is lost. */
Test(supervisor, a_start_does_not_wait_for_the_disk)
{
    rig.env.disk.write_file = never_write;
    rig_restart(&rig);
    struct rig_worker *w = rig_sh(&rig, 1, "exit 3");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 3);
}

Test(supervisor, output_is_told_once)
{
    struct rig_worker *w = rig_sh(&rig, 1, "echo once; sleep 0.2");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->outputs, 1);
}

Test(supervisor, a_signal_is_named)
{
    struct rig_worker *w = rig_sh(&rig, 1, "kill -SEGV $$");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.signal, SIGSEGV);
    cr_expect(strncmp(w->exit.text, "killed by SIGSEGV", 17) == 0, "%s", w->exit.text);
}

Test(supervisor, terminate_reaches_the_whole_group)
{
    struct rig_worker *w = rig_sh(
        &rig, 1,
        "trap 'wait; exit 9' TERM; sh -c 'trap \"echo child heard; exit\" TERM; echo ready=1; "
        "while :; do sleep 0.05; done' & wait");
    rig_number(&rig, 1, "ready=");
    rig.launcher.terminate(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 9);
    cr_expect(strstr(w->exit.last_output, "child heard"), "%s", w->exit.last_output);
}

Test(supervisor, an_early_signal_reaches_the_whole_group_and_ends_nothing)
{
    static const char *const argv[] = {
        "sh", "-c",
        "trap 'echo parent heard' USR2; "
        "sh -c 'trap \"echo child heard; exit\" USR2; echo ready=1; while :; do sleep 0.05; done' &"
        " wait; wait; exit 4",
        NULL};
    struct launch launch = {.key = {"job", 1},
                            .argv = argv,
                            .envp = rig_environment,
                            .workdir = "",
                            .early_signal = SIGUSR2};
    cr_assert_eq(rig_launch(&rig, &launch, NULL), 0);
    struct rig_worker *w = rig_worker(&rig, 1);
    rig_number(&rig, 1, "ready=");
    cr_assert(rig_until(&rig, &w->started)); /* its output may be seen earlier */
    rig.launcher.signal_early(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 4, "%s", w->exit.text);
    cr_expect(strstr(w->exit.last_output, "child heard"), "%s", w->exit.last_output);
    cr_expect(strstr(w->exit.last_output, "parent heard"), "%s", w->exit.last_output);
}

Test(supervisor, terminate_before_it_started_is_not_lost)
{
    struct rig_worker *w = rig_sh(&rig, 1, "sleep 1000");
    rig.launcher.terminate(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.signal, SIGTERM);
    cr_expect_str_eq(w->exit.text, "killed by SIGTERM (asked to stop)");
}

Test(supervisor, who_ignores_sigterm_is_killed)
{
    struct rig_worker *w =
        rig_sh(&rig, 1, "trap '' TERM; echo ready=1; while :; do sleep 0.1; done");
    rig_number(&rig, 1, "ready=");
    rig.launcher.terminate(rig.launcher.self, &w->key);
    rig_turn(&rig, 300);
    cr_expect_not(w->ended);
    rig.launcher.kill(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.signal, SIGKILL);
    cr_expect_str_eq(w->exit.text, "killed by SIGKILL (asked to stop)");
}

Test(supervisor, who_is_killed_at_once_was_asked_to)
{
    struct rig_worker *w = rig_sh(&rig, 1, "echo ready=1; sleep 1000");
    rig_number(&rig, 1, "ready=");
    rig.launcher.kill(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_str_eq(w->exit.text, "killed by SIGKILL (asked to stop)");
}

/* Ctrl-C and a hang-up are for the agent. */
Test(supervisor, a_shim_stays_whatever_its_terminal_says)
{
    struct rig_worker *w =
        rig_sh(&rig, 1, "echo ready=1; while [ ! -e go ]; do sleep 0.05; done; exit 4");
    char path[128];
    rig_number(&rig, 1, "ready=");
    kill(rig_shim(&rig, 1), SIGHUP);
    kill(rig_shim(&rig, 1), SIGINT);
    rig_turn(&rig, 50);
    snprintf(path, sizeof(path), "%s/work/job.1/go", rig.dir);
    fclose(fopen(path, "w"));
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 4, "%s", w->exit.text);
}

Test(supervisor, what_cannot_start_says_why)
{
    struct error err;
    const char *const missing[] = {"no-such-program-here", NULL};
    const char *const fine[] = {"true", NULL};
    const char *const no_program[] = {"/etc/passwd", NULL};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 1) == 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    struct launch launches[] = {
        {.key = {"job", 1}, .argv = missing, .envp = rig_environment, .workdir = ""},
        {.key = {"job", 2}, .argv = fine, .envp = rig_environment, .workdir = "/no/such/folder"},
        {.key = {"job", 3},
         .argv = fine,
         .envp = rig_environment,
         .workdir = "",
         .master_port = ntohs(address.sin_port)},
        {.key = {"job", 4}, .argv = no_program, .envp = rig_environment, .workdir = ""},
    };
    const char *const why[] = {"no-such-program-here", "/no/such/folder", "port busy",
                               "/etc/passwd"};
    const int codes[] = {AGENT_START_NOT_FOUND, AGENT_START_NOT_FOUND, AGENT_START_AGAIN,
                         AGENT_START_NOT_EXECUTABLE};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(rig_launch(&rig, &launches[i], &err), 0, "%s", err.text);
        struct rig_worker *w = rig_worker(&rig, launches[i].key.uid);
        cr_assert(rig_until(&rig, &w->failed), "%d", i);
        cr_expect(strstr(w->why, why[i]), "%s", w->why);
        cr_expect_eq(w->code, codes[i], "%s: %d", w->why, w->code);
        cr_expect_not(w->started);
    }
    cr_expect(strstr(rig_worker(&rig, 1)->why, "no workdir"), "%s", rig_worker(&rig, 1)->why);
    close(fd);
    rig_restart(&rig);
    cr_expect(rig_worker(&rig, 1)->adopted.exited);
    cr_expect_eq(rig_worker(&rig, 1)->adopted.exit.code, AGENT_START_NOT_FOUND);
    cr_expect_eq(rig_worker(&rig, 3)->adopted.exit.code, AGENT_START_AGAIN);
}

/* Takes an address and port for it that nobody uses: of those that the system gives to clients,
 * other tests' connections hold any at other addresses. */
static struct sockaddr_in listen_below_clients(int listener)
{
    enum { FIRST = 20000, COUNT = 5000 };
    struct sockaddr_in address = {.sin_family = AF_INET};
    cr_assert_eq(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
    for (int i = 0; i < COUNT; i++) {
        int everywhere = socket(AF_INET, SOCK_STREAM, 0);
        address.sin_port = htons((uint16_t)(FIRST + (getpid() + i) % COUNT));
        address.sin_addr.s_addr = htonl(INADDR_ANY);
        bool is_free = bind(everywhere, (struct sockaddr *)&address, sizeof(address)) == 0;
        close(everywhere);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (is_free && bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0)
            break;
    }
    cr_assert_eq(listen(listener, 1), 0);
    return address;
}

/* What an earlier rank 0 left behind for a minute does not keep the next from listening there. */
Test(supervisor, a_port_whose_connections_are_over_is_free)
{
    const char *const argv[] = {"true", NULL};
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = listen_below_clients(listener);
    socklen_t size = sizeof(address);
    cr_assert_eq(connect(client, (struct sockaddr *)&address, size), 0);
    close(accept(listener, NULL, NULL)); /* who closes first keeps the port */
    close(listener);
    close(client);
    struct launch launch = {.key = {"job", 1},
                            .argv = argv,
                            .envp = rig_environment,
                            .workdir = "",
                            .master_port = ntohs(address.sin_port)};
    cr_assert_eq(rig_launch(&rig, &launch, NULL), 0);
    struct rig_worker *w = rig_worker(&rig, 1);
    for (int i = 0; i < RIG_PATIENCE_MS && !w->ended && !w->failed; i += 2)
        rig_turn(&rig, 2);
    cr_expect(w->ended && w->exit.code == 0, "%s", w->why);
}

Test(supervisor, output_goes_on_where_it_was_acknowledged)
{
    struct output_batch batch;
    struct rig_worker *w = rig_sh(&rig, 1, "for i in 0 1 2 3 4 5 6 7 8 9; do echo line $i; done");
    cr_assert(rig_until(&rig, &w->ended));
    struct worker_key key = w->key;
    rig.launcher.read_output(rig.launcher.self, &key, 1, &batch, NULL);
    cr_expect_eq(batch.count, 1, "at least one, however long");
    output_batch_fini(&batch);
    rig.launcher.acknowledge(rig.launcher.self, &key, 2); /* of another batch */
    rig.launcher.read_output(rig.launcher.self, &key, 20, &batch, NULL);
    cr_expect_eq(batch.first, 0);
    cr_expect_eq(batch.count, 3);
    cr_expect_eq(batch.rank, 3);
    cr_expect_not(batch.complete);
    uint64_t next = batch.first + (uint64_t)batch.count;
    output_batch_fini(&batch);
    rig.launcher.acknowledge(rig.launcher.self, &key, next);
    rig_restart(&rig);
    rig.launcher.read_output(rig.launcher.self, &key, 1 << 20, &batch, NULL);
    cr_expect_eq(batch.first, 3);
    cr_expect_eq(batch.count, 7);
    cr_expect_str_eq(batch.lines[0].text, "line 3");
    cr_expect(batch.complete);
    next = batch.first + (uint64_t)batch.count;
    output_batch_fini(&batch);
    rig.launcher.acknowledge(rig.launcher.self, &key, next);
    rig.launcher.read_output(rig.launcher.self, &key, 1 << 20, &batch, NULL);
    cr_expect_eq(batch.count, 0);
    cr_expect(batch.complete);
    output_batch_fini(&batch);
}

Test(supervisor, output_is_complete_only_at_its_end)
{
    struct output_batch batch;
    uint64_t next = 0;
    bool complete = false;
    /* Long lines: what one read returns ends with the bytes read, not with their text. */
    struct rig_worker *w = rig_sh(&rig, 1, "seq -f \"%.0f-$(printf %0150d 0)\" 9000");
    cr_assert(rig_until(&rig, &w->ended));
    for (int i = 0; i < 100 && !complete; i++) {
        cr_assert_eq(rig.launcher.read_output(rig.launcher.self, &w->key, 256 << 10, &batch, NULL),
                     0);
        cr_expect_eq(batch.first, next);
        next += (uint64_t)batch.count;
        complete = batch.complete;
        output_batch_fini(&batch);
        rig.launcher.acknowledge(rig.launcher.self, &w->key, next);
    }
    cr_expect(complete);
    cr_expect_eq(next, 9000);
}

Test(supervisor, a_flood_neither_stalls_the_worker_nor_fills_the_disk)
{
    struct rig_worker *w = rig_sh(&rig, 1, "head -c 100000000 /dev/zero | tr '\\0' '\\n'; exit 7");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 7, "%s: %s", w->exit.text, w->exit.last_output);
    char command[160];
    snprintf(command, sizeof(command), "test $(du -sk %s | cut -f1) -lt 80000", rig.dir);
    cr_expect_eq(system(command), 0);
}

static bool no_inotify;

int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);
int __wrap_inotify_init1(int flags)
{
    errno = EMFILE;
    return no_inotify ? -1 : __real_inotify_init1(flags);
}

Test(supervisor, without_inotify_a_timer_looks)
{
    no_inotify = true;
    rig_restart(&rig);
    struct rig_worker *w =
        rig_sh(&rig, 1, "sleep 0.3; echo hello; while [ ! -e go ]; do sleep 0.05; done; exit 2");
    for (int i = 0; i < RIG_PATIENCE_MS && !w->outputs; i += 10)
        rig_turn(&rig, 10);
    cr_expect(w->started && w->outputs == 1);
    char path[128];
    snprintf(path, sizeof(path), "%s/work/job.1/go", rig.dir);
    fclose(fopen(path, "w"));
    cr_expect(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 2);
}

/* Its shim stands still: what it does not do is done to it. */
Test(supervisor, a_shim_that_does_not_kill_is_killed)
{
    struct rig_worker *w = rig_sh(&rig, 1, "echo ready=1; sleep 1000");
    rig_number(&rig, 1, "ready=");
    kill(rig_shim(&rig, 1), SIGSTOP);
    for (int i = 0; i < 4; i++)
        rig.launcher.kill(rig.launcher.self, &w->key);
    rig_turn(&rig, 100);
    cr_expect_not(w->ended);
    rig.launcher.kill(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect(w->exit.lost);
}

Test(supervisor, many_workers_leave_no_descriptor)
{
    rig_sh(&rig, 1, "true");
    cr_assert(rig_until(&rig, &rig_worker(&rig, 1)->ended));
    int before = open_files();
    for (uint64_t uid = 2; uid < 6; uid++)
        rig_sh(&rig, uid, "echo x");
    for (uint64_t uid = 2; uid < 6; uid++)
        cr_assert(rig_until(&rig, &rig_worker(&rig, uid)->ended));
    cr_expect_eq(open_files(), before);
}
