#include "tests/unit/agent/supervisor_rig.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/str.h"
#include "common/env/clock_os.h"
#include "common/env/disk_os.h"

const char *const rig_environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};

struct rig_worker *rig_worker(struct rig *rig, uint64_t uid)
{
    for (int i = 0; i < rig->count; i++)
        if (rig->workers[i].key.uid == uid)
            return &rig->workers[i];
    cr_assert(rig->count < RIG_WORKERS_MAX);
    struct rig_worker *worker = &rig->workers[rig->count++];
    memset(worker, 0, sizeof(*worker));
    worker->key = (struct worker_key){.job = "job", .uid = uid};
    return worker;
}

static void on_found(void *arg, const struct worker_found *found)
{
    struct rig_worker *worker = rig_worker(arg, found->key.uid);
    worker->found = true;
    worker->adopted = *found;
    worker->key = found->key;
    worker->pid = found->pid;
}

static void on_started(void *arg, const struct worker_key *key, int64_t pid)
{
    struct rig_worker *worker = rig_worker(arg, key->uid);
    cr_expect_not(worker->started);
    worker->started = true;
    worker->pid = pid;
}

static void on_start_failed(void *arg, const struct worker_key *key, int code, const char *why)
{
    struct rig_worker *worker = rig_worker(arg, key->uid);
    cr_expect(!worker->failed && !worker->ended);
    worker->failed = true;
    (void)str_copy(worker->why, sizeof(worker->why), why);
    worker->code = code;
}

static void on_stuck(void *arg, const struct worker_key *key, const struct worker_stuck *stuck)
{
    struct rig_worker *worker = rig_worker(arg, key->uid);
    cr_expect(!worker->failed && !worker->ended);
    worker->is_stuck = true;
    worker->stuck = *stuck;
}

static void on_exited(void *arg, const struct worker_key *key, const struct worker_exit *exit)
{
    struct rig_worker *worker = rig_worker(arg, key->uid);
    cr_expect(!worker->failed && !worker->ended);
    worker->ended = true;
    worker->exit = *exit;
}

static void on_output(void *arg, const struct worker_key *key)
{
    rig_worker(arg, key->uid)->outputs++;
}

static void rig_open(struct rig *rig)
{
    struct error err;
    char path[80], work[80], tmp[80];
    const char *const argv[] = {SHIM_PROGRAM, NULL};
    (void)str_printf(path, sizeof(path), "%s/runs", rig->dir);
    (void)str_printf(work, sizeof(work), "%s/work", rig->dir);
    (void)str_printf(tmp, sizeof(tmp), "%s/tmp", rig->dir);
    struct launcher_shim_options options = {.dir = path,
                                            .work_dir = work,
                                            .tmp_dir = tmp,
                                            .namespaces = rig->namespaces,
                                            .shim_argv = argv,
                                            .home = rig->home};
    struct launcher_events events = {.arg = rig,
                                     .found = on_found,
                                     .started = on_started,
                                     .start_failed = on_start_failed,
                                     .stuck = on_stuck,
                                     .exited = on_exited,
                                     .output = on_output};
    int rc = launcher_shim_new(&options, &rig->env, rig->loop, &rig->shims, &err);
    cr_assert_eq(rc, 0, "%s", err.text);
    rig->launcher = launcher_shim_face(rig->shims);
    rc = rig->launcher.open(rig->launcher.self, &events, &err);
    cr_assert_eq(rc, 0, "%s", err.text);
}

void rig_init(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    (void)str_copy(rig->dir, sizeof(rig->dir), "/tmp/muster-test-XXXXXX");
    cr_assert_not_null(mkdtemp(rig->dir));
    rig->env.disk = disk_os();
    rig->env.clock = clock_os();
    cgroup_home_find("auto", &rig->home);
    cr_assert_eq(loop_new(clock_os(), &rig->loop, NULL), 0);
    rig_open(rig);
}

void rig_restart(struct rig *rig)
{
    launcher_shim_free(rig->shims);
    rig->count = 0;
    rig_open(rig);
}

void rig_as_user(struct rig *rig, uid_t uid, gid_t gid)
{
    cr_assert_eq(chmod(rig->dir, 0711), 0);
    rig->as_user = true;
    rig->user = (struct launch_user){.uid = uid, .gid = gid};
    rig_restart(rig);
}

