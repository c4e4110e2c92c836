#include "agent/supervisor/run.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/environment.h"
#include "agent/supervisor/cgroup.h"
#include "agent/supervisor/output.h"
#include "agent/supervisor/tree.h"
#include "common/base/str.h"

enum {
    FREE_STEP_BYTES = 1 << 20,
    FREE_ALIGN_BYTES = 4096,
    REMOVALS_MAX = 100, /* of an orphan's cgroup: a second */
};

/* The cgroup of a shim that was killed before it recorded it: its pid is in the name. Another
 * process with this pid now may be another agent's shim. */
static bool find_unrecorded(const struct run *run, struct cgroup *ret)
{
    struct run_process shim = {0};
    struct run_launch launch;
    struct arena arena = {0};
    char name[RUNDIR_PATH_MAX];
    uint64_t ticks = 0;
    bool found = !rundir_read_shim(&run->dir, &shim, NULL) && shim.pid > 0 &&
                 (proc_start_ticks((pid_t)shim.pid, &ticks, NULL) || ticks == shim.start_ticks) &&
                 !rundir_read_launch(&run->dir, &arena, &launch, NULL) &&
                 !run_cgroup_name(&run->key, shim.pid, name);
    if (found)
        cgroup_open_named(&launch.home, name, ret);
    arena_fini(&arena);
    return found;
}

void run_cgroup(const struct run *run, struct cgroup *ret)
{
    if (run->orphaned && !run->worker.cgroup[0] && find_unrecorded(run, ret))
        return;
    cgroup_open(run->worker.cgroup, run->worker.cgroup_pids, run->worker.cgroup_devices, ret);
}

bool run_settle_orphan(struct run *run, int64_t wall_ms, struct worker_exit *ret,
                       struct worker_stuck *ret_stuck)
{
    struct worker_exit exit = {.signal = SIGKILL, .lost = true, .wall_ms = wall_ms};
    struct worker_stuck left = {.wall_ms = wall_ms};
    struct cgroup cgroup;
    run_cgroup(run, &cgroup);
    if (tree_kill_orphans(run->mark, &cgroup, &left) > 0) {
        *ret_stuck = left;
        return false;
    }
    exit.oom = run->oom = run->oom || cgroup_oom_kills(&cgroup) > 0;
    if (!cgroup_remove(&cgroup) && run->removals++ < REMOVALS_MAX) {
        *ret_stuck = left; /* killed processes leave their cgroups one after another */
        return false;
    }
    (void)str_copy(exit.text, sizeof(exit.text), run->orphaned);
    (void)rundir_write_exit(&run->dir, &exit, NULL);
    *ret = exit;
    return true;
}

const struct run *run_beside(const struct run *runs, const struct run *run)
{
    for (const struct run *other = runs; other; other = other->next)
        if (other != run && !other->ended && other->shim.pidfd >= 0 && other->user == run->user &&
            strcmp(other->key.job, run->key.job) == 0 &&
            proc_alive(other->shim.pid, other->shim.start_ticks))
            return other;
    return NULL;
}

void run_signal(struct run *run, int signal)
{
    if (run->ended || run->shim.pidfd < 0)
        return;
    if (run->started)
        (void)proc_signal(&run->shim, signal, NULL);
    else
        run->pending_signal = signal;
}

void run_mark(struct run *run, const struct launch *launch)
{
    static const char *const names[] = {"MUSTER_WORKER_TOKEN_FILE", "MUSTER_WORKER_TOKEN"};
    run->user = launch->user ? launch->user->uid : geteuid();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !run->mark[0]; i++) {
        const char *value = environment_get(launch->envp, names[i]);
        if (value)
            (void)str_printf(run->mark, sizeof(run->mark), "%s=%s", names[i], value);
    }
}

static int read_launch(struct run *run, struct worker_memory *memory, struct error *err)
{
    struct arena arena = {0};
    struct run_launch launch;
    int rc = rundir_read_launch(&run->dir, &arena, &launch, err);
    if (!rc) {
        run->generation = launch.launch.generation;
        run->rank = launch.launch.rank;
        run->gpus = launch.launch.gpus;
        const char *token = launch.launch.token;
        if (!token[0]) /* an older agent's */
            token = environment_get(launch.launch.envp, "MUSTER_WORKER_TOKEN");
        if (token)
            (void)str_copy(memory->tokens[0], sizeof(memory->tokens[0]), token);
        run_mark(run, &launch.launch);
    }
    arena_fini(&arena);
    return rc;
}

static void found_ended(struct run *run, const struct worker_exit *exit, struct worker_found *ret)
{
    run->ended = true;
    ret->exited = true;
    ret->exit = *exit;
}

/* The claim on the directory decides whether the worker ever starts. */
static bool claim_void(struct run *run)
{
    struct run_process nobody = {.pid = 0};
    return !rundir_claim(&run->dir, &nobody, NULL);
}

/* Processes of its shim may need a while to end: then it is reported running, and settled later. */
static void adopt_orphan(struct run *run, const char *why, struct worker_found *ret)
{
    struct worker_exit exit;
    struct worker_stuck left;
    run->orphaned = why;
    if (run_settle_orphan(run, 0, &exit, &left))
        found_ended(run, &exit, ret);
}

