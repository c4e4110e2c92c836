/* sim --seeds N [--seed S] [--trace] [--jobs P] [--twice] [--first] [--also FILE]
 *
 * Runs N worlds from seed S (1), each in a process of its own, P (2) at a time. A failing seed
 * prints one line that says what failed and the command that shows it again; exit code 1. --trace
 * (with one seed) prints what happens. --twice runs each seed twice and compares: the same seed is
 * the same world. --first ends with the first failure. --also runs the seeds at the line starts of
 * a file (regressions.txt) first.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/parse.h"
#include "tests/sim/stage.h"

enum {
    FAULTS_MS = 60000,    /* things break for so long */
    PATIENCE_MS = 900000, /* then every job must end within this */
    SLICE_MS = 1000,
    PROCESSES_MAX = 64,
    RESULT_MAX = 1200,
    ALSO_MAX = 1000,
    FAULTS_COUNTED = 14,
};

struct options {
    int64_t seed, seeds, processes;
    bool trace, twice, first;
    int64_t also[ALSO_MAX];
    int also_count;
};

struct result { /* what a world's process tells its parent */
    bool failed;
    uint64_t digest, happenings;
    int64_t virtual_ms;
    int faults[FAULTS_COUNTED];
    char failure[RESULT_MAX];
};

static void live(struct world *world, struct stage *stage)
{
    char rest[800];
    stage_init(stage, world);
    int64_t calm_ms = world->now_ms + FAULTS_MS;
    faults_init(stage, calm_ms);
    operators_init(stage, stage_url(), calm_ms);
    backup_init(stage, calm_ms);
    while (world_step(world, calm_ms + 1)) {
    }
    while (!stage_all_ended(stage)) {
        if (world->now_ms > calm_ms + PATIENCE_MS) {
            stage_describe(stage, rest, sizeof(rest));
            world_fail(world, "%d s after the last fault not all has ended%s", PATIENCE_MS / 1000,
                       rest);
        }
        for (int64_t until = world->now_ms + SLICE_MS; world_step(world, until);) {
        }
    }
    for (int64_t until = world->now_ms + keeping_done_ms(stage); world_step(world, until);) {
    }
    keeping_check_end(stage);
    stage_check_past(stage);
    stage_check_told(stage);
}

static struct world the_world; /* one per process */
static struct stage the_stage;

static void run_world(uint64_t seed, bool trace, struct result *ret)
{
    struct world *world = &the_world;
    struct stage *stage = &the_stage;
    jmp_buf give_up;
    memset(ret, 0, sizeof(*ret));
    world_init(world, seed, trace);
    world->give_up = &give_up;
    if (setjmp(give_up) == 0)
        live(world, stage);
    ret->failed = world->failure[0] != 0;
    ret->digest = world->digest;
    ret->happenings = world->happenings;
    ret->virtual_ms = world->now_ms - 1000000;
    int faults[] = {stage->coordinator_crashes,
                    stage->agent_crashes,
                    stage->node_losses,
                    stage->cuts,
                    stage->kills,
                    stage->store_failures,
                    stage->hangs,
                    stage->stalls,
                    stage->clock_jumps,
                    stage->disk_failures,
                    stage->changes,
                    stage->restores,
                    stage->forgotten,
                    stage->nodes_forgotten};
    memcpy(ret->faults, faults, sizeof(faults));
    memcpy(ret->failure, world->failure, sizeof(world->failure));
}

struct child {
    pid_t pid;
    int fd;
    uint64_t seed;
    bool second; /* the repeat of --twice */
};

static void start_child(struct child *child, const struct options *options)
{
    int fds[2];
    insist(pipe(fds) == 0);
    (void)fflush(stdout);
    child->pid = fork();
    insist(child->pid >= 0);
    if (child->pid == 0) {
        struct result result;
        close(fds[0]);
        run_world(child->seed, options->trace, &result);
        (void)fflush(stdout);
        insist(write(fds[1], &result, sizeof(result)) == (ssize_t)sizeof(result));
        _exit(0);
    }
    close(fds[1]);
    child->fd = fds[0];
}

