/* muster submit, muster run */
#include <string.h>

#include "cli/follow.h"
#include "cli/job_input.h"
#include "common/base/hex.h"
#include "common/env/rng_os.h"
#include "common/rpc/message.h"

static const struct args_option submit_options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "key",
     .kind = ARGS_OPTION,
     .value_name = "KEY",
     .help = "idempotency key: a second submit with the same key returns the first job"},
    JOB_OPTIONS,
    {0},
};
static const char *const submit_examples[] = {
    "muster submit job.yaml",
    "muster submit -N 1..4 --checkpoint /shared/ckpt -- build/examples/gpt --steps 1000",
    NULL,
};
static const struct args_command submit_command = {
    .program = "muster submit",
    .summary = "queue a job and print its id",
    .options = submit_options,
    .examples = submit_examples,
};
static const struct args_option run_options[] = {
    CLIENT_OPTIONS,
    {.name = "quiet", .letter = 'q', .kind = ARGS_FLAG, .help = "only the job's own output"},
    {.name = "exit-code",
     .kind = ARGS_FLAG,
     .help = "exit with the program's exit code: that of the rank that failed first, or 128 + the "
             "signal that ended it; 125 is Muster's own failure"},
    {.name = "rank",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = -1,
     .max = 1 << 20,
     .fallback = "-1",
     .help = "output of this rank only; -1 is all"},
    JOB_OPTIONS,
    {0},
};
static const char *const run_examples[] = {
    "muster run -N 2 -- python3 train.py",
    "muster run job.yaml",
    "muster run --exit-code --restarts 0 -- ./check.sh",
    NULL,
};
static const struct args_command run_command = {
    .program = "muster run",
    .summary = "submit a job, follow it, exit 0 if it succeeds and 1 if not",
    .description =
        "The workers' stdout is printed on stdout. Their stderr and the job's events are printed "
        "on stderr. Ctrl-C stops following; the job continues.",
    .options = run_options,
    .examples = run_examples,
};

/* A key of our own makes the retries of this one submit safe. */
static int submit_spec(struct client *client, Muster__JobSpec *spec, const char *key,
                       Muster__Job **ret, struct error *err)
{
    struct rng_source rng = rng_os();
    uint8_t bytes[16];
    char own[2 * sizeof(bytes) + 1];
    rng.fill(rng.self, bytes, sizeof(bytes));
    hex_encode(bytes, sizeof(bytes), own);
    Muster__SubmitJobRequest request = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    request.spec = spec;
    struct rpc_options options = {
        .timeout_ms = 30000, .retry = true, .idempotency_key = key ? key : own};
    return client_call(client, "SubmitJob", &request, &options, ret, err);
}

static void show_warnings(const Muster__Job *job)
{
    for (size_t i = 0; job && i < job->n_warnings; i++)
        fprintf(stderr, "muster: warning: %s\n", job->warnings[i]);
}

static int submit_input(const struct args *args, const char *key, struct client *ret_client,
                        Muster__Job **ret_job)
{
    struct error err = {0};
    struct job_input input = {0};
    int rc = job_input(args, &input, &err);
    if (rc) {
        client_fail(&err);
        return EXIT_USAGE;
    }
    rc = client_open(args, ret_client, &err);
    if (!rc)
        rc = submit_spec(ret_client, input.spec, key, ret_job, &err);
    if (rc)
        job_input_blame(&input, &err);
    job_input_fini(&input);
    if (!rc)
        show_warnings(*ret_job);
    if (rc)
        return client_fail(&err);
    return 0;
}

static int run_submit(const struct args *args)
{
    struct client client = {0};
    Muster__Job *job = NULL;
    int code = submit_input(args, args_text(args, "key"), &client, &job);
    if (code == 0 && !client_printed(args, job)) {
        printf("%s\n", job->id);
        if (job->state == MUSTER__JOB__STATE__queued && job->reason && job->reason->text[0])
            fprintf(stderr, "queued: %s\n", job->reason->text);
    }
    rpc_message_free(job);
    client_close(&client);
    return code;
}

static int run_run(const struct args *args)
{
    struct client client = {0};
    Muster__Job *job = NULL;
    bool exit_code = args_flag(args, "exit-code");
    int code = submit_input(args, NULL, &client, &job);
    if (code == 0) {
        bool many = job->spec && job->spec->nodes &&
                    job->spec->nodes->max * job->spec->workers_per_node > 1;
        struct follow how = {
            .id = job->id,
            .rank = (int)args_integer(args, "rank"),
            .quiet = args_flag(args, "quiet"),
            .past = true,
            .exit_code = exit_code,
            .printer = {.format = "table",
                        .show_rank = args_integer(args, "rank") < 0 && many,
                        .marks = !args_flag(args, "quiet")},
        };
        code = follow_job(&client, &how);
    } else if (exit_code) {
        code = EXIT_OWN_FAILURE;
    }
    rpc_message_free(job);
    client_close(&client);
    return code;
}

/* A refused command line is Muster's own failure, too. */
static int run_refused(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--exit-code") == 0)
            return EXIT_OWN_FAILURE;
    return EXIT_USAGE;
}

const struct verb verb_submit = {.name = "submit", .command = &submit_command, .run = run_submit};
const struct verb verb_run = {
    .name = "run", .command = &run_command, .run = run_run, .refused = run_refused};
