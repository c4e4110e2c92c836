/* muster sim: a cluster and a workload that do not exist, lived through in seconds */
#include <string.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/sim_files.h"
#include "cli/table.h"
#include "common/base/tree.h"
#include "common/base/tree_build.h"
#include "common/base/tree_write.h"

static const struct args_option options[] = {
    CLIENT_OUTPUT,
    {.name = "json", .kind = ARGS_FLAG, .help = "as -o json"},
    {.name = "jobs",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 0,
     .max = REHEARSAL_JOBS_MAX,
     .fallback = "0",
     .value_name = "N",
     .help = "only the first N jobs of the workload"},
    {.name = "list",
     .kind = ARGS_FLAG,
     .help = "also list every job: when it was placed and when "
             "it ended"},
    {.name = "cluster", .kind = ARGS_POSITIONAL, .required = true, .help = "nodes and tenants"},
    {.name = "workload",
     .kind = ARGS_POSITIONAL,
     .required = true,
     .help = "jobs: YAML, CSV, or SWF (by its ending)"},
    {0},
};
static const char *const examples[] = {
    "muster sim examples/sim/cluster.yaml examples/sim/workload.yaml",
    "muster sim cluster.yaml jobs.csv --json",
    "muster sim cluster.yaml trace.swf --jobs 5000",
    NULL,
};
static const struct args_command command = {
    .program = "muster sim",
    .summary = "simulate a cluster and its jobs in virtual time",
    .description = "The real coordinator code decides; only time and machines are simulated. The "
                   "result shows how busy the cluster is, how long jobs wait, and the share of "
                   "each tenant. Needs no coordinator. docs/planning.md describes the files.",
    .options = options,
    .examples = examples,
};

static void show_progress(void *arg, int done, int count)
{
    enum { WIDTH = 30 };
    int *shown = arg;
    int filled = count ? done * WIDTH / count : WIDTH;
    if (!isatty(STDERR_FILENO) || (done == *shown && done < count))
        return;
    *shown = done;
    fprintf(stderr, "\r\033[K");
    if (done == count)
        return;
    fputc('[', stderr);
    for (int i = 0; i < WIDTH; i++)
        fputc(i < filled ? '=' : ' ', stderr);
    fprintf(stderr, "] %d of %d jobs", done, count);
}

static struct tree *seconds(struct arena *arena, int64_t ms)
{
    return tree_number(arena, (double)ms / 1000);
}

static struct tree *tenants_tree(struct arena *arena, const struct rehearsal *rehearsal)
{
    struct tree *list = tree_list(arena);
    for (int i = 0; list && i < rehearsal->tenants_count; i++) {
        const struct rehearsal_tenant *tenant = &rehearsal->tenants[i];
        struct tree *map = tree_map(arena);
        int64_t wait_ms = tenant->jobs ? tenant->wait_ms / tenant->jobs : 0;
        if (!map || tree_map_set(arena, map, "name", tree_string(arena, tenant->name)) ||
            tree_map_set(arena, map, "weight", tree_integer(arena, tenant->weight)) ||
            tree_map_set(arena, map, "jobs", tree_integer(arena, tenant->jobs)) ||
            tree_map_set(arena, map, "slot_seconds", seconds(arena, tenant->slot_ms)) ||
            tree_map_set(arena, map, "share", tree_number(arena, tenant->share)) ||
            tree_map_set(arena, map, "owed", tree_number(arena, tenant->owed)) ||
            tree_map_set(arena, map, "wait_mean_s", seconds(arena, wait_ms)) ||
            tree_list_add(list, map))
            return NULL;
    }
    return list;
}

static const char *end_word(enum rehearsal_end end)
{
    static const char *const words[] = {[REHEARSAL_OPEN] = "waiting",
                                        [REHEARSAL_DONE] = "succeeded",
                                        [REHEARSAL_REFUSED] = "refused",
                                        [REHEARSAL_FAILED] = "failed"};
    return words[end];
}

