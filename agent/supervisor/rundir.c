#include "agent/supervisor/rundir.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/supervisor/private_file.h"
#include "agent/supervisor/record.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree.h"
#include "common/base/tree_build.h"
#include "common/base/tree_write.h"
#include "common/env/disk_os.h"

enum {
    FILE_MODE = 0600, /* tokens, and what a tenant's program wrote */
    DIRECTORY_MODE = 0700,
};

int rundir_init(struct rundir *dir, const struct disk *disk, const char *path, struct error *err)
{
    dir->disk = disk;
    if (str_copy(dir->path, sizeof(dir->path), path))
        return error_set(err, E_OUT_OF_RANGE, "path of the run directory is too long: %s", path);
    return 0;
}

int rundir_name(const struct worker_key *key, char ret[RUNDIR_PATH_MAX], struct error *err)
{
    for (const char *c = key->job; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_' && *c != '.')
            return error_set(err, E_INVALID_ARGUMENT, "job id \"%s\" is no file name", key->job);
    if (!key->job[0] || key->job[0] == '.')
        return error_set(err, E_INVALID_ARGUMENT, "job id \"%s\" is no file name", key->job);
    return str_printf(ret, RUNDIR_PATH_MAX, "%s.%" PRIu64, key->job, key->uid);
}

int rundir_parse_name(const char *name, struct worker_key *ret)
{
    struct worker_key key = {0};
    const char *dot = strrchr(name, '.');
    int64_t uid;
    if (!dot || dot == name || (size_t)(dot - name) > JOB_ID_MAX ||
        parse_i64(dot + 1, 0, INT64_MAX, &uid, NULL))
        return E_INVALID_ARGUMENT;
    memcpy(key.job, name, (size_t)(dot - name));
    key.uid = (uint64_t)uid;
    *ret = key;
    return 0;
}

int rundir_file(const struct rundir *dir, const char *name, char ret[RUNDIR_PATH_MAX],
                struct error *err)
{
    if (str_printf(ret, RUNDIR_PATH_MAX, "%s/%s", dir->path, name))
        return error_set(err, E_OUT_OF_RANGE, "path is too long: %s/%s", dir->path, name);
    return 0;
}

enum { DURABLE = 1 << 16 }; /* beside the mode: must it survive a crash of the machine? */

static int write_tree(const struct rundir *dir, const char *name, const struct tree *tree, int mode,
                      struct error *err)
{
    char path[RUNDIR_PATH_MAX];
    struct buf text = {0};
    int rc = rundir_file(dir, name, path, err);
    if (!rc)
        rc = tree_write_json(tree, TREE_COMPACT, &text, err);
    if (!rc && (mode & DURABLE))
        rc = dir->disk->write_file(dir->disk->self, path, buf_cstr(&text), text.size,
                                   mode & ~DURABLE, err);
    else if (!rc)
        rc = disk_replace(path, &text, mode, err);
    buf_fini(&text);
    return rc;
}

static int read_tree(const struct rundir *dir, const char *name, struct arena *arena,
                     struct tree **ret, struct error *err)
{
    char path[RUNDIR_PATH_MAX];
    char *data;
    size_t size;
    int rc = rundir_file(dir, name, path, err);
    if (!rc)
        rc = dir->disk->read_file(dir->disk->self, path, RUNDIR_FILE_MAX_BYTES, &data, &size, err);
    if (rc)
        return rc;
    struct tree_input input = {
        .name = path, .text = data, .size = size, .limits = {.bytes = RUNDIR_FILE_MAX_BYTES}};
    rc = tree_parse_json(&input, arena, ret, err);
    free(data);
    return rc;
}

static int record_store(struct record *w, const struct rundir *dir, const char *name, int mode,
                        struct error *err)
{
    int rc = w->rc ? error_set(err, w->rc, "no memory for %s", name)
                   : write_tree(dir, name, w->map, mode, err);
    arena_fini(&w->arena);
    return rc;
}

static void put_home(struct record *w, const struct cgroup_home *home)
{
    record_put_number(w, "cgroup_kind", home->kind);
    record_put_text(w, "cgroup_home", home->path);
    record_put_text(w, "cgroup_pids", home->pids);
    record_put_text(w, "cgroup_devices", home->devices);
    record_put_text(w, "cgroup_why", home->why);
}

static void put_gpus(struct record *w, const char *key, const struct launch_gpus *gpus)
{
    struct tree *list = tree_list(&w->arena);
    if (!gpus->major)
        return;
    for (int i = 0; i < gpus->count && list && !w->rc; i++)
        w->rc = tree_list_add(list, tree_integer(&w->arena, gpus->minors[i]));
    record_put_number(w, "gpu_major", gpus->major);
    record_put(w, key, list);
}

static void put_user(struct record *w, const struct launch_user *user)
{
    struct tree *list = tree_list(&w->arena);
    record_put_bool(w, "change_user", user != NULL);
    if (!user)
        return;
    for (int i = 0; i < user->groups_count && list && !w->rc; i++)
        w->rc = tree_list_add(list, tree_integer(&w->arena, user->groups[i]));
    record_put_number(w, "user", user->uid);
    record_put_number(w, "group", user->gid);
    record_put(w, "groups", list);
}

static void put_secret_names(struct record *w, const struct run_launch *how)
{
    struct tree *names = tree_list(&w->arena);
    record_put_text(w, "secrets", how->secrets ? how->secrets : "");
    for (int i = 0; i < how->launch.secrets_count && names && !w->rc; i++)
        w->rc = tree_list_add(names, tree_string(&w->arena, how->launch.secrets[i].name));
    record_put(w, "secret_names", names);
}

int rundir_create(const struct rundir *dir, const struct run_launch *how, struct error *err)
{
    if (mkdir(dir->path, DIRECTORY_MODE))
        return error_errno(err, errno, "run directory %s", dir->path);
    /* Left by a run that was not forgotten completely, with its worker's files. */
    int rc = dir->disk->remove_tree(dir->disk->self, how->work, err);
    if (rc)
        return rc;
    const struct launch *launch = &how->launch;
    const struct launch_user *user = launch->user;
    if (mkdir(how->work, DIRECTORY_MODE) || (user && lchown(how->work, user->uid, user->gid)))
        return error_errno(err, errno, "folder %s", how->work);
    rc = private_files_write(how, err);
    if (rc)
        return rc;
    struct record w;
    record_init(&w);
    record_put_text(&w, "job", launch->key.job);
    record_put_number(&w, "uid", (int64_t)launch->key.uid);
    record_put_number(&w, "generation", (int64_t)launch->generation);
    record_put_number(&w, "rank", launch->rank);
    record_put_texts(&w, "argv", launch->argv);
    record_put_texts(&w, "envp", launch->envp);
    record_put_text(&w, "workdir", launch->workdir);
    record_put_text(&w, "work", how->work);
    record_put_text(&w, "token", launch->token ? launch->token : "");
    put_secret_names(&w, how);
    record_put_number(&w, "memory_bytes", (int64_t)launch->memory_bytes);
    record_put_number(&w, "processes", launch->processes);
    record_put_text(&w, "cores", launch->cores ? launch->cores : "");
    record_put_text(&w, "master_addr", launch->master_addr ? launch->master_addr : "");
    record_put_number(&w, "stop_signal", launch->stop_signal);
    record_put_number(&w, "early_signal", launch->early_signal);
    record_put_number(&w, "master_port", launch->master_port);
    put_user(&w, launch->user);
    put_home(&w, &how->home);
    put_gpus(&w, "gpus", &launch->gpus);
    put_gpus(&w, "job_gpus", &how->job_gpus);
    return record_store(&w, dir, "launch.json", FILE_MODE, err);
}

int rundir_settle(const struct rundir *dir, struct error *err)
{
    char path[RUNDIR_PATH_MAX], *data;
    size_t size;
    int rc = rundir_file(dir, "launch.json", path, err);
    if (!rc)
        rc = dir->disk->read_file(dir->disk->self, path, RUNDIR_FILE_MAX_BYTES, &data, &size, err);
    if (rc)
        return rc;
    rc = dir->disk->write_file(dir->disk->self, path, data, size, FILE_MODE, err);
    free(data);
    return rc;
}

static void get_home(const struct tree *map, struct cgroup_home *ret)
{
    int64_t kind = record_number(map, "cgroup_kind");
    ret->kind = kind == CGROUP_V1 || kind == CGROUP_V2 ? (enum cgroup_kind)kind : CGROUP_NONE;
    (void)str_copy(ret->path, sizeof(ret->path), record_text(map, "cgroup_home"));
    (void)str_copy(ret->pids, sizeof(ret->pids), record_text(map, "cgroup_pids"));
    (void)str_copy(ret->devices, sizeof(ret->devices), record_text(map, "cgroup_devices"));
    (void)str_copy(ret->why, sizeof(ret->why), record_text(map, "cgroup_why"));
}

/* Absent: an older agent's, or slots are no GPUs. */
static void get_gpus(const struct tree *map, const char *key, struct launch_gpus *ret)
{
    const struct tree *list = tree_get(map, key), *child;
    int64_t minor;
    *ret = (struct launch_gpus){0};
    if (!list || list->kind != TREE_LIST)
        return;
    ret->major = (uint32_t)record_number(map, "gpu_major");
    tree_each(child, list)
        if (ret->count < AGENT_GPUS_MAX && !tree_read_i64(child, &minor, NULL))
            ret->minors[ret->count++] = (uint32_t)minor;
}

static int get_user(const struct tree *map, struct arena *arena, const struct launch_user **ret)
{
    const struct tree *list = tree_get(map, "groups"), *child;
    struct launch_user *user = arena_alloc(arena, sizeof(*user));
    int64_t group;
    *ret = NULL;
    if (!user)
        return E_RESOURCE_EXHAUSTED;
    if (!record_bool(map, "change_user"))
        return 0;
    *user = (struct launch_user){.uid = (uid_t)record_number(map, "user"),
                                 .gid = (gid_t)record_number(map, "group")};
    if (list && list->kind == TREE_LIST)
        tree_each(child, list)
            if (user->groups_count < AGENT_GROUPS_MAX && !tree_read_i64(child, &group, NULL))
                user->groups[user->groups_count++] = (gid_t)group;
    *ret = user;
    return 0;
}

static int get_secret_names(const struct tree *map, struct arena *arena, struct run_launch *ret)
{
    const char *const *names;
    ret->secrets = record_text(map, "secrets");
    if (!ret->secrets[0] || record_texts(map, "secret_names", arena, &names))
        return 0; /* an older agent's */
    int count = 0;
    while (names[count])
        count++;
    struct launch_secret *secrets = arena_array(arena, (size_t)count + 1, sizeof(*secrets));
    if (!secrets)
        return E_RESOURCE_EXHAUSTED;
    for (int i = 0; i < count; i++)
        secrets[i] = (struct launch_secret){.name = names[i], .value = ""};
    ret->launch.secrets = secrets;
    ret->launch.secrets_count = count;
    return 0;
}

int rundir_read_launch(const struct rundir *dir, struct arena *arena, struct run_launch *ret,
                       struct error *err)
{
    struct run_launch run = {0};
    struct launch *launch = &run.launch;
    struct tree *map;
    int rc = read_tree(dir, "launch.json", arena, &map, err);
    if (rc)
        return rc;
    if (record_texts(map, "argv", arena, &launch->argv) ||
        record_texts(map, "envp", arena, &launch->envp) || !launch->argv[0])
        return error_set(err, E_DATA_LOSS, "%s/launch.json is not what an agent wrote", dir->path);
    (void)str_copy(launch->key.job, sizeof(launch->key.job), record_text(map, "job"));
    launch->key.uid = (uint64_t)record_number(map, "uid");
    launch->generation = (uint64_t)record_number(map, "generation");
    launch->rank = (uint32_t)record_number(map, "rank");
    launch->workdir = record_text(map, "workdir");
    run.work = record_text(map, "work");
    launch->token = record_text(map, "token");
    launch->memory_bytes = (uint64_t)record_number(map, "memory_bytes");
    launch->processes = (uint32_t)record_number(map, "processes");
    launch->cores = record_text(map, "cores");
    launch->master_addr = record_text(map, "master_addr");
    launch->stop_signal = (int)record_number(map, "stop_signal");
    launch->early_signal = (int)record_number(map, "early_signal");
    launch->master_port = (uint16_t)record_number(map, "master_port");
    if (get_user(map, arena, &launch->user) || get_secret_names(map, arena, &run))
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for %s/launch.json", dir->path);
    get_home(map, &run.home);
    get_gpus(map, "gpus", &launch->gpus);
    get_gpus(map, "job_gpus", &run.job_gpus);
    *ret = run;
    return 0;
}

static void put_process(struct record *w, const struct run_process *process)
{
    record_put_number(w, "pid", process->pid);
    record_put_number(w, "start_ticks", (int64_t)process->start_ticks);
    record_put_text(w, "boot", process->boot);
}

static void get_process(const struct tree *map, struct run_process *ret)
{
    ret->pid = record_number(map, "pid");
    ret->start_ticks = (uint64_t)record_number(map, "start_ticks");
    (void)str_copy(ret->boot, sizeof(ret->boot), record_text(map, "boot"));
}

/* link(2) makes the name appear with its content, and only if it was not there. */
int rundir_claim(const struct rundir *dir, const struct run_process *shim, struct error *err)
{
    char own[RUNDIR_PATH_MAX], name[64], path[RUNDIR_PATH_MAX];
    (void)str_printf(name, sizeof(name), "shim.json.%ld", (long)getpid());
    int rc = rundir_file(dir, name, own, err);
    if (!rc)
        rc = rundir_file(dir, "shim.json", path, err);
    if (rc)
        return rc;
    struct record w;
    record_init(&w);
    put_process(&w, shim);
    rc = record_store(&w, dir, name, FILE_MODE, err);
    if (rc)
        return rc;
    if (link(own, path))
        rc = error_errno(err, errno, "%s", path);
    unlink(own);
    return rc;
}

int rundir_read_shim(const struct rundir *dir, struct run_process *ret, struct error *err)
{
    struct arena arena = {0};
    struct tree *map;
    int rc = read_tree(dir, "shim.json", &arena, &map, err);
    if (!rc)
        get_process(map, ret);
    arena_fini(&arena);
    return rc;
}

int rundir_write_worker(const struct rundir *dir, const struct run_worker *worker,
                        struct error *err)
{
    struct record w;
    record_init(&w);
    put_process(&w, &worker->process);
    record_put_text(&w, "cgroup", worker->cgroup);
    record_put_text(&w, "cgroup_pids", worker->cgroup_pids);
    record_put_text(&w, "cgroup_devices", worker->cgroup_devices);
    record_put_text(&w, "start_error", worker->start_error);
    record_put_number(&w, "start_code", worker->start_code);
    return record_store(&w, dir, "worker.json", FILE_MODE, err);
}

int rundir_read_worker(const struct rundir *dir, struct run_worker *ret, struct error *err)
{
    struct arena arena = {0};
    struct tree *map;
    int rc = read_tree(dir, "worker.json", &arena, &map, err);
    if (!rc) {
        get_process(map, &ret->process);
        (void)str_copy(ret->cgroup, sizeof(ret->cgroup), record_text(map, "cgroup"));
        (void)str_copy(ret->cgroup_pids, sizeof(ret->cgroup_pids), record_text(map, "cgroup_pids"));
        (void)str_copy(ret->cgroup_devices, sizeof(ret->cgroup_devices),
                       record_text(map, "cgroup_devices"));
        (void)str_copy(ret->start_error, sizeof(ret->start_error), record_text(map, "start_error"));
        ret->start_code = (int)record_number(map, "start_code");
    }
    arena_fini(&arena);
    return rc;
}

static void put_exit(struct record *w, const struct worker_exit *exit)
{
    record_put_number(w, "code", exit->code);
    record_put_number(w, "signal", exit->signal);
    record_put_bool(w, "oom", exit->oom);
    record_put_bool(w, "lost", exit->lost);
    record_put_number(w, "wall_ms", exit->wall_ms);
    record_put_text(w, "text", exit->text);
    record_put_text(w, "last_output", exit->last_output);
}

static void get_exit(const struct tree *map, struct worker_exit *ret)
{
    ret->code = (int)record_number(map, "code");
    ret->signal = (int)record_number(map, "signal");
    ret->oom = record_bool(map, "oom");
    ret->lost = record_bool(map, "lost");
    ret->wall_ms = record_number(map, "wall_ms");
    (void)str_copy(ret->text, sizeof(ret->text), record_text(map, "text"));
    (void)str_copy(ret->last_output, sizeof(ret->last_output), record_text(map, "last_output"));
}

int rundir_write_stuck(const struct rundir *dir, const struct worker_stuck *stuck,
                       struct error *err)
{
    struct record w;
    record_init(&w);
    struct tree *pids = tree_list(&w.arena);
    for (int i = 0; i < stuck->count && pids && !w.rc; i++)
        w.rc = tree_list_add(pids, tree_integer(&w.arena, stuck->pids[i]));
    record_put(&w, "pids", pids);
    record_put_number(&w, "stuck_wall_ms", stuck->wall_ms);
    record_put_bool(&w, "ended", stuck->ended);
    put_exit(&w, &stuck->exit);
    return record_store(&w, dir, "stuck.json", FILE_MODE, err);
}

static void get_pids(const struct tree *map, struct worker_stuck *ret)
{
    const struct tree *list = tree_get(map, "pids"), *pid;
    ret->count = 0;
    if (!list || list->kind != TREE_LIST)
        return;
    tree_each(pid, list)
        if (ret->count < AGENT_STUCK_PIDS_MAX && !tree_read_i64(pid, &ret->pids[ret->count], NULL))
            ret->count++;
}

int rundir_read_stuck(const struct rundir *dir, struct worker_stuck *ret, struct error *err)
{
    struct arena arena = {0};
    struct tree *map;
    int rc = read_tree(dir, "stuck.json", &arena, &map, err);
    if (!rc) {
        get_pids(map, ret);
        ret->wall_ms = record_number(map, "stuck_wall_ms");
        ret->ended = record_bool(map, "ended");
        get_exit(map, &ret->exit);
    }
    arena_fini(&arena);
    return rc;
}

int rundir_write_exit(const struct rundir *dir, const struct worker_exit *exit, struct error *err)
{
    struct record w;
    record_init(&w);
    put_exit(&w, exit);
    return record_store(&w, dir, "exit.json", FILE_MODE | DURABLE, err);
}

int rundir_read_exit(const struct rundir *dir, struct worker_exit *ret, struct error *err)
{
    struct arena arena = {0};
    struct tree *map;
    int rc = read_tree(dir, "exit.json", &arena, &map, err);
    if (!rc)
        get_exit(map, ret);
    arena_fini(&arena);
    return rc;
}

int rundir_write_memory(const struct rundir *dir, const struct worker_memory *memory,
                        struct error *err)
{
    const char *tokens[AGENT_TOKENS_KEPT + 1] = {0};
    for (int i = 0; i < AGENT_TOKENS_KEPT; i++)
        tokens[i] = memory->tokens[i];
    struct record w;
    record_init(&w);
    record_put_bool(&w, "aware", memory->aware);
    record_put_number(&w, "generation", (int64_t)memory->generation);
    record_put_number(&w, "step", (int64_t)memory->step);
    record_put_number(&w, "total_steps", (int64_t)memory->total_steps);
    record_put_number(&w, "signal_wall_ms", memory->signal_wall_ms);
    record_put_texts(&w, "tokens", tokens);
    return record_store(&w, dir, "memory.json", FILE_MODE, err);
}

int rundir_read_memory(const struct rundir *dir, struct worker_memory *ret, struct error *err)
{
    struct arena arena = {0};
    const char *const *tokens;
    struct tree *map;
    int rc = read_tree(dir, "memory.json", &arena, &map, err);
    if (!rc) {
        ret->aware = record_bool(map, "aware");
        ret->generation = (uint64_t)record_number(map, "generation");
        ret->step = (uint64_t)record_number(map, "step");
        ret->total_steps = (uint64_t)record_number(map, "total_steps");
        ret->signal_wall_ms = record_number(map, "signal_wall_ms");
        if (!record_texts(map, "tokens", &arena, &tokens))
            for (int i = 0; i < AGENT_TOKENS_KEPT && tokens[i]; i++)
                (void)str_copy(ret->tokens[i], sizeof(ret->tokens[i]), tokens[i]);
    }
    arena_fini(&arena);
    return rc;
}

int rundir_write_acked(const struct rundir *dir, const struct run_acked *acked, struct error *err)
{
    struct record w;
    record_init(&w);
    record_put_number(&w, "lines", (int64_t)acked->lines);
    record_put_number(&w, "bytes", (int64_t)acked->bytes);
    return record_store(&w, dir, "acked.json", FILE_MODE, err);
}

int rundir_read_acked(const struct rundir *dir, struct run_acked *ret, struct error *err)
{
    struct arena arena = {0};
    struct tree *map;
    int rc = read_tree(dir, "acked.json", &arena, &map, err);
    if (!rc) {
        ret->lines = (uint64_t)record_number(map, "lines");
        ret->bytes = (uint64_t)record_number(map, "bytes");
    }
    arena_fini(&arena);
    return rc;
}
