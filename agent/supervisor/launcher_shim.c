#include "agent/supervisor/launcher_shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/core/environment.h"
#include "agent/supervisor/run.h"
#include "agent/supervisor/run_gpus.h"
#include "agent/supervisor/run_spawn.h"
#include "agent/supervisor/terminals.h"
#include "agent/supervisor/workplace.h"
#include "common/base/str.h"
#include "common/env/proc_spawn.h"

enum {
    LOOK_MS = 100,               /* without inotify */
    KILLS_BEFORE_FORCE = 4,      /* a shim that ignores requests is killed itself */
    ORPHANS_LOOK_MS = 10,        /* processes of a killed shim end within milliseconds, */
    ORPHANS_STUCK_MS = 3000,     /* or is stuck, and */
    ORPHANS_STUCK_LOOK_MS = 500, /* looked at this often */
    NOTIFY_BYTES = 16384,
};

struct launcher_shim {
    struct env *env;
    struct loop *loop;
    char dir[RUNDIR_PATH_MAX];
    struct workplace place;
    char *shim_argv[RUN_SHIM_ARGS_MAX + 1]; /* NULL-terminated */
    struct cgroup_home home;
    struct namespaces namespaces;
    struct run_ground ground; /* of these */
    struct terminals terminals;
    struct launcher_events events;
    struct run *runs;
    int notify_fd; /* inotify, -1 = none */
    struct loop_timer look_timer;
    struct loop_timer orphans_timer;
};

static void shim_gone(void *arg, int fd, uint32_t epoll_events);

static struct run *run_find(struct launcher_shim *shims, const struct worker_key *key)
{
    for (struct run *run = shims->runs; run; run = run->next)
        if (run->key.uid == key->uid && strcmp(run->key.job, key->job) == 0)
            return run;
    return NULL;
}

static struct run *run_new(struct launcher_shim *shims, const struct worker_key *key,
                           struct error *err)
{
    char name[RUNDIR_PATH_MAX], path[RUNDIR_PATH_MAX];
    struct run *run = calloc(1, sizeof(*run));
    if (!run) {
        error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a worker");
        return NULL;
    }
    run->owner = shims;
    run->key = *key;
    run->shim.pidfd = run->watch = -1;
    if (rundir_name(key, name, err) || str_printf(path, sizeof(path), "%s/%s", shims->dir, name) ||
        rundir_init(&run->dir, &shims->env->disk, path, err)) {
        free(run);
        return NULL;
    }
    return run;
}

static void run_unwatch(struct run *run)
{
    struct launcher_shim *shims = run->owner;
    if (run->shim.pidfd >= 0) {
        loop_unwatch(shims->loop, run->shim.pidfd);
        proc_close(&run->shim);
        run->shim.pidfd = -1;
    }
    if (run->watch >= 0)
        inotify_rm_watch(shims->notify_fd, run->watch);
    run->watch = -1;
}

/* Notices */

static void end_run(struct run *run, const struct worker_exit *exit)
{
    struct launcher_events *events = &run->owner->events;
    if (run->ended)
        return;
    run->ended = true;
    run_unwatch(run);
    terminals_end(&run->owner->terminals, &run->key);
    run_gpus_keep(run->owner->runs, run->key.job, &run->owner->namespaces);
    if (run->worker.start_error[0])
        events->start_failed(events->arg, &run->key, run->worker.start_code,
                             run->worker.start_error);
    else
        events->exited(events->arg, &run->key, exit);
}

static void tell_stuck(struct run *run, const struct worker_stuck *stuck)
{
    struct launcher_events *events = &run->owner->events;
    run->stuck = *stuck;
    events->stuck(events->arg, &run->key, stuck);
}