static struct tree *jobs_tree(struct arena *arena, const struct rehearsal *rehearsal)
{
    struct tree *list = tree_list(arena);
    for (int i = 0; list && i < rehearsal->jobs_count; i++) {
        const struct rehearsal_job *job = &rehearsal->jobs[i];
        struct tree *map = tree_map(arena);
        if (!map || tree_map_set(arena, map, "name", tree_string(arena, job->name)) ||
            tree_map_set(arena, map, "tenant", tree_string(arena, job->tenant)) ||
            tree_map_set(arena, map, "state", tree_string(arena, end_word(job->end))) ||
            tree_map_set(arena, map, "submit_s", seconds(arena, job->submit_ms)) ||
            tree_map_set(arena, map, "start_s", seconds(arena, job->start_ms)) ||
            tree_map_set(arena, map, "end_s", seconds(arena, job->end_ms)) ||
            tree_map_set(arena, map, "preemptions", tree_integer(arena, job->preemptions)) ||
            tree_map_set(arena, map, "resizes", tree_integer(arena, job->resizes)) ||
            tree_list_add(list, map))
            return NULL;
    }
    return list;
}

static struct tree *figures_tree(struct arena *arena, const struct rehearsal *rehearsal,
                                 const struct rehearsal_figures *figures)
{
    struct tree *map = tree_map(arena);
    int open = rehearsal->jobs_count - figures->done - figures->refused - figures->failed;
    const struct {
        const char *key;
        struct tree *value;
    } rows[] = {{"nodes", tree_integer(arena, rehearsal->nodes_count)},
                {"slots", tree_integer(arena, figures->slots)},
                {"jobs", tree_integer(arena, rehearsal->jobs_count)},
                {"succeeded", tree_integer(arena, figures->done)},
                {"refused", tree_integer(arena, figures->refused)},
                {"failed", tree_integer(arena, figures->failed)},
                {"waiting", tree_integer(arena, open)},
                {"makespan_s", seconds(arena, figures->makespan_ms)},
                {"utilisation", tree_number(arena, figures->utilisation)},
                {"wait_mean_s", seconds(arena, figures->wait_mean_ms)},
                {"wait_median_s", seconds(arena, figures->wait_median_ms)},
                {"wait_p95_s", seconds(arena, figures->wait_p95_ms)},
                {"slowdown_mean", tree_number(arena, figures->slowdown_mean)},
                {"slowdown_p95", tree_number(arena, figures->slowdown_p95)},
                {"fairness", tree_number(arena, figures->fairness)},
                {"preemptions", tree_integer(arena, figures->preemptions)},
                {"resizes", tree_integer(arena, figures->resizes)},
                {"tenants", tenants_tree(arena, rehearsal)}};
    for (size_t i = 0; map && i < sizeof(rows) / sizeof(rows[0]); i++)
        if (tree_map_set(arena, map, rows[i].key, rows[i].value))
            return NULL;
    return map;
}

static int print_tree(const struct args *args, const struct rehearsal *rehearsal,
                      const struct rehearsal_figures *figures, struct error *err)
{
    struct arena arena;
    struct buf out = {0};
    arena_init(&arena, 256 << 20);
    struct tree *map = figures_tree(&arena, rehearsal, figures);
    int rc = map ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    if (!rc && args_flag(args, "list"))
        rc = tree_map_set(&arena, map, "list", jobs_tree(&arena, rehearsal));
    if (!rc && strcmp(args_text(args, "output"), "yaml") == 0)
        rc = tree_write_yaml(map, &out, err);
    else if (!rc)
        rc = tree_write_json(map, TREE_PRETTY, &out, err);
    if (!rc)
        printf("%s\n", buf_cstr(&out));
    buf_fini(&out);
    arena_fini(&arena);
    return rc;
}

static void print_tenants(const struct rehearsal *rehearsal)
{
    static const char *const titles[] = {"TENANT", ">WEIGHT", ">JOBS",      ">SLOT HOURS",
                                         ">SHARE", ">OWED",   ">MEAN WAIT", NULL};
    struct table table;
    table_init(&table, titles);
    for (int i = 0; i < rehearsal->tenants_count; i++) {
        const struct rehearsal_tenant *tenant = &rehearsal->tenants[i];
        char wait[FORMAT_MAX];
        table_cell(&table, "%s", tenant->name);
        table_cell(&table, "%d", tenant->weight);
        table_cell(&table, "%d", tenant->jobs);
        table_cell(&table, "%.1f", (double)tenant->slot_ms / 3600000);
        table_cell(&table, "%.1f %%", 100 * tenant->share);
        table_cell(&table, "%.1f %%", 100 * tenant->owed);
        table_cell(&table, "%s",
                   format_duration(tenant->jobs ? tenant->wait_ms / tenant->jobs : 0, wait));
    }
    putchar('\n');
    table_print(&table, stdout, "");
    table_fini(&table);
}

