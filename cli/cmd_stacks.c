/* muster stacks: where the programs of a job are */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/client.h"
#include "cli/log_line.h"
#include "common/rpc/message.h"

enum {
    PATIENCE_MS = 8000, /* for all ranks: an agent waits up to 5 s for py-spy, and then reports */
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
                   "stacks of their threads. Of others it shows what each process does, and, where "
                   "py-spy is installed for the job, the stacks of those that are Python. They "
                   "stay in the job's output, too.",
    .options = options,
    .examples = examples,
};

static void wait_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

struct ranks {     /* that are waited for */
    bool *awaited; /* by rank */
    uint32_t count;
    int left;
};

/* Those of the job's workers that have not ended; `rank` -1 = of all ranks. */
static bool ranks_of(const Muster__Job *job, int64_t rank, struct ranks *ret)
{
    uint32_t count = 0;
    for (size_t i = 0; i < job->n_workers; i++)
        if (job->workers[i]->rank >= count)
            count = job->workers[i]->rank + 1;
    *ret = (struct ranks){.awaited = calloc((size_t)count + 1, sizeof(bool)), .count = count};
    for (size_t i = 0; ret->awaited && i < job->n_workers; i++) {
        const Muster__Worker *worker = job->workers[i];
        if (worker->state == MUSTER__WORKER__STATE__exited || (rank >= 0 && worker->rank != rank) ||
            ret->awaited[worker->rank])
            continue;
        ret->awaited[worker->rank] = true;
        ret->left++;
    }
    return ret->awaited;
}

static void hear(struct ranks *ranks, uint32_t rank)
{
    if (rank >= ranks->count || !ranks->awaited[rank])
        return;
    ranks->awaited[rank] = false;
    ranks->left--;
}

/* Everything after the cursor, which moves on; 0 or an exit code. `printer` NULL: skip it. */
static int print_new(struct client *client, Muster__GetLogsRequest *request, struct ranks *ranks,
                     struct log_printer *printer)
{
    struct error err = {0};
    for (bool done = false; !done;) {
        Muster__GetLogsAnswer *answer = NULL;
        if (client_call(client, "GetLogs", request, NULL, &answer, &err))
            return client_fail(&err);
        for (size_t i = 0; printer && i < answer->n_lines; i++)
            if (answer->lines[i]->is_stacks) {
                answer->lines[i]->is_stderr = false; /* it is what was asked for */
                log_line_print(printer, answer->lines[i]);
                hear(ranks, answer->lines[i]->rank);
            }
        done = answer->n_lines == 0 || answer->cursor == request->cursor;
        request->cursor = answer->cursor;
        request->tail_lines = 0;
        rpc_message_free(answer);
    }
    return 0;
}

static int await_stacks(struct client *client, Muster__GetLogsRequest *request, struct ranks *ranks,
                        struct log_printer *printer)
{
    int all = ranks->left;
    if (all == 0)
        fprintf(stderr, "muster: the job has no such rank that runs: `muster show` lists them\n");
    for (int64_t at_ms = 0; at_ms < PATIENCE_MS && ranks->left > 0; at_ms += LOOK_MS) {
        wait_ms(LOOK_MS);
        int code = print_new(client, request, ranks, printer);
        if (code)
            return code;
    }
    fflush(stdout);
    if (ranks->left > 0)
        fprintf(stderr,
                "muster: %d of %d ranks did not answer within %d s: `muster show` has the state "
                "of their workers and nodes\n",
                ranks->left, all, PATIENCE_MS / 1000);
    return ranks->left < all ? EXIT_DONE : EXIT_JOB_FAILED;
}

/* Lines of before are skipped. */
static int show_stacks(struct client *client, const Muster__Job *job, int rank)
{
    struct error err = {0};
    Muster__Job *answer = NULL;
    Muster__TakeStacksRequest take = MUSTER__TAKE_STACKS_REQUEST__INIT;
    Muster__GetLogsRequest logs = MUSTER__GET_LOGS_REQUEST__INIT;
    struct log_printer printer = {.format = "table", .show_rank = rank < 0 && job->n_workers > 1};
    struct ranks ranks = {0};
    take.id = logs.id = job->id;
    logs.rank = rank;
    logs.tail_lines = 1;
    int code = print_new(client, &logs, &ranks, NULL);
    if (code == 0 && client_call(client, "TakeStacks", &take, NULL, &answer, &err))
        code = client_fail(&err);
    if (code == 0 && !ranks_of(answer, rank, &ranks)) {
        error_set(&err, E_RESOURCE_EXHAUSTED, "no memory for the ranks of %s", job->id);
        code = client_fail(&err);
    }
    if (code == 0)
        code = await_stacks(client, &logs, &ranks, &printer);
    rpc_message_free(answer);
    free(ranks.awaited);
    return code;
}

static int run_stacks(const struct args *args)
{
    struct client client = {0};
    struct error err = {0};
    Muster__Job *job = NULL;
    if (client_open(args, &client, &err))
        return client_fail(&err);
    int code = client_job(&client, args_text(args, "job"), &job);
    if (code == 0)
        code = show_stacks(&client, job, (int)args_integer(args, "rank"));
    rpc_message_free(job);
    client_close(&client);
    return code;
}

const struct verb verb_stacks = {.name = "stacks", .command = &command, .run = run_stacks};