void rig_turn(struct rig *rig, int ms)
{
    int64_t until = rig->env.clock.now_ms(rig->env.clock.self) + ms;
    do {
        loop_turn(rig->loop);
        usleep(1000);
    } while (rig->env.clock.now_ms(rig->env.clock.self) < until);
}

bool rig_until(struct rig *rig, const bool *flag)
{
    for (int i = 0; i < RIG_PATIENCE_MS && !*flag; i += 2)
        rig_turn(rig, 2);
    return *flag;
}

void rig_fini(struct rig *rig)
{
    for (int i = 0; i < rig->count; i++) {
        struct rig_worker *worker = &rig->workers[i];
        bool over = worker->ended || worker->failed || worker->adopted.exited;
        if (!over && (worker->started || worker->found)) {
            rig->launcher.kill(rig->launcher.self, &worker->key);
            cr_expect(rig_until(rig, &worker->ended), "worker %d does not end", i);
        }
    }
    launcher_shim_free(rig->shims);
    loop_free(rig->loop);
    rig->env.disk.remove_tree(rig->env.disk.self, rig->dir, NULL);
}

void rig_end(struct rig *rig)
{
    rig_fini(rig);
    cr_expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "a zombie is left");
}

int rig_launch(struct rig *rig, const struct launch *launch, struct error *err)
{
    struct launch own = *launch;
    own.user = rig->as_user ? &rig->user : NULL;
    (void)rig_worker(rig, launch->key.uid);
    return rig->launcher.start(rig->launcher.self, &own, err);
}

struct rig_worker *rig_sh(struct rig *rig, uint64_t uid, const char *script)
{
    struct error err;
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct launch launch = {.key = {.job = "job", .uid = uid},
                            .generation = 1,
                            .rank = 3,
                            .argv = argv,
                            .envp = rig_environment,
                            .workdir = ""};
    int rc = rig_launch(rig, &launch, &err);
    cr_assert_eq(rc, 0, "%s", err.text);
    return rig_worker(rig, uid);
}

char *rig_output(struct rig *rig, uint64_t uid)
{
    struct output_batch batch;
    struct buf text = {0};
    struct error err;
    int rc = rig->launcher.read_output(rig->launcher.self, &rig_worker(rig, uid)->key, 8 << 20,
                                       &batch, &err);
    cr_assert_eq(rc, 0, "%s", err.text);
    for (int i = 0; i < batch.count; i++)
        buf_printf(&text, "%c %s\n", batch.lines[i].is_stderr ? 'e' : 'o', batch.lines[i].text);
    output_batch_fini(&batch);
    buf_str(&text, "");
    char *taken = buf_take(&text, NULL);
    return taken ? taken : strdup("");
}

bool rig_output_has(struct rig *rig, uint64_t uid, const char *text)
{
    bool has = false;
    for (int i = 0; i < RIG_PATIENCE_MS && !has; i += 10) {
        char *output = rig_output(rig, uid);
        has = strstr(output, text) != NULL;
        free(output);
        if (!has)
            rig_turn(rig, 10);
    }
    return has;
}

void rig_expect_output(struct rig *rig, uint64_t uid, const char *expected)
{
    char *output = rig_output(rig, uid);
    cr_expect_str_eq(output, expected, "%s", output);
    free(output);
}

/* The number in a line "name=123" of its output, waited for. */
int64_t rig_number(struct rig *rig, uint64_t uid, const char *name)
{
    cr_assert(rig_output_has(rig, uid, name), "no %s", name);
    char *output = rig_output(rig, uid);
    int64_t number = atoll(strstr(output, name) + strlen(name));
    free(output);
    return number;
}

struct rundir rig_run_dir(struct rig *rig, uint64_t uid)
{
    struct rundir dir;
    char path[128];
    snprintf(path, sizeof(path), "%s/runs/job.%d", rig->dir, (int)uid);
    cr_assert_eq(rundir_init(&dir, &rig->env.disk, path, NULL), 0);
    return dir;
}

pid_t rig_shim(struct rig *rig, uint64_t uid)
{
    struct rundir dir = rig_run_dir(rig, uid);
    struct run_process shim;
    struct error err;
    cr_assert_eq(rundir_read_shim(&dir, &shim, &err), 0, "%s", err.text);
    return (pid_t)shim.pid;
}
