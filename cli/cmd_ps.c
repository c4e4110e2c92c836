/* muster ps: jobs, newest first */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/job_text.h"
#include "cli/last_words.h"
#include "cli/table.h"
#include "common/rpc/message.h"

enum {
    REASON_COLUMNS = 60, /* on a terminal */
    JOBS_SHOWN = 100,    /* of lists that ended jobs are in */
};

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "all", .letter = 'a', .kind = ARGS_FLAG, .help = "ended jobs too"},
    {.name = "verbose",
     .letter = 'v',
     .kind = ARGS_FLAG,
     .help = "also print each job's whole reason, what would help, and the last lines of failed "
             "workers"},
    {.name = "state", .kind = ARGS_OPTION, .help = "only jobs in this state"},
    {.name = "tenant", .kind = ARGS_OPTION, .help = "only jobs of this tenant"},
    {.name = "limit",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 1,
     .max = 1000,
     .help = "the newest N at most (else all that have not ended; with --all or --state the newest "
             "100)"},
    {0},
};
static const char *const examples[] = {"muster ps",
                                       "muster ps --state running --tenant vision -o json", NULL};
static const struct args_command command = {
    .program = "muster ps",
    .summary = "list jobs",
    .description = "USER is the token that submitted the job. START is when it first started. "
                   "DURATION is the time from then until now, or until it ended.",
    .options = options,
    .examples = examples,
};

/* The time of day, or the day if that was another one; UTC, as everywhere. */
static const char *start_text(int64_t wall_ms, char ret[FORMAT_MAX])
{
    time_t then = (time_t)(wall_ms / 1000), now = time(NULL);
    struct tm day, today;
    bool same = gmtime_r(&then, &day) && gmtime_r(&now, &today) && day.tm_yday == today.tm_yday &&
                day.tm_year == today.tm_year;
    if (strftime(ret, FORMAT_MAX, same ? "%H:%M:%SZ" : "%Y-%m-%d", &day) == 0)
        ret[0] = '\0';
    return ret;
}

/* From its first start to its end or until now, restarts included. */
static const char *duration_text(const Muster__Job *job, char ret[FORMAT_MAX])
{
    if (!job->ended_wall_ms)
        return age_text(job->started_wall_ms, ret);
    return format_duration((job->ended_wall_ms - job->started_wall_ms) / 1000 * 1000, ret);
}

static void job_row(struct table *table, const Muster__Job *job)
{
    char age[FORMAT_MAX], text[FORMAT_MAX];
    table_cell(table, "%s", job->id);
    table_cell(table, "%s", job->spec ? job->spec->name : "");
    table_cell(table, "%s", job->user);
    table_cell(table, "%s", job_word(job));
    table_cell(table, "%u", job->node_count);
    table_cell(table, "%u", job->world);
    table_cell(table, "%s", job_step_text(job, text));
    table_cell(table, "%s", job_loss_text(job, text));
    table_cell(table, "%s", job_rate_text(job, text));
    table_cell(table, "%s", job->started_wall_ms ? start_text(job->started_wall_ms, text) : "");
    table_cell(table, "%s", job->started_wall_ms ? duration_text(job, text) : "");
    table_cell(table, "%s", age_text(job->submitted_wall_ms, age));
    const char *reason = job->reason ? job->reason->text : "";
    bool whole = strlen(reason) <= REASON_COLUMNS || !isatty(STDOUT_FILENO);
    table_cell(table, "%.*s%s", whole ? INT_MAX : REASON_COLUMNS - 1, reason, whole ? "" : "…");
}

static void whole_reason(const Muster__Job *job)
{
    if (!job->reason || !job->reason->text[0])
        return;
    printf("\n%s %s: %s\n", job->id, job->spec ? job->spec->name : "", job->reason->text);
    if (job->reason->hint[0])
        printf("    → %s\n", job->reason->hint);
    print_last_words(stdout, "    ", job->reason->output);
}

