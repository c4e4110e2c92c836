/* muster show, muster why: one job in full, and the reasons for its state */
#include <inttypes.h>
#include <string.h>

#include "cli/client.h"
#include "cli/job_text.h"
#include "cli/last_words.h"
#include "cli/rank_table.h"
#include "cli/table.h"
#include "common/base/parse.h"
#include "common/rpc/message.h"

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "job", .kind = ARGS_POSITIONAL, .required = true, .help = "id or name of the job"},
    {0},
};
static const struct args_option show_options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "ranks",
     .kind = ARGS_FLAG,
     .help = "its ranks instead: the step, step time and newest numbers of each, and the slowest"},
    {.name = "job", .kind = ARGS_POSITIONAL, .required = true, .help = "id or name of the job"},
    {0},
};
static const char *const show_examples[] = {"muster show gpt-kjv", "muster show gpt-kjv --ranks",
                                            "muster show j12 -o yaml", NULL};
static const struct args_command show_command = {
    .program = "muster show",
    .summary = "one job: spec, workers, progress",
    .options = show_options,
    .examples = show_examples,
};
static const char *const why_examples[] = {"muster why gpt-kjv", NULL};
static const struct args_command why_command = {
    .program = "muster why",
    .summary = "why a job waits, failed or was restarted, and what would help",
    .options = options,
    .examples = why_examples,
};

static void show_reason(const Muster__Reason *reason)
{
    printf("%s", reason->text[0] ? reason->text : reason->kind);
    if (reason->kind[0])
        printf(" %s(%s)%s", colour_dim(stdout), reason->kind, colour_off(stdout));
    putchar('\n');
    if (reason->hint[0])
        printf("            → %s\n", reason->hint);
    print_last_words(stdout, "            ", reason->output);
}

/* As a shell would take it. */
static void print_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "@%+=:,./-_";
    if (*word && word[strspn(word, plain)] == '\0') {
        printf(" %s", word);
        return;
    }
    printf(" '");
    for (; *word; word++) {
        if (*word == '\'')
            printf("'\\''");
        else
            putchar(*word);
    }
    putchar('\'');
}

/* "ledger      98.2 % productive of 1h 2m: queue 3.0 s, start 0.4 s, …": parts of no time are left
 * out. */
static void show_ledger(const Muster__Ledger *ledger)
{
    char total[FORMAT_MAX], part[FORMAT_MAX];
    if (!ledger || ledger->total <= 0)
        return;
    printf("ledger      %.1f %% productive of %s", 100 * ledger->productive / ledger->total,
           format_duration((int64_t)(ledger->total * 1000), total));
    const struct {
        const char *name;
        double seconds;
    } parts[] = {{"queue", ledger->queue},
                 {"start", ledger->start},
                 {"productive", ledger->productive},
                 {"checkpoint", ledger->checkpoint},
                 {"rework", ledger->rework},
                 {"recovery", ledger->recovery},
                 {"hang", ledger->hang}};
    const char *before = ": ";
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (parts[i].seconds <= 0)
            continue;
        printf("%s%s %s", before, parts[i].name,
               format_duration((int64_t)(parts[i].seconds * 1000), part));
        before = ", ";
    }
    if (ledger->rework_steps)
        printf("; %" PRIu64 " steps done again", ledger->rework_steps);
    putchar('\n');
}

static void show_progress(const Muster__Job *job)
{
    char text[FORMAT_MAX];
    if (job->step_known_case == MUSTER__JOB__STEP_KNOWN_STEP)
        printf("progress    step %" PRIu64, job->step);
    else
        printf("progress    unknown: the program reports no steps");
    if (job->total_steps)
        printf(" of %" PRIu64, job->total_steps);
    if (job_loss_known(job))
        printf(", loss %s", job_loss_text(job, text));
    if (job_rate_known(job))
        printf(", %s tokens/s", job_rate_text(job, text));
    putchar('\n');
}

/* Which Python the job brings: what begins each worker's PATH. */
static void show_python(const Muster__JobSpec *spec)
{
    for (size_t i = 0; i < spec->n_env; i++)
        if (strcmp(spec->env[i]->key, "VIRTUAL_ENV") == 0 ||
            strcmp(spec->env[i]->key, "CONDA_PREFIX") == 0)
            printf("python      %s/bin (%s)\n", spec->env[i]->value, spec->env[i]->key);
}