static void finish_child(struct child *child, struct result *ret)
{
    int status;
    size_t got = 0;
    char *to = (char *)ret;
    for (ssize_t n; got < sizeof(*ret) && (n = read(child->fd, to + got, sizeof(*ret) - got)) > 0;)
        got += (size_t)n;
    close(child->fd);
    insist(waitpid(child->pid, &status, 0) == child->pid);
    if (got == sizeof(*ret) && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    memset(ret, 0, sizeof(*ret));
    ret->failed = true;
    (void)snprintf(ret->failure, sizeof(ret->failure), "its process died (%s %d)",
                   WIFSIGNALED(status) ? "signal" : "exit",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

struct summary {
    int64_t done, failed, virtual_ms;
    uint64_t happenings;
    int faults[FAULTS_COUNTED];
};

static void take_result(struct summary *sum, const struct child *child, const struct result *result)
{
    sum->done++;
    sum->virtual_ms += result->virtual_ms;
    sum->happenings += result->happenings;
    for (int i = 0; i < FAULTS_COUNTED; i++)
        sum->faults[i] += result->faults[i];
    if (!result->failed)
        return;
    sum->failed++;
    (void)printf("FAILED seed %llu %s\n  again: sim --seeds 1 --seed %llu --trace\n",
                 (unsigned long long)child->seed, result->failure, (unsigned long long)child->seed);
}

static void check_twice(struct summary *sum, const struct child *child, struct result *first)
{
    struct child again = {.seed = child->seed, .second = true};
    static const struct options quiet;
    struct result second;
    start_child(&again, &quiet);
    finish_child(&again, &second);
    if (first->failed || (second.digest == first->digest && second.happenings == first->happenings))
        return;
    first->failed = true;
    (void)snprintf(first->failure, sizeof(first->failure), "two runs of the seed differ");
    (void)sum;
}

static uint64_t seed_at(const struct options *options, int64_t index)
{
    if (index < options->also_count)
        return (uint64_t)options->also[index];
    return (uint64_t)(options->seed + index - options->also_count);
}

static int run_all(const struct options *options)
{
    struct child children[PROCESSES_MAX];
    struct summary sum = {0};
    int64_t next = 0, count = options->also_count + options->seeds;
    int running = 0;
    while (next < count || running > 0) {
        if (options->first && sum.failed > 0)
            next = count;
        while (running < options->processes && next < count) {
            children[running] = (struct child){.seed = seed_at(options, next++)};
            start_child(&children[running++], options);
        }
        struct result result;
        struct child child = children[0];
        memmove(children, children + 1, sizeof(*children) * (size_t)--running);
        finish_child(&child, &result);
        if (options->twice)
            check_twice(&sum, &child, &result);
        take_result(&sum, &child, &result);
    }
    (void)printf(
        "%lld worlds, %lld failed; %.1f h of virtual time, %llu happenings; coordinator "
        "crashes %d, agent crashes %d, machines lost %d, networks cut %d, workers killed "
        "%d, stores failing %d, workers hung %d, programs stalled %d, clocks jumped %d, "
        "disks failing %d, changes by operators %d, stores restored %d, jobs forgotten %d, "
        "nodes forgotten %d\n",
        (long long)sum.done, (long long)sum.failed, (double)sum.virtual_ms / 3600000,
        (unsigned long long)sum.happenings, sum.faults[0], sum.faults[1], sum.faults[2],
        sum.faults[3], sum.faults[4], sum.faults[5], sum.faults[6], sum.faults[7], sum.faults[8],
        sum.faults[9], sum.faults[10], sum.faults[11], sum.faults[12], sum.faults[13]);
    return sum.failed ? 1 : 0;
}

static bool take_number(const char *name, int argc, char **argv, int *at, int64_t *ret)
{
    if (strcmp(argv[*at], name) != 0)
        return false;
    if (*at + 1 >= argc || parse_i64(argv[*at + 1], 1, INT64_MAX, ret, NULL) < 0)
        *ret = 0;
    (*at)++;
    return true;
}

static bool read_also(const char *path, struct options *options)
{
    char line[512], number[24];
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (options->also_count < ALSO_MAX && fgets(line, sizeof(line), file)) {
        size_t digits = strspn(line, "0123456789");
        if (digits == 0 || digits >= sizeof(number))
            continue;
        memcpy(number, line, digits);
        number[digits] = 0;
        if (parse_i64(number, 1, INT64_MAX, &options->also[options->also_count], NULL) == 0)
            options->also_count++;
    }
    (void)fclose(file);
    return true;
}

int main(int argc, char **argv)
{
    static struct options options = {.seed = 1, .seeds = 100, .processes = 2};
    bool ok = true;
    for (int i = 1; i < argc && ok; i++) {
        if (strcmp(argv[i], "--trace") == 0)
            options.trace = true;
        else if (strcmp(argv[i], "--twice") == 0)
            options.twice = true;
        else if (strcmp(argv[i], "--first") == 0)
            options.first = true;
        else if (strcmp(argv[i], "--also") == 0)
            ok = i + 1 < argc && read_also(argv[++i], &options);
        else
            ok = take_number("--seeds", argc, argv, &i, &options.seeds) ||
                 take_number("--seed", argc, argv, &i, &options.seed) ||
                 take_number("--jobs", argc, argv, &i, &options.processes);
    }
    if (!ok || options.seed < 1 || options.seeds < 1 || options.processes < 1 ||
        options.processes > PROCESSES_MAX) {
        (void)fprintf(stderr, "usage: sim [--seeds N] [--seed S] [--jobs P] [--trace] [--twice] "
                              "[--first] [--also FILE]\n");
        return 2;
    }
    return run_all(&options);
}