/* `files`: a new file may be in its directory, which a write to its output does not indicate. */
static void check_run(struct run *run, bool files)
{
    struct worker_stuck stuck = {0};
    struct launcher_events *events = &run->owner->events;
    if (!run->started && !rundir_read_worker(&run->dir, &run->worker, NULL)) {
        run->started = true;
        run_gpus_keep(run->owner->runs, run->key.job, &run->owner->namespaces);
        if (!run->worker.start_error[0])
            events->started(events->arg, &run->key, run->worker.process.pid);
        if (run->pending_signal && run->shim.pidfd >= 0)
            (void)proc_signal(&run->shim, run->pending_signal, NULL);
        run->pending_signal = 0;
    }
    uint64_t bytes = run_output_bytes(run);
    if (bytes > run->seen_bytes) {
        run->seen_bytes = bytes;
        events->output(events->arg, &run->key);
    }
    if (files && !rundir_read_stuck(&run->dir, &stuck, NULL) && stuck.count > 0 &&
        stuck.wall_ms != run->stuck.wall_ms)
        tell_stuck(run, &stuck);
}

static int64_t now_wall_ms(const struct launcher_shim *shims)
{
    return shims->env->clock.wall_ms(shims->env->clock.self);
}

/* True when it is settled. */
static bool settle_orphan(struct run *run)
{
    struct launcher_shim *shims = run->owner;
    struct worker_exit exit;
    struct worker_stuck left = {0};
    if (run_settle_orphan(run, now_wall_ms(shims), &exit, &left)) {
        end_run(run, &exit);
        return true;
    }
    if (!run->stuck.count && loop_now_ms(shims->loop) - run->orphaned_ms >= ORPHANS_STUCK_MS)
        tell_stuck(run, &left);
    return false;
}

static void settle_orphans(void *arg)
{
    struct launcher_shim *shims = arg;
    int64_t wait_ms = 0;
    for (struct run *run = shims->runs, *next; run; run = next) {
        next = run->next;
        if (run->ended || !run->orphaned || settle_orphan(run))
            continue;
        int64_t this_ms = run->stuck.count ? ORPHANS_STUCK_LOOK_MS : ORPHANS_LOOK_MS;
        wait_ms = wait_ms && wait_ms < this_ms ? wait_ms : this_ms;
    }
    if (wait_ms)
        loop_timer_set(shims->loop, &shims->orphans_timer, loop_now_ms(shims->loop) + wait_ms,
                       settle_orphans, shims);
}

/* Its shim ended without a record. Settle it later, not inside the present callback. */
static void orphan(struct run *run, const char *why)
{
    struct launcher_shim *shims = run->owner;
    run_unwatch(run);
    run->orphaned = why;
    run->orphaned_ms = loop_now_ms(shims->loop);
    loop_timer_set(shims->loop, &shims->orphans_timer, run->orphaned_ms, settle_orphans, shims);
}

static void shim_gone(void *arg, int fd, uint32_t epoll_events)
{
    struct run *run = arg;
    struct proc_exit how;
    struct worker_exit exit = {0};
    (void)fd;
    (void)epoll_events;
    (void)proc_wait(&run->shim, false, &how, NULL); /* not our child if an earlier agent's */
    check_run(run, true);
    if (run->worker.start_error[0] || !rundir_read_exit(&run->dir, &exit, NULL))
        end_run(run, &exit);
    else
        orphan(run, run->started ? "its shim was killed, and the worker with it"
                                 : "its shim ended before it had started it");
}

static void notified(void *arg, int fd, uint32_t epoll_events)
{
    struct launcher_shim *shims = arg;
    char events[NOTIFY_BYTES] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t size;
    (void)epoll_events;
    while ((size = read(fd, events, sizeof(events))) > 0)
        for (char *at = events; at < events + size;) {
            const struct inotify_event *event = (const struct inotify_event *)at;
            for (struct run *run = shims->runs; run; run = run->next)
                if (run->watch == event->wd || (event->mask & IN_Q_OVERFLOW)) {
                    run->dirty = true;
                    run->moved = run->moved || (event->mask & (IN_MOVED_TO | IN_Q_OVERFLOW));
                }
            at += sizeof(*event) + event->len;
        }
    for (struct run *run = shims->runs; run; run = run->next)
        if (run->dirty && !run->ended) {
            bool files = run->moved;
            run->dirty = run->moved = false;
            check_run(run, files);
        }
}

/* What happened before it was watched, or cannot be watched. */
static void check_all_runs(void *arg)
{
    struct launcher_shim *shims = arg;
    bool again = false;
    for (struct run *run = shims->runs; run; run = run->next) {
        if (run->ended || run->orphaned)
            continue;
        again = again || run->watch < 0;
        if (run->dirty || run->watch < 0)
            check_run(run, true);
        run->dirty = run->moved = false;
    }
    if (again)
        loop_timer_set(shims->loop, &shims->look_timer, loop_now_ms(shims->loop) + LOOK_MS,
                       check_all_runs, shims);
}