static void show_facts(const Muster__Job *job)
{
    char age[FORMAT_MAX], time[FORMAT_MAX];
    const char *word = job_word(job);
    printf("%s%s%s  %s\n", colour_bold(stdout), job->id, colour_off(stdout),
           job->spec ? job->spec->name : "");
    printf("state       %s%s%s", colour_of_state(stdout, word), word, colour_off(stdout));
    if (job->reason && job->reason->text[0]) {
        printf(": ");
        show_reason(job->reason);
    } else {
        putchar('\n');
    }
    for (size_t i = 0; i < job->n_warnings; i++)
        printf("warning     %s\n", job->warnings[i]);
    printf("generation  %" PRIu64 ", world %u, restarts %u, recoveries %" PRIu64, job->generation,
           job->world, job->restarts, job->recoveries);
    if (job->last_recovery_ms)
        printf(" (last %.2f s)", (double)job->last_recovery_ms / 1000);
    putchar('\n');
    show_progress(job);
    if (job->n_spares > 0 || (job->spec && job->spec->nodes && job->spec->nodes->spares)) {
        printf("spares      %zu of %u:", job->n_spares,
               job->spec && job->spec->nodes ? job->spec->nodes->spares : 0);
        for (size_t i = 0; i < job->n_spares; i++)
            printf(" %s", job->spares[i]);
        printf("%s\n", job->n_spares ? "" : " none is free, or the gang has less than its max");
    }
    if (job->last_checkpoint && job->last_checkpoint->path[0])
        printf("checkpoint  step %" PRIu64 ", %s\n", job->last_checkpoint->step,
               job->last_checkpoint->path);
    printf("submitted   %s (%s ago)\n", format_time(job->submitted_wall_ms, time),
           age_text(job->submitted_wall_ms, age));
    show_ledger(job->ledger);
    if (job->preempted_wall_ms)
        printf("waits again since %s%s%s\n", format_time(job->preempted_wall_ms, time),
               job->preempted_by[0] ? ": preempted by job " : "", job->preempted_by);
    if (job->signal_wall_ms)
        printf("signal      %s, sent %s\n", job->spec ? job->spec->signal : "",
               format_time(job->signal_wall_ms, time));
    else if (job->spec && job->spec->signal[0] && !job->ended_wall_ms)
        printf("signal      %s before max_runtime (%s) is over\n", job->spec->signal,
               job->spec->max_runtime);
    if (job->starts_wall_ms)
        printf("starts      %s at the latest\n", format_time(job->starts_wall_ms, time));
    if (job->ended_wall_ms)
        printf("ended       %s, exit code %d\n", format_time(job->ended_wall_ms, time),
               job->exit_code);
    if (job->spec) {
        printf("command    ");
        for (size_t i = 0; i < job->spec->n_command; i++)
            print_word(job->spec->command[i]);
        putchar('\n');
        show_python(job->spec);
    }
}

static void worker_figures(struct table *table, const Muster__Worker *worker)
{
    if (worker->pid_known_case == MUSTER__WORKER__PID_KNOWN_PID)
        table_cell(table, "%" PRId64, worker->pid);
    else
        table_cell(table, "-");
    if (worker->step_known_case == MUSTER__WORKER__STEP_KNOWN_STEP)
        table_cell(table, "%" PRIu64, worker->step);
    else
        table_cell(table, "-");
}

static void show_workers(const Muster__Job *job)
{
    static const char *const titles[] = {">RANK", "NODE", "STATE", ">PID", ">STEP", "EXIT", NULL};
    struct table table;
    table_init(&table, titles);
    for (size_t i = 0; i < job->n_workers; i++) {
        const Muster__Worker *worker = job->workers[i];
        const char *state =
            transcode_enum_name(&muster__worker__state__descriptor, (int)worker->state);
        table_cell(&table, "%u", worker->rank);
        table_cell(&table, "%s", worker->node);
        table_cell(&table, "%s", state ? state : "unknown");
        worker_figures(&table, worker);
        table_cell(&table, "%s", worker->exit ? worker->exit->text : "");
    }
    if (table.count) {
        putchar('\n');
        table_print(&table, stdout, "");
    }
    table_fini(&table);
    for (size_t i = 0; i < job->n_workers; i++)
        if (job->workers[i]->reports_dropped)
            printf("rank %u: %" PRIu64 " reports were dropped, over a limit of docs/report.md\n",
                   job->workers[i]->rank, job->workers[i]->reports_dropped);
}

