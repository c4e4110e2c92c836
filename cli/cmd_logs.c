/* muster logs */
#include <stdlib.h>
#include <string.h>

#include "cli/follow.h"
#include "common/rpc/message.h"

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "follow",
     .letter = 'f',
     .kind = ARGS_FLAG,
     .help = "wait for more until it ends; -o json then prints each line as JSON on a line of its "
             "own"},
    {.name = "rank",
     .letter = 'r',
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = -1,
     .max = 1 << 20,
     .fallback = "-1",
     .help = "only this rank; -1 is all"},
    {.name = "tail",
     .letter = 't',
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 0,
     .max = 1000000,
     .fallback = "0",
     .value_name = "LINES",
     .help = "start with the last LINES; 0 is all"},
    {.name = "job", .kind = ARGS_POSITIONAL, .required = true, .help = "id or name of the job"},
    {0},
};
static const char *const examples[] = {"muster logs -f gpt-kjv", "muster logs --rank 3 j12", NULL};
static const struct args_command command = {
    .program = "muster logs",
    .summary = "the output of a job's workers",
    .description =
        "The workers' stdout is printed on stdout and their stderr on stderr. A line on stderr "
        "marks the begin of each new generation.",
    .options = options,
    .examples = examples,
};

struct pages { /* answers kept until all lines are there, for -o json and yaml */
    Muster__GetLogsAnswer **items;
    size_t count, lines;
};

static bool pages_add(struct pages *pages, Muster__GetLogsAnswer *answer)
{
    Muster__GetLogsAnswer **more =
        realloc(pages->items, (pages->count + 1) * sizeof(Muster__GetLogsAnswer *));
    if (!more)
        return false;
    pages->items = more;
    pages->items[pages->count++] = answer;
    pages->lines += answer->n_lines;
    return true;
}

/* All pages as one answer. */
static void pages_print(const struct pages *pages, const struct args *args)
{
    Muster__GetLogsAnswer whole = MUSTER__GET_LOGS_ANSWER__INIT;
    whole.lines = calloc(pages->lines + 1, sizeof(Muster__LogLine *));
    for (size_t i = 0; whole.lines && i < pages->count; i++) {
        const Muster__GetLogsAnswer *page = pages->items[i];
        for (size_t j = 0; j < page->n_lines; j++)
            whole.lines[whole.n_lines++] = page->lines[j];
        whole.cursor = page->cursor;
        whole.ended = page->ended;
    }
    client_printed(args, &whole);
    free(whole.lines);
}

static void pages_fini(struct pages *pages)
{
    for (size_t i = 0; i < pages->count; i++)
        rpc_message_free(pages->items[i]);
    free(pages->items);
}

/* The job's ranks; before it has begun, the ranks it may have. */
static uint32_t ranks_of(const Muster__Job *job)
{
    const Muster__JobSpec *spec = job->spec;
    if (job->world || !spec || !spec->nodes)
        return job->world;
    return spec->nodes->max * (spec->workers_per_node ? spec->workers_per_node : 1);
}

/* Only without a line: an earlier, larger world may have left some of ranks that are no more. */
static int tell_nothing(const Muster__Job *job, int64_t rank)
{
    uint32_t ranks = ranks_of(job);
    if (rank >= 0 && ranks && rank >= ranks) {
        struct error err = {0};
        error_set(&err, E_INVALID_ARGUMENT, "job %s has no rank %lld", job->id, (long long)rank);
        if (ranks > 1)
            error_hint(&err, "its ranks are 0 to %u", ranks - 1);
        else
            error_hint(&err, "its only rank is 0");
        return client_fail(&err);
    }
    if (rank >= 0)
        fprintf(stderr, "no output of rank %lld\n", (long long)rank);
    else
        fprintf(stderr, "no output\n");
    return EXIT_DONE;
}

static struct log_printer printer_of(const struct args *args, const Muster__Job *job)
{
    return (struct log_printer){.format = args_text(args, "output"),
                                .show_rank = args_integer(args, "rank") < 0 && job->world > 1,
                                .marks = true};
}

static int print_all(struct client *client, const struct args *args, const Muster__Job *job)
{
    bool plain = strcmp(args_text(args, "output"), "table") == 0, done = false;
    struct log_printer printer = printer_of(args, job);
    struct pages pages = {0};
    struct error err = {0};
    int code = EXIT_DONE;
    size_t lines = 0;
    Muster__GetLogsRequest request = MUSTER__GET_LOGS_REQUEST__INIT;
    request.id = (char *)args_text(args, "job");
    request.rank = (int32_t)args_integer(args, "rank");
    request.tail_lines = (uint32_t)args_integer(args, "tail");
    /* Of a job that has ended all of it, the last of which its agents may still be sending. */
    request.follow = job->state >= MUSTER__JOB__STATE__succeeded;
    while (!done && code == EXIT_DONE) {
        Muster__GetLogsAnswer *answer = NULL;
        if (client_call(client, "GetLogs", &request, NULL, &answer, &err)) {
            code = client_fail(&err);
            break;
        }
        done = answer->n_lines == 0 || answer->cursor == request.cursor;
        lines += answer->n_lines;
        request.cursor = answer->cursor;
        request.tail_lines = 0;
        for (size_t i = 0; plain && i < answer->n_lines; i++)
            log_line_print(&printer, answer->lines[i]);
        if (plain || !pages_add(&pages, answer))
            rpc_message_free(answer);
    }
    if (code == EXIT_DONE && lines == 0)
        code = tell_nothing(job, request.rank);
    if (!plain && code == EXIT_DONE)
        pages_print(&pages, args);
    pages_fini(&pages);
    return code;
}

static int run_logs(const struct args *args)
{
    struct client client = {0};
    struct error err = {0};
    Muster__Job *job = NULL;
    if (client_open(args, &client, &err))
        return client_fail(&err);
    int code = client_job(&client, args_text(args, "job"), &job);
    if (code == 0 && args_flag(args, "follow")) {
        struct follow how = {.id = job->id,
                             .rank = (int)args_integer(args, "rank"),
                             .tail_lines = (int)args_integer(args, "tail"),
                             .printer = printer_of(args, job)};
        code = follow_job(&client, &how);
    } else if (code == 0) {
        code = print_all(&client, args, job);
    }
    rpc_message_free(job);
    client_close(&client);
    return code;
}

const struct verb verb_logs = {.name = "logs", .command = &command, .run = run_logs};