static int run_watch(struct run *run, struct error *err)
{
    struct launcher_shim *shims = run->owner;
    if (shims->notify_fd >= 0)
        run->watch = inotify_add_watch(shims->notify_fd, run->dir.path, IN_MOVED_TO | IN_MODIFY);
    run->dirty = run->moved = true;
    loop_timer_set(shims->loop, &shims->look_timer, loop_now_ms(shims->loop), check_all_runs,
                   shims);
    return loop_watch(shims->loop, run->shim.pidfd, EPOLLIN, shim_gone, run, err);
}

/* struct launcher */

static void keep_run(struct launcher_shim *shims, struct run *run)
{
    run->next = shims->runs;
    shims->runs = run;
}

/* An unreadable directory belongs to no worker that could run: it is reported as lost, so that it
 * will be forgotten. */
static void adopt_one(struct launcher_shim *shims, const char *name)
{
    struct worker_key key;
    struct worker_found found = {0};
    struct error err = {0};
    if (rundir_parse_name(name, &key))
        return;
    struct run *run = run_new(shims, &key, &err);
    if (!run)
        return;
    if (run_adopt(run, &found, &err)) {
        run->ended = found.exited = found.exit.lost = true;
        found.key = key;
        (void)str_copy(found.exit.text, sizeof(found.exit.text), err.text);
    }
    keep_run(shims, run);
    if (!run->ended && run->orphaned)
        orphan(run, run->orphaned);
    else if (!run->ended)
        (void)run_watch(run, NULL);
    shims->events.found(shims->events.arg, &found);
}

static void start_notices(struct launcher_shim *shims)
{
    shims->notify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (shims->notify_fd >= 0 &&
        loop_watch(shims->loop, shims->notify_fd, EPOLLIN, notified, shims, NULL)) {
        close(shims->notify_fd);
        shims->notify_fd = -1;
    }
}

static bool job_runs(const struct launcher_shim *shims, const char *job)
{
    for (const struct run *run = shims->runs; run; run = run->next)
        if (strcmp(run->key.job, job) == 0)
            return true;
    return false;
}

static bool is_known(void *arg, const struct worker_key *key, bool whole_job)
{
    struct launcher_shim *shims = arg;
    return whole_job ? job_runs(shims, key->job) : run_find(shims, key) != NULL;
}

static int shims_open(void *self, const struct launcher_events *events, struct error *err)
{
    struct launcher_shim *shims = self;
    struct disk *disk = &shims->env->disk;
    char **names;
    int rc = disk->make_dirs(disk->self, shims->dir, 0700, err);
    if (!rc)
        rc = workplace_make(&shims->place, err);
    if (!rc)
        rc = disk->list(disk->self, shims->dir, &names, err);
    if (rc)
        return rc;
    shims->events = *events;
    start_notices(shims);
    for (char **name = names; *name; name++)
        adopt_one(shims, *name);
    free(names);
    for (const struct run *run = shims->runs; run; run = run->next)
        run_gpus_keep(shims->runs, run->key.job,
                      &shims->namespaces); /* some may have ended without an agent */
    workplace_sweep(&shims->place, is_known, shims);
    return 0;
}

static void shims_close(void *self)
{
    struct launcher_shim *shims = self;
    terminals_fini(&shims->terminals);
    loop_timer_cancel(shims->loop, &shims->look_timer);
    loop_timer_cancel(shims->loop, &shims->orphans_timer);
    while (shims->runs) {
        struct run *run = shims->runs;
        shims->runs = run->next;
        run_unwatch(run);
        free(run);
    }
    if (shims->notify_fd >= 0) {
        loop_unwatch(shims->loop, shims->notify_fd);
        close(shims->notify_fd);
    }
    shims->notify_fd = -1;
}