/* Who is beside which worker now: `muster shell`, `exec` and `forward`. */
static void show_channels(const Muster__ListChannelsAnswer *answer)
{
    static const char *const titles[] = {">RANK", "NODE", "OPEN", "BY", "SINCE", NULL};
    struct table table;
    char age[FORMAT_MAX];
    table_init(&table, titles);
    for (size_t i = 0; i < answer->n_channels; i++) {
        const Muster__Channel *channel = answer->channels[i];
        table_cell(&table, "%u", channel->rank);
        table_cell(&table, "%s", channel->node);
        table_cell(&table, "%s", channel->what);
        table_cell(&table, "%s", channel->user[0] ? channel->user : "-");
        table_cell(&table, "%s ago", age_text(channel->opened_wall_ms, age));
    }
    if (table.count) {
        putchar('\n');
        table_print(&table, stdout, "");
    }
    table_fini(&table);
}

static int print_channels(const struct args *args, struct client *client, const Muster__Job *job)
{
    Muster__ListChannelsRequest request = MUSTER__LIST_CHANNELS_REQUEST__INIT;
    Muster__ListChannelsAnswer *answer = NULL;
    struct error err = {0};
    request.id = job->id;
    if (client_call(client, "ListChannels", &request, NULL, &answer, &err))
        return err.code == E_UNIMPLEMENTED ? EXIT_DONE : client_fail(&err); /* an older one's */
    if (!client_printed(args, answer))
        show_channels(answer);
    rpc_message_free(answer);
    return EXIT_DONE;
}

static int run_show(const struct args *args)
{
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    Muster__Job *job = NULL;
    struct client client = {0};
    struct error err = {0};
    int code = EXIT_DONE;
    request.id = (char *)args_text(args, "job");
    bool ranks = args_flag(args, "ranks");
    if (client_open(args, &client, &err) ||
        (!ranks && client_call(&client, "GetJob", &request, NULL, &job, &err))) {
        code = client_fail(&err);
    } else if (ranks) {
        code = rank_table_show(args, &client, request.id);
    } else if (!client_printed(args, job)) {
        show_facts(job);
        show_workers(job);
        if (!job->ended_wall_ms)
            code = print_channels(args, &client, job);
    }
    rpc_message_free(job);
    client_close(&client);
    return code;
}

/* The first reason has its sentence, with a hint. */
static void show_summary(const Muster__WhyJobAnswer *answer)
{
    const char *text = answer->n_reasons ? answer->reasons[0]->text : "";
    size_t size = strlen(answer->summary), tail = strlen(text);
    bool repeats = tail && size > tail && strcmp(answer->summary + size - tail, text) == 0;
    printf("%.*s\n", repeats ? (int)(size - tail - 1) : (int)size, answer->summary);
}

static int run_why(const struct args *args)
{
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    Muster__WhyJobAnswer *answer = NULL;
    request.id = (char *)args_text(args, "job");
    int code = client_ask(args, "WhyJob", &request, &answer);
    if (code != 0)
        return code;
    if (!client_printed(args, answer)) {
        char time[FORMAT_MAX];
        show_summary(answer);
        for (size_t i = 0; i < answer->n_reasons; i++) {
            printf("  %2zu. ", i + 1);
            show_reason(answer->reasons[i]);
        }
        for (size_t i = 0; i < answer->n_history; i++) {
            const Muster__Event *event = answer->history[i];
            printf("  %s%s%s %s%s%s%s %s\n", colour_dim(stdout), format_time(event->wall_ms, time),
                   colour_off(stdout), event->to[0] ? event->from : event->kind,
                   event->from[0] && event->to[0] ? " → " : "", event->to, event->reason ? ":" : "",
                   event->reason ? event->reason->text : "");
        }
    }
    rpc_message_free(answer);
    return EXIT_DONE;
}

const struct verb verb_show = {.name = "show", .command = &show_command, .run = run_show};
const struct verb verb_why = {.name = "why", .command = &why_command, .run = run_why};