static void adopt_shim(struct run *run, struct worker_found *ret)
{
    struct run_process shim = {0};
    struct worker_exit exit;
    if (rundir_read_shim(&run->dir, &shim, NULL) && claim_void(run)) {
        adopt_orphan(run, "the agent ended before it had started it", ret);
        return;
    }
    (void)rundir_read_shim(&run->dir, &shim, NULL);
    if (run_process_alive(&shim) && !proc_open((pid_t)shim.pid, shim.start_ticks, &run->shim, NULL))
        return;
    run->shim.pidfd = -1;
    if (rundir_read_exit(&run->dir, &exit, NULL)) /* it may have been written meanwhile */
        adopt_orphan(run, "its shim ended without a record", ret);
    else
        found_ended(run, &exit, ret);
}

int run_adopt(struct run *run, struct worker_found *ret, struct error *err)
{
    struct worker_found found = {.key = run->key};
    struct worker_exit exit = {0};
    int rc = read_launch(run, &found.memory, err);
    if (rc)
        return rc;
    (void)rundir_read_memory(&run->dir, &found.memory, NULL);
    (void)rundir_read_acked(&run->dir, &run->acked, NULL);
    run->batch_end = run->acked;
    run->shim.pidfd = -1;
    run->started = !rundir_read_worker(&run->dir, &run->worker, NULL);
    if (run->started && run->worker.start_error[0]) {
        exit.code = run->worker.start_code;
        (void)str_copy(exit.text, sizeof(exit.text), run->worker.start_error);
        found_ended(run, &exit, &found);
    } else if (!rundir_read_exit(&run->dir, &exit, NULL)) {
        found_ended(run, &exit, &found);
    } else {
        adopt_shim(run, &found);
    }
    found.start_generation = run->generation;
    found.rank = run->rank;
    found.pid = run->worker.process.pid;
    *ret = found;
    return 0;
}

uint64_t run_output_bytes(const struct run *run)
{
    char path[RUNDIR_PATH_MAX];
    struct stat status;
    if (rundir_file(&run->dir, "output", path, NULL) || stat(path, &status))
        return 0;
    return (uint64_t)status.st_size;
}

/* Lines, with their texts after them, in one allocation. */
static struct output_line *allocate_lines(size_t text_bytes, char **ret_texts)
{
    size_t lines_bytes = OUTPUT_BATCH_LINES_MAX * sizeof(struct output_line);
    struct output_line *lines = malloc(lines_bytes + text_bytes);
    *ret_texts = (char *)lines + lines_bytes;
    return lines;
}

struct stretch { /* of the output file, from the acknowledged part on */
    const char *bytes;
    size_t size;
    size_t max_bytes; /* of text to take */
};

static void parse(struct run *run, const struct stretch *from, char *texts,
                  struct output_batch *batch)
{
    size_t at = 0, used = 0;
    while (batch->count < OUTPUT_BATCH_LINES_MAX) {
        struct output_line *line = &batch->lines[batch->count];
        size_t record = output_parse(from->bytes + at, from->size - at, texts + used, line);
        size_t length = record ? strlen(line->text) : 0;
        if (!record || (batch->count > 0 && used + length > from->max_bytes))
            break;
        at += record;
        used += length + 1;
        batch->count++;
    }
    run->batch_end.lines = run->acked.lines + (uint64_t)batch->count;
    run->batch_end.bytes = run->acked.bytes + at;
    batch->complete = batch->complete && !memchr(from->bytes + at, '\n', from->size - at);
}

int run_read_output(struct run *run, size_t max_bytes, struct output_batch *ret, struct error *err)
{
    char path[RUNDIR_PATH_MAX], *texts;
    size_t chunk = max_bytes + OUTPUT_RECORD_MAX_BYTES, size = 0;
    struct output_batch batch = {
        .first = run->acked.lines, .generation = run->generation, .rank = run->rank};
    int rc = rundir_file(&run->dir, "output", path, err);
    if (rc)
        return rc;
    char *bytes = malloc(chunk);
    batch.lines = allocate_lines(chunk + OUTPUT_RECORD_MAX_BYTES + OUTPUT_BATCH_LINES_MAX, &texts);
    if (!bytes || !batch.lines) {
        free(bytes);
        free(batch.lines);
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to read output");
    }
    const struct disk *disk = run->dir.disk;
    rc = disk->read_range(disk->self, path, run->acked.bytes, bytes, chunk, &size, err);
    if (rc == E_NOT_FOUND) /* it never wrote any */
        rc = 0;
    batch.complete = run->ended && size < chunk; /* a full chunk may not be all there is */
    if (!rc) {
        struct stretch stretch = {.bytes = bytes, .size = size, .max_bytes = max_bytes};
        parse(run, &stretch, texts, &batch);
        *ret = batch;
    } else {
        free(batch.lines);
    }
    free(bytes);
    return rc;
}

void output_batch_fini(struct output_batch *batch)
{
    free(batch->lines);
    batch->lines = NULL;
    batch->count = 0;
}

/* Free the acknowledged part on disk; offsets do not change. File systems that cannot do this keep
 * the file until it is forgotten. */
static void free_acknowledged(struct run *run)
{
    char path[RUNDIR_PATH_MAX];
    uint64_t until = run->acked.bytes / FREE_ALIGN_BYTES * FREE_ALIGN_BYTES;
    if (until < run->freed_bytes + FREE_STEP_BYTES || rundir_file(&run->dir, "output", path, NULL))
        return;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)run->freed_bytes,
                    (off_t)(until - run->freed_bytes));
    run->freed_bytes = until;
    close(fd);
}

void run_acknowledge(struct run *run, uint64_t next)
{
    if (next != run->batch_end.lines || next == run->acked.lines)
        return;
    run->acked = run->batch_end;
    (void)rundir_write_acked(&run->dir, &run->acked, NULL);
    free_acknowledged(run);
}
