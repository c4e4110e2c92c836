/* muster cancel */
#include "cli/client.h"
#include "common/rpc/message.h"

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "reason", .kind = ARGS_OPTION, .help = "why, for the record"},
    {.name = "job",
     .kind = ARGS_WORDS,
     .required = true,
     .value_name = "JOB",
     .help = "ids or names"},
    {0},
};
static const char *const examples[] = {"muster cancel gpt-kjv", NULL};
static const struct args_command command = {
    .program = "muster cancel",
    .summary = "end jobs; workers may save before they are stopped",
    .options = options,
    .examples = examples,
};

static int run_cancel(const struct args *args)
{
    struct client client = {0};
    struct error err = {0};
    if (client_open(args, &client, &err))
        return client_fail(&err);
    const char *reason = args_text(args, "reason");
    int code = EXIT_DONE;
    for (size_t i = 0; i < args->word_count; i++) {
        Muster__CancelJobRequest request = MUSTER__CANCEL_JOB_REQUEST__INIT;
        Muster__Job *job = NULL;
        request.id = (char *)args->words[i];
        request.reason = (char *)(reason ? reason : "");
        if (client_call(&client, "CancelJob", &request, NULL, &job, &err))
            code = client_fail(&err);
        else if (!client_printed(args, job))
            printf("%s %s\n", job->id, job_state_word(job->state));
        rpc_message_free(job);
    }
    client_close(&client);
    return code;
}

const struct verb verb_cancel = {.name = "cancel", .command = &command, .run = run_cancel};