static void print_jobs(const struct rehearsal *rehearsal)
{
    static const char *const titles[] = {"JOB",     "TENANT", "STATE",      ">SUBMITTED",
                                         ">WAITED", ">RAN",   ">PREEMPTED", NULL};
    struct table table;
    char a[FORMAT_MAX], b[FORMAT_MAX], c[FORMAT_MAX];
    table_init(&table, titles);
    for (int i = 0; i < rehearsal->jobs_count; i++) {
        const struct rehearsal_job *job = &rehearsal->jobs[i];
        bool ran = job->end == REHEARSAL_DONE || job->end == REHEARSAL_FAILED;
        table_cell(&table, "%s", job->name);
        table_cell(&table, "%s", job->tenant);
        table_cell(&table, "%s%s%s", end_word(job->end), job->refusal[0] ? ": " : "", job->refusal);
        table_cell(&table, "%s", format_duration(job->submit_ms, a));
        table_cell(&table, "%s", ran ? format_duration(job->start_ms - job->submit_ms, b) : "-");
        table_cell(&table, "%s", ran ? format_duration(job->end_ms - job->start_ms, c) : "-");
        table_cell(&table, "%d", job->preemptions);
    }
    putchar('\n');
    table_print(&table, stdout, "");
    table_fini(&table);
}

static void print_figures(const struct rehearsal *rehearsal,
                          const struct rehearsal_figures *figures)
{
    char a[FORMAT_MAX], b[FORMAT_MAX], c[FORMAT_MAX];
    int open = rehearsal->jobs_count - figures->done - figures->refused - figures->failed;
    printf("cluster      %d nodes, %d slots\n", rehearsal->nodes_count, figures->slots);
    printf("jobs         %d: %d succeeded, %d failed, %d refused, %d never placed\n",
           rehearsal->jobs_count, figures->done, figures->failed, figures->refused, open);
    printf("makespan     %s\n", format_duration(figures->makespan_ms, a));
    printf("utilisation  %.1f %%\n", 100 * figures->utilisation);
    printf("wait         mean %s, median %s, 95 %% within %s\n",
           format_duration(figures->wait_mean_ms, a), format_duration(figures->wait_median_ms, b),
           format_duration(figures->wait_p95_ms, c));
    printf("slowdown     mean %.2f, 95 %% within %.2f\n", figures->slowdown_mean,
           figures->slowdown_p95);
    printf("fairness     %.3f between tenants\n", figures->fairness);
    printf("preemptions  %d, and %d resizes of elastic jobs\n", figures->preemptions,
           figures->resizes);
    print_tenants(rehearsal);
}

static int print(const struct args *args, const struct rehearsal *rehearsal,
                 const struct rehearsal_figures *figures, struct error *err)
{
    if (args_flag(args, "json") || strcmp(args_text(args, "output"), "table") != 0)
        return print_tree(args, rehearsal, figures, err);
    print_figures(rehearsal, figures);
    if (args_flag(args, "list"))
        print_jobs(rehearsal);
    return 0;
}

static int run_sim(const struct args *args)
{
    int shown = -1;
    struct rehearsal rehearsal = {.progress = show_progress, .arg = &shown};
    struct rehearsal_figures figures = {0};
    struct error err = {0};
    int rc = sim_read_cluster(args_text(args, "cluster"), &rehearsal, &err);
    if (!rc)
        rc = sim_read_workload(args_text(args, "workload"), (int)args_integer(args, "jobs"),
                               &rehearsal, &err);
    if (!rc)
        rc = rehearsal_run(&rehearsal, &figures, &err);
    if (!rc)
        rc = print(args, &rehearsal, &figures, &err);
    sim_files_fini(&rehearsal);
    if (rc)
        return client_fail(&err);
    return EXIT_DONE;
}

const struct verb verb_sim = {.name = "sim", .command = &command, .run = run_sim};