/* A run with its directory, or the error: then nothing was started. */
static int start_run(struct run *run, const struct launch *launch, struct error *err)
{
    struct launcher_shim *shims = run->owner;
    struct arena arena = {0};
    char work[RUNDIR_PATH_MAX];
    struct run_launch record = {.launch = *launch, .work = work, .home = shims->home};
    run->gpus = launch->gpus;
    run_gpus_of(shims->runs, run, run->key.job, &record.job_gpus);
    run->in_cgroup = run->in_mounts = record.job_gpus;
    int rc = workplace_work(&shims->place, &run->key, work, err);
    if (!rc)
        rc = workplace_private(&record, &arena, err);
    if (!rc) {
        run_mark(run, &record.launch);
        rc = rundir_create(&run->dir, &record, err);
    }
    if (!rc && /* before its shim joins the mounts of the others */
        run_gpus_apply(shims->runs, run->key.job, &record.job_gpus, &shims->namespaces, err))
        rc = error_recode(err, E_UNAVAILABLE);
    arena_fini(&arena);
    return rc;
}

static int shims_start(void *self, const struct launch *launch, struct error *err)
{
    struct launcher_shim *shims = self;
    if (run_find(shims, &launch->key))
        return error_set(err, E_ALREADY_EXISTS, "worker was started before");
    struct run *run = run_new(shims, &launch->key, err);
    if (!run)
        return err ? err->code : E_INVALID_ARGUMENT;
    run->generation = launch->generation;
    run->rank = launch->rank;
    int rc = start_run(run, launch, err);
    if (rc == E_ALREADY_EXISTS) {
        free(run);
        return rc;
    }
    if (!rc)
        rc = run_spawn_shim(run, &shims->ground, shims->runs, err);
    if (!rc)
        rc = run_watch(run, err);
    run->ended = rc != 0; /* kept, so that it can be forgotten */
    keep_run(shims, run);
    if (rc)
        run_gpus_keep(shims->runs, launch->key.job, &shims->namespaces);
    return rc;
}

static void shims_terminate(void *self, const struct worker_key *key)
{
    struct run *run = run_find(self, key);
    if (run)
        run_signal(run, SIGTERM);
}

/* SIGURG does nothing to a shim of an earlier version, which does not know of it. */
static void shims_signal_early(void *self, const struct worker_key *key)
{
    struct run *run = run_find(self, key);
    if (run && run->started)
        run_signal(run, SIGURG);
}

static void shims_kill(void *self, const struct worker_key *key)
{
    struct run *run = run_find(self, key);
    if (!run || run->ended)
        return;
    if (run->stuck.count || run->kills++ < KILLS_BEFORE_FORCE)
        run_signal(run, SIGUSR1);
    else if (run->shim.pidfd >= 0)
        (void)proc_signal(&run->shim, SIGKILL, NULL);
}

static void shims_remember(void *self, const struct worker_key *key,
                           const struct worker_memory *memory)
{
    struct run *run = run_find(self, key);
    if (run)
        (void)rundir_write_memory(&run->dir, memory, NULL);
}

static int shims_read_output(void *self, const struct worker_key *key, size_t max_bytes,
                             struct output_batch *ret, struct error *err)
{
    struct run *run = run_find(self, key);
    if (!run)
        return error_set(err, E_NOT_FOUND, "no such worker");
    return run_read_output(run, max_bytes, ret, err);
}

static void shims_acknowledge(void *self, const struct worker_key *key, uint64_t next)
{
    struct run *run = run_find(self, key);
    if (run)
        run_acknowledge(run, next);
}

/* The run directory last: as long as there is one, an agent knows of it. */
static void remove_run(struct run *run)
{
    struct launcher_shim *shims = run->owner;
    workplace_remove_worker(&shims->place, &run->key);
    if (!job_runs(shims, run->key.job))
        workplace_remove_job(&shims->place, run->key.job);
    workplace_remove(&shims->place, run->dir.path);
}

static void shims_forget(void *self, const struct worker_key *key)
{
    struct launcher_shim *shims = self;
    struct run *run = run_find(shims, key);
    if (!run || !run->ended)
        return;
    struct run **at = &shims->runs;
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    run_unwatch(run);
    remove_run(run);
    free(run);
}

static int64_t shims_owner(void *self, const struct worker_key *key)
{
    const struct run *run = run_find(self, key);
    return run ? run->user : -1;
}

