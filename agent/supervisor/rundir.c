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

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree.h"
#include "common/env/proc.h"

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
    if (!dot || dot == name || (size_t)(dot - name) > AGENT_JOB_ID_MAX ||
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

/* As disk.write_file without its syncs: for what matters only while these processes live. */
static int replace_file(const char *path, const struct buf *text, int mode, struct error *err)
{
    char temporary[RUNDIR_PATH_MAX + 16];
    (void)str_printf(temporary, sizeof(temporary), "%s.new", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0)
        return error_errno(err, errno, "%s", path);
    ssize_t written = write(fd, buf_cstr(text), text->size);
    int problem = written == (ssize_t)text->size ? 0 : (written < 0 ? errno : ENOSPC);
    close(fd);
    if (!problem && rename(temporary, path))
        problem = errno;
    if (!problem)
        return 0;
    unlink(temporary);
    return error_errno(err, problem, "cannot write %s", path);
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
        rc = replace_file(path, &text, mode, err);
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

/* Reads that give a default where a key is absent: files of an older or newer agent are fine. */
static int64_t get_number(const struct tree *map, const char *key)
{
    int64_t value = 0;
    const struct tree *node = tree_get(map, key);
    if (node)
        (void)tree_read_i64(node, &value, NULL);
    return value;
}

static const char *get_text(const struct tree *map, const char *key)
{
    const char *value = "";
    const struct tree *node = tree_get(map, key);
    if (node)
        (void)tree_read_string(node, &value, NULL);
    return value;
}

static bool get_bool(const struct tree *map, const char *key)
{
    bool value = false;
    const struct tree *node = tree_get(map, key);
    if (node)
        (void)tree_read_bool(node, &value, NULL);
    return value;
}

struct writer { /* a map under construction; the first failure counts */
    struct arena arena;
    struct tree *map;
    int rc;
};

static void writer_init(struct writer *w)
{
    *w = (struct writer){0};
    w->map = tree_map(&w->arena);
}

static void put(struct writer *w, const char *key, struct tree *value)
{
    int rc = w->map ? tree_map_set(&w->arena, w->map, key, value) : E_RESOURCE_EXHAUSTED;
    if (!w->rc)
        w->rc = rc;
}

static void put_number(struct writer *w, const char *key, int64_t value)
{
    put(w, key, tree_integer(&w->arena, value));
}

static void put_text(struct writer *w, const char *key, const char *value)
{
    put(w, key, tree_string(&w->arena, value));
}

static void put_bool(struct writer *w, const char *key, bool value)
{
    put(w, key, tree_bool(&w->arena, value));
}

static void put_texts(struct writer *w, const char *key, const char *const *values)
{
    struct tree *list = tree_list(&w->arena);
    for (; *values && list && !w->rc; values++)
        w->rc = tree_list_add(list, tree_string(&w->arena, *values));
    put(w, key, list);
}

static int writer_store(struct writer *w, const struct rundir *dir, const char *name, int mode,
                        struct error *err)
{
    int rc = w->rc ? error_set(err, w->rc, "no memory for %s", name)
                   : write_tree(dir, name, w->map, mode, err);
    arena_fini(&w->arena);
    return rc;
}

static void put_home(struct writer *w, const struct cgroup_home *home)
{
    put_number(w, "cgroup_kind", home->kind);
    put_text(w, "cgroup_home", home->path);
    put_text(w, "cgroup_pids", home->pids);
    put_text(w, "cgroup_why", home->why);
}

/* In a folder that only the agent writes to. */
static int write_token(const struct run_launch *how, struct error *err)
{
    const struct launch *launch = &how->launch;
    const struct launch_user *user = launch->user;
    size_t size = strlen(launch->token);
    (void)unlink(how->token);
    int fd = open(how->token, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (fd < 0)
        return error_errno(err, errno, "%s", how->token);
    bool fine = write(fd, launch->token, size) == (ssize_t)size && fchmod(fd, 0400) == 0 &&
                (!user || fchown(fd, user->uid, user->gid) == 0);
    int problem = errno;
    close(fd);
    return fine ? 0 : error_errno(err, problem, "%s", how->token);
}

static void put_user(struct writer *w, const struct launch_user *user)
{
    struct tree *list = tree_list(&w->arena);
    put_bool(w, "change_user", user != NULL);
    if (!user)
        return;
    for (int i = 0; i < user->groups_count && list && !w->rc; i++)
        w->rc = tree_list_add(list, tree_integer(&w->arena, user->groups[i]));
    put_number(w, "user", user->uid);
    put_number(w, "group", user->gid);
    put(w, "groups", list);
}

int rundir_create(const struct rundir *dir, const struct run_launch *how, struct error *err)
{
    if (mkdir(dir->path, DIRECTORY_MODE))
        return error_errno(err, errno, "run directory %s", dir->path);
    /* Of a run that was not forgotten wholly, with whatever its worker left there. */
    int rc = dir->disk->remove_tree(dir->disk->self, how->work, err);
    if (rc)
        return rc;
    const struct launch *launch = &how->launch;
    const struct launch_user *user = launch->user;
    if (mkdir(how->work, DIRECTORY_MODE) || (user && lchown(how->work, user->uid, user->gid)))
        return error_errno(err, errno, "folder %s", how->work);
    rc = how->token && how->token[0] ? write_token(how, err) : 0;
    if (rc)
        return rc;
    struct writer w;
    writer_init(&w);
    put_text(&w, "job", launch->key.job);
    put_number(&w, "uid", (int64_t)launch->key.uid);
    put_number(&w, "generation", (int64_t)launch->generation);
    put_number(&w, "rank", launch->rank);
    put_texts(&w, "argv", launch->argv);
    put_texts(&w, "envp", launch->envp);
    put_text(&w, "workdir", launch->workdir);
    put_text(&w, "work", how->work);
    put_text(&w, "token", launch->token ? launch->token : "");
    put_number(&w, "memory_bytes", (int64_t)launch->memory_bytes);
    put_number(&w, "processes", launch->processes);
    put_text(&w, "cores", launch->cores ? launch->cores : "");
    put_text(&w, "master_addr", launch->master_addr ? launch->master_addr : "");
    put_number(&w, "master_port", launch->master_port);
    put_user(&w, launch->user);
    put_home(&w, &how->home);
    return writer_store(&w, dir, "launch.json", FILE_MODE | DURABLE, err);
}

static int get_texts(const struct tree *map, const char *key, struct arena *arena,
                     const char *const **ret)
{
    const struct tree *list = tree_get(map, key), *child;
    size_t count = 0, at = 0;
    if (!list || list->kind != TREE_LIST)
        return E_DATA_LOSS;
    tree_each(child, list)
        count++;
    const char **texts = arena_array(arena, count + 1, sizeof(*texts));
    if (!texts)
        return E_RESOURCE_EXHAUSTED;
    tree_each(child, list)
        if (tree_read_string(child, &texts[at++], NULL))
            return E_DATA_LOSS;
    *ret = texts;
    return 0;
}

static void get_home(const struct tree *map, struct cgroup_home *ret)
{
    int64_t kind = get_number(map, "cgroup_kind");
    ret->kind = kind == CGROUP_V1 || kind == CGROUP_V2 ? (enum cgroup_kind)kind : CGROUP_NONE;
    (void)str_copy(ret->path, sizeof(ret->path), get_text(map, "cgroup_home"));
    (void)str_copy(ret->pids, sizeof(ret->pids), get_text(map, "cgroup_pids"));
    (void)str_copy(ret->why, sizeof(ret->why), get_text(map, "cgroup_why"));
}

static int get_user(const struct tree *map, struct arena *arena, const struct launch_user **ret)
{
    const struct tree *list = tree_get(map, "groups"), *child;
    struct launch_user *user = arena_alloc(arena, sizeof(*user));
    int64_t group;
    *ret = NULL;
    if (!user)
        return E_RESOURCE_EXHAUSTED;
    if (!get_bool(map, "change_user"))
        return 0;
    *user = (struct launch_user){.uid = (uid_t)get_number(map, "user"),
                                 .gid = (gid_t)get_number(map, "group")};
    if (list && list->kind == TREE_LIST)
        tree_each(child, list)
            if (user->groups_count < AGENT_GROUPS_MAX && tree_read_i64(child, &group, NULL) == 0)
                user->groups[user->groups_count++] = (gid_t)group;
    *ret = user;
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
    if (get_texts(map, "argv", arena, &launch->argv) ||
        get_texts(map, "envp", arena, &launch->envp) || !launch->argv[0])
        return error_set(err, E_DATA_LOSS, "%s/launch.json is not what an agent wrote", dir->path);
    (void)str_copy(launch->key.job, sizeof(launch->key.job), get_text(map, "job"));
    launch->key.uid = (uint64_t)get_number(map, "uid");
    launch->generation = (uint64_t)get_number(map, "generation");
    launch->rank = (uint32_t)get_number(map, "rank");
    launch->workdir = get_text(map, "workdir");
    run.work = get_text(map, "work");
    launch->token = get_text(map, "token");
    launch->memory_bytes = (uint64_t)get_number(map, "memory_bytes");
    launch->processes = (uint32_t)get_number(map, "processes");
    launch->cores = get_text(map, "cores");
    launch->master_addr = get_text(map, "master_addr");
    launch->master_port = (uint16_t)get_number(map, "master_port");
    if (get_user(map, arena, &launch->user))
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for %s/launch.json", dir->path);
    get_home(map, &run.home);
    *ret = run;
    return 0;
}

static void put_process(struct writer *w, const struct run_process *process)
{
    put_number(w, "pid", process->pid);
    put_number(w, "start_ticks", (int64_t)process->start_ticks);
    put_text(w, "boot", process->boot);
}

static void get_process(const struct tree *map, struct run_process *ret)
{
    ret->pid = get_number(map, "pid");
    ret->start_ticks = (uint64_t)get_number(map, "start_ticks");
    (void)str_copy(ret->boot, sizeof(ret->boot), get_text(map, "boot"));
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
    struct writer w;
    writer_init(&w);
    put_process(&w, shim);
    rc = writer_store(&w, dir, name, FILE_MODE, err);
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
    struct writer w;
    writer_init(&w);
    put_process(&w, &worker->process);
    put_text(&w, "cgroup", worker->cgroup);
    put_text(&w, "cgroup_pids", worker->cgroup_pids);
    put_text(&w, "start_error", worker->start_error);
    put_number(&w, "start_code", worker->start_code);
    return writer_store(&w, dir, "worker.json", FILE_MODE, err);
}

int rundir_read_worker(const struct rundir *dir, struct run_worker *ret, struct error *err)
{
    struct arena arena = {0};
    struct tree *map;
    int rc = read_tree(dir, "worker.json", &arena, &map, err);
    if (!rc) {
        get_process(map, &ret->process);
        (void)str_copy(ret->cgroup, sizeof(ret->cgroup), get_text(map, "cgroup"));
        (void)str_copy(ret->cgroup_pids, sizeof(ret->cgroup_pids), get_text(map, "cgroup_pids"));
        (void)str_copy(ret->start_error, sizeof(ret->start_error), get_text(map, "start_error"));
        ret->start_code = (int)get_number(map, "start_code");
    }
    arena_fini(&arena);
    return rc;
}

static void put_exit(struct writer *w, const struct worker_exit *exit)
{
    put_number(w, "code", exit->code);
    put_number(w, "signal", exit->signal);
    put_bool(w, "oom", exit->oom);
    put_bool(w, "lost", exit->lost);
    put_number(w, "wall_ms", exit->wall_ms);
    put_text(w, "text", exit->text);
    put_text(w, "last_output", exit->last_output);
}

static void get_exit(const struct tree *map, struct worker_exit *ret)
{
    ret->code = (int)get_number(map, "code");
    ret->signal = (int)get_number(map, "signal");
    ret->oom = get_bool(map, "oom");
    ret->lost = get_bool(map, "lost");
    ret->wall_ms = get_number(map, "wall_ms");
    (void)str_copy(ret->text, sizeof(ret->text), get_text(map, "text"));
    (void)str_copy(ret->last_output, sizeof(ret->last_output), get_text(map, "last_output"));
}

int rundir_write_stuck(const struct rundir *dir, const struct worker_stuck *stuck,
                       struct error *err)
{
    struct writer w;
    writer_init(&w);
    struct tree *pids = tree_list(&w.arena);
    for (int i = 0; i < stuck->count && pids && !w.rc; i++)
        w.rc = tree_list_add(pids, tree_integer(&w.arena, stuck->pids[i]));
    put(&w, "pids", pids);
    put_number(&w, "stuck_wall_ms", stuck->wall_ms);
    put_bool(&w, "ended", stuck->ended);
    put_exit(&w, &stuck->exit);
    return writer_store(&w, dir, "stuck.json", FILE_MODE, err);
}

static void get_pids(const struct tree *map, struct worker_stuck *ret)
{
    const struct tree *list = tree_get(map, "pids"), *pid;
    ret->count = 0;
    if (!list || list->kind != TREE_LIST)
        return;
    tree_each(pid, list)
        if (ret->count < AGENT_STUCK_PIDS_MAX &&
            tree_read_i64(pid, &ret->pids[ret->count], NULL) == 0)
            ret->count++;
}

int rundir_read_stuck(const struct rundir *dir, struct worker_stuck *ret, struct error *err)
{
    struct arena arena = {0};
    struct tree *map;
    int rc = read_tree(dir, "stuck.json", &arena, &map, err);
    if (!rc) {
        get_pids(map, ret);
        ret->wall_ms = get_number(map, "stuck_wall_ms");
        ret->ended = get_bool(map, "ended");
        get_exit(map, &ret->exit);
    }
    arena_fini(&arena);
    return rc;
}

int rundir_write_exit(const struct rundir *dir, const struct worker_exit *exit, struct error *err)
{
    struct writer w;
    writer_init(&w);
    put_exit(&w, exit);
    return writer_store(&w, dir, "exit.json", FILE_MODE | DURABLE, err);
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
    struct writer w;
    writer_init(&w);
    put_bool(&w, "aware", memory->aware);
    put_number(&w, "generation", (int64_t)memory->generation);
    put_number(&w, "step", (int64_t)memory->step);
    put_number(&w, "total_steps", (int64_t)memory->total_steps);
    put_texts(&w, "tokens", tokens);
    return writer_store(&w, dir, "memory.json", FILE_MODE, err);
}

int rundir_read_memory(const struct rundir *dir, struct worker_memory *ret, struct error *err)
{
    struct arena arena = {0};
    const char *const *tokens;
    struct tree *map;
    int rc = read_tree(dir, "memory.json", &arena, &map, err);
    if (!rc) {
        ret->aware = get_bool(map, "aware");
        ret->generation = (uint64_t)get_number(map, "generation");
        ret->step = (uint64_t)get_number(map, "step");
        ret->total_steps = (uint64_t)get_number(map, "total_steps");
        if (get_texts(map, "tokens", &arena, &tokens) == 0)
            for (int i = 0; i < AGENT_TOKENS_KEPT && tokens[i]; i++)
                (void)str_copy(ret->tokens[i], sizeof(ret->tokens[i]), tokens[i]);
    }
    arena_fini(&arena);
    return rc;
}

int rundir_write_acked(const struct rundir *dir, const struct run_acked *acked, struct error *err)
{
    struct writer w;
    writer_init(&w);
    put_number(&w, "lines", (int64_t)acked->lines);
    put_number(&w, "bytes", (int64_t)acked->bytes);
    return writer_store(&w, dir, "acked.json", FILE_MODE, err);
}

int rundir_read_acked(const struct rundir *dir, struct run_acked *ret, struct error *err)
{
    struct arena arena = {0};
    struct tree *map;
    int rc = read_tree(dir, "acked.json", &arena, &map, err);
    if (!rc) {
        ret->lines = (uint64_t)get_number(map, "lines");
        ret->bytes = (uint64_t)get_number(map, "bytes");
    }
    arena_fini(&arena);
    return rc;
}

static void read_boot_id(char ret[BOOT_ID_BYTES])
{
    ret[0] = '\0';
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t size = read(fd, ret, BOOT_ID_BYTES - 1);
    close(fd);
    ret[size > 0 ? size : 0] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
}

int run_process_of(pid_t pid, struct run_process *ret, struct error *err)
{
    struct run_process process = {.pid = pid};
    int rc = proc_start_ticks(pid, &process.start_ticks, err);
    if (rc)
        return rc;
    read_boot_id(process.boot);
    *ret = process;
    return 0;
}

bool run_process_alive(const struct run_process *process)
{
    char boot[BOOT_ID_BYTES];
    read_boot_id(boot);
    return process->pid > 0 && strcmp(boot, process->boot) == 0 &&
           proc_alive((pid_t)process->pid, process->start_ticks);
}