/* Moves the jobs of `page` to the end of `all` and frees what is left of it. */
static bool append(Muster__ListJobsAnswer *all, Muster__ListJobsAnswer *page)
{
    char *cursor = all->next_cursor;
    Muster__Job **jobs = realloc(all->jobs, sizeof(void *) * (all->n_jobs + page->n_jobs + 1));
    if (!jobs)
        return false;
    all->jobs = jobs;
    for (size_t i = 0; i < page->n_jobs; i++)
        all->jobs[all->n_jobs++] = page->jobs[i];
    page->n_jobs = 0;
    all->next_cursor = page->next_cursor;
    page->next_cursor = cursor;
    rpc_message_free(page);
    return true;
}

/* A page of large specs has fewer jobs than were asked for. */
static int ask_pages(const struct args *args, Muster__ListJobsRequest *request,
                     Muster__ListJobsAnswer **ret)
{
    Muster__ListJobsAnswer *all = NULL, *page = NULL;
    uint32_t wanted = request->limit;
    int code;
    while ((code = client_ask(args, "ListJobs", request, &page)) == EXIT_DONE) {
        if (!all) {
            all = page;
        } else if (!append(all, page)) {
            struct error err = {0};
            rpc_message_free(page);
            error_set(&err, E_RESOURCE_EXHAUSTED, "out of memory");
            code = client_fail(&err);
            break;
        }
        if (!all->next_cursor[0] || all->n_jobs >= wanted) {
            *ret = all;
            return EXIT_DONE;
        }
        request->cursor = all->next_cursor;
        request->limit = wanted - (uint32_t)all->n_jobs;
    }
    rpc_message_free(all);
    return code;
}

static void print_jobs(const struct args *args, const Muster__ListJobsAnswer *answer)
{
    static const char *const titles[] = {"ID",        "NAME",  "USER",   "STATE",  ">NODES",
                                         ">WORLD",    ">STEP", ">LOSS",  ">TOK/S", "START",
                                         ">DURATION", ">AGE",  "REASON", NULL};
    bool all = args_flag(args, "all");
    struct table table;
    table_init(&table, titles);
    for (size_t i = 0; i < answer->n_jobs; i++)
        job_row(&table, answer->jobs[i]);
    table_print(&table, stdout, all ? "no jobs" : "no active jobs; `muster ps -a` lists all");
    table_fini(&table);
    for (size_t i = 0; args_flag(args, "verbose") && i < answer->n_jobs; i++)
        whole_reason(answer->jobs[i]);
    fflush(stdout);
    if (answer->next_cursor[0])
        fprintf(stderr,
                "there are more: these are the newest %zu; `--limit` shows up to 1000, "
                "`--state` and `--tenant` choose\n",
                answer->n_jobs);
    client_tell_refused(stderr, answer->changes_refused);
}

static int run_ps(const struct args *args)
{
    Muster__ListJobsRequest request = MUSTER__LIST_JOBS_REQUEST__INIT;
    Muster__ListJobsAnswer *answer = NULL;
    const char *state = args_text(args, "state"), *tenant = args_text(args, "tenant");
    bool all = args_flag(args, "all"), limited = args_given(args, "limit");
    bool whole = !limited && !all && (!state || strcmp(state, "active") == 0);
    request.state = (char *)(state ? state : all ? "" : "active");
    request.tenant = (char *)(tenant ? tenant : "");
    request.limit = limited ? (uint32_t)args_integer(args, "limit")
                    : whole ? UINT32_MAX
                            : JOBS_SHOWN;
    int code = ask_pages(args, &request, &answer);
    if (code != 0)
        return code;
    if (!client_printed(args, answer))
        print_jobs(args, answer);
    rpc_message_free(answer);
    return EXIT_DONE;
}

const struct verb verb_ps = {.name = "ps", .command = &command, .run = run_ps};