struct door { /* to a running worker */
    const struct run *run;
    const struct run_ground *ground;
};

static int spawn_keeper(void *arg, const struct proc_fd *fds, size_t count, struct proc *ret,
                        struct error *err)
{
    const struct door *door = arg;
    struct run_keeper keeper = {.fds = fds, .fd_count = count};
    return run_spawn_keeper(door->run, door->ground, &keeper, ret, err);
}

/* The place beside a worker, if there is one. */
static int open_door(struct launcher_shim *shims, const struct worker_key *key, struct door *door,
                     struct terminal_place *ret, struct error *err)
{
    const struct run *run = run_find(shims, key);
    if (!run)
        return error_set(err, E_NOT_FOUND, "no such worker on this node");
    if (!run->started || run->ended || run->orphaned || run->shim.pidfd < 0)
        return error_set(err, E_FAILED_PRECONDITION, "the worker %s",
                         run->started ? "has ended" : "has not started yet");
    *door = (struct door){.run = run, .ground = &shims->ground};
    *ret = (struct terminal_place){
        .key = &run->key, .user = run->user, .spawn = spawn_keeper, .arg = door};
    return 0;
}

static int shims_open_terminal(void *self, const struct worker_key *key,
                               const struct terminal_wish *wish,
                               const struct terminal_events *events, struct terminal **ret,
                               struct error *err)
{
    struct launcher_shim *shims = self;
    struct door door;
    struct terminal_place place;
    int rc = open_door(shims, key, &door, &place, err);
    if (rc)
        return rc;
    return terminals_open(&shims->terminals, &place, wish, events, ret, err);
}

static int shims_open_connection(void *self, const struct worker_key *key, uint16_t port,
                                 const struct terminal_events *events, struct terminal **ret,
                                 struct error *err)
{
    struct launcher_shim *shims = self;
    struct door door;
    struct terminal_place place;
    int rc = open_door(shims, key, &door, &place, err);
    if (rc)
        return rc;
    return terminals_connect(&shims->terminals, &place, port, events, ret, err);
}

int launcher_shim_new(const struct launcher_shim_options *options, struct env *env,
                      struct loop *loop, struct launcher_shim **ret, struct error *err)
{
    struct launcher_shim *shims = calloc(1, sizeof(*shims));
    if (!shims)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a launcher");
    shims->env = env;
    shims->loop = shims->place.loop = loop;
    shims->place.disk = &env->disk;
    shims->notify_fd = -1;
    shims->home = options->home;
    shims->namespaces = options->namespaces;
    shims->ground = (struct run_ground){.shim_argv = (const char *const *)shims->shim_argv,
                                        .home = &shims->home,
                                        .namespaces = &shims->namespaces,
                                        .place = &shims->place};
    terminals_init(&shims->terminals, loop);
    bool fits = !str_copy(shims->dir, sizeof(shims->dir), options->dir) &&
                !workplace_init(&shims->place, options->work_dir, options->tmp_dir);
    for (int i = 0; fits && options->shim_argv[i]; i++)
        fits = i < RUN_SHIM_ARGS_MAX && (shims->shim_argv[i] = strdup(options->shim_argv[i]));
    if (!fits) {
        launcher_shim_free(shims);
        return error_set(err, E_OUT_OF_RANGE, "path of the run directories is too long");
    }
    *ret = shims;
    return 0;
}

void launcher_shim_free(struct launcher_shim *shims)
{
    if (!shims)
        return;
    shims_close(shims);
    for (int i = 0; i < RUN_SHIM_ARGS_MAX; i++)
        free(shims->shim_argv[i]);
    free(shims);
}

struct launcher launcher_shim_face(struct launcher_shim *shims)
{
    return (struct launcher){
        .self = shims,
        .open = shims_open,
        .close = shims_close,
        .start = shims_start,
        .terminate = shims_terminate,
        .signal_early = shims_signal_early,
        .kill = shims_kill,
        .remember = shims_remember,
        .read_output = shims_read_output,
        .acknowledge = shims_acknowledge,
        .forget = shims_forget,
        .owner = shims_owner,
        .open_terminal = shims_open_terminal,
        .open_connection = shims_open_connection,
    };
}
