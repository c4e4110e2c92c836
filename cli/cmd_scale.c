/* muster scale */
#include <string.h>

#include "cli/client.h"
#include "common/base/str.h"
#include "common/rpc/message.h"

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "reason", .kind = ARGS_OPTION, .help = "why, for the record"},
    {.name = "job", .kind = ARGS_POSITIONAL, .required = true, .help = "id or name"},
    {.name = "nodes", .kind = ARGS_POSITIONAL, .required = true, .help = "N or MIN..MAX"},
    {0},
};
static const char *const examples[] = {"muster scale gpt-kjv 4", "muster scale gpt-kjv 2..8", NULL};
static const struct args_command command = {
    .program = "muster scale",
    .summary = "change a job's number of nodes",
    .description = "A job that is elastic in place releases nodes, or adds nodes when they become "
                   "free, without a restart. A larger minimum applies from its next start.",
    .options = options,
    .examples = examples,
};

static int read_nodes(const char *text, Muster__ScaleJobRequest *request, struct error *err)
{
    int64_t min, max;
    if (parse_range(text, 1, INT32_MAX, &min, &max, err))
        return error_wrap(err, "NODES is a number or a range, for example 2 or 1..4");
    request->min = (uint32_t)min;
    request->max = (uint32_t)max;
    return 0;
}

static int run_scale(const struct args *args)
{
    Muster__ScaleJobRequest request = MUSTER__SCALE_JOB_REQUEST__INIT;
    Muster__Job *job = NULL;
    struct error err = {0};
    const char *reason = args_text(args, "reason");
    if (read_nodes(args_text(args, "nodes"), &request, &err))
        return client_fail(&err);
    request.id = (char *)args_text(args, "job");
    request.reason = (char *)(reason ? reason : "");
    int code = client_ask(args, "ScaleJob", &request, &job);
    if (code == 0 && !client_printed(args, job))
        printf("%s %s, %u..%u nodes\n", job->id, job_state_word(job->state), request.min,
               request.max);
    rpc_message_free(job);
    return code;
}

const struct verb verb_scale = {.name = "scale", .command = &command, .run = run_scale};
