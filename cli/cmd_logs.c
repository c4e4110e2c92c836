/* muster logs */
#include <string.h>

#include "cli/follow.h"
#include "common/rpc/message.h"

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "follow", .letter = 'f', .kind = ARGS_FLAG, .help = "wait for more until it ends"},
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
static const struct args_command command = {
    .program = "muster logs",
    .summary = "the output of a job's workers",
    .options = options,
};

static int print_all(struct client *client, const struct args *args, uint32_t world)
{
    Muster__GetLogsRequest request = MUSTER__GET_LOGS_REQUEST__INIT;
    request.id = (char *)args_text(args, "job");
    request.rank = (int32_t)args_integer(args, "rank");
    request.tail_lines = (uint32_t)args_integer(args, "tail");
    for (;;) {
        struct error err = {0};
        Muster__GetLogsAnswer *answer = NULL;
        if (client_call(client, "GetLogs", &request, NULL, &answer, &err) != 0)
            return client_fail(&err);
        bool done = answer->n_lines == 0 || answer->cursor == request.cursor;
        if (!client_printed(args, answer))
            for (size_t i = 0; i < answer->n_lines; i++)
                print_log_line(answer->lines[i], request.rank < 0 && world > 1);
        request.cursor = answer->cursor;
        request.tail_lines = 0;
        rpc_message_free(answer);
        if (done)
            return EXIT_DONE;
    }
}

static int run(const struct args *args)
{
    struct client client = {0};
    struct error err = {0};
    Muster__Job *job = NULL;
    if (client_open(args, &client, &err) != 0)
        return client_fail(&err);
    int code = client_job(&client, args_text(args, "job"), &job);
    if (code == 0 && args_flag(args, "follow")) {
        struct follow how = {.id = job->id,
                             .rank = (int)args_integer(args, "rank"),
                             .tail_lines = (int)args_integer(args, "tail"),
                             .show_rank = args_integer(args, "rank") < 0 && job->world > 1};
        code = follow_job(&client, &how);
    } else if (code == 0) {
        code = print_all(&client, args, job->world);
    }
    rpc_message_free(job);
    client_close(&client);
    return code;
}

const struct verb verb_logs = {.name = "logs", .command = &command, .run = run};
