/* muster stacks: where the programs of a job are */
#include <stdio.h>
#include <time.h>

#include "cli/client.h"
#include "cli/log_line.h"
#include "common/rpc/message.h"

enum {
    PATIENCE_MS = 6000, /* for a report of each agent */
    QUIET_MS = 1500,    /* after the last lines */
    LOOK_MS = 100,
};

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    {.name = "rank",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = -1,
     .max = INT32_MAX,
     .fallback = "-1",
     .help = "only of this rank; -1 = of all"},
    {.name = "job", .kind = ARGS_POSITIONAL, .required = true, .help = "id or name"},
    {0},
};
static const char *const examples[] = {"muster stacks gpt-kjv", "muster stacks gpt-kjv --rank 1",
                                       NULL};
static const struct args_command command = {
    .program = "muster stacks",
    .summary = "where the programs of a job are",
    .description = "Programs that offer it, as those with the Python package muster do, write the "
                   "stacks of their threads. They stay in the job's output, too.",
    .options = options,
    .examples = examples,
};

static void wait_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

/* Everything after the cursor, which moves on; the number of lines of stacks, or an exit code below
 * 0. */
static int print_new(struct client *client, Muster__GetLogsRequest *request, bool prints,
                     struct log_printer *printer)
{
    struct error err = {0};
    int count = 0;
    for (bool done = false; !done;) {
        Muster__GetLogsAnswer *answer = NULL;
        if (client_call(client, "GetLogs", request, NULL, &answer, &err))
            return -client_fail(&err);
        for (size_t i = 0; prints && i < answer->n_lines; i++)
            if (answer->lines[i]->is_stacks) {
                answer->lines[i]->is_stderr = false; /* it is what was asked for */
                log_line_print(printer, answer->lines[i]);
                count++;
            }
        done = answer->n_lines == 0 || answer->cursor == request->cursor;
        request->cursor = answer->cursor;
        request->tail_lines = 0;
        rpc_message_free(answer);
    }
    return count;
}

/* Agents report one after the other: it is over when they are silent. */
static int await_stacks(struct client *client, Muster__GetLogsRequest *request,
                        struct log_printer *printer)
{
    int64_t quiet_ms = 0;
    bool any = false;
    for (int64_t at_ms = 0; at_ms < PATIENCE_MS && !(any && quiet_ms >= QUIET_MS);
         at_ms += LOOK_MS) {
        wait_ms(LOOK_MS);
        int count = print_new(client, request, true, printer);
        if (count < 0)
            return -count;
        any = any || count > 0;
        quiet_ms = count > 0 ? 0 : quiet_ms + LOOK_MS;
    }
    if (!any)
        fprintf(stderr, "muster: no program of this job offers its stacks; docs/report.md says how "
                        "one does\n");
    return any ? EXIT_DONE : EXIT_JOB_FAILED;
}

static int run_stacks(const struct args *args)
{
    struct client client = {0};
    struct error err = {0};
    Muster__Job *job = NULL, *answer = NULL;
    Muster__TakeStacksRequest take = MUSTER__TAKE_STACKS_REQUEST__INIT;
    Muster__GetLogsRequest logs = MUSTER__GET_LOGS_REQUEST__INIT;
    if (client_open(args, &client, &err))
        return client_fail(&err);
    int code = client_job(&client, args_text(args, "job"), &job);
    if (code == 0) {
        struct log_printer printer = {
            .format = "table", .show_rank = args_integer(args, "rank") < 0 && job->world > 1};
        take.id = logs.id = job->id;
        logs.rank = (int32_t)args_integer(args, "rank");
        logs.tail_lines = 1;
        int seen = print_new(&client, &logs, false, &printer);
        code = seen < 0 ? -seen : 0;
        if (code == 0 && client_call(&client, "TakeStacks", &take, NULL, &answer, &err))
            code = client_fail(&err);
        if (code == 0)
            code = await_stacks(&client, &logs, &printer);
    }
    rpc_message_free(answer);
    rpc_message_free(job);
    client_close(&client);
    return code;
}

const struct verb verb_stacks = {.name = "stacks", .command = &command, .run = run_stacks};
