/* muster top: nodes and active jobs, again and again */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/escape.h"
#include "cli/gpu_text.h"
#include "cli/job_text.h"
#include "cli/table.h"
#include "cli/top_screen.h"
#include "common/rpc/message.h"

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    {.name = "interval",
     .letter = 'i',
     .kind = ARGS_OPTION,
     .type = ARGS_DURATION,
     .fallback = "1s",
     .value_name = "TIME",
     .help = "time between two updates"},
    {.name = "count",
     .letter = 'n',
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 1,
     .max = INT32_MAX,
     .help = "stop after N updates (one, unless on a terminal)"},
    {0},
};
static const char *const examples[] = {"muster top", NULL};
static const struct args_command command = {
    .program = "muster top",
    .summary = "nodes and active jobs, live",
    .description = "On a terminal it runs until q or Ctrl-C.",
    .options = options,
    .examples = examples,
};

static void print_nodes(FILE *out, const Muster__ListNodesAnswer *answer)
{
    static const char *const titles[] = {"NODE", "STATE",       ">SLOTS", ">CPUS", ">MEMORY",
                                         ">GPU", ">GPU MEMORY", ">SEEN",  "JOBS",  NULL};
    char used[FORMAT_MAX], whole[FORMAT_MAX], age[FORMAT_MAX], gpus[GPU_TEXT_MAX];
    struct table table;
    table_init(&table, titles);
    for (size_t i = 0; i < answer->n_nodes; i++) {
        const Muster__Node *node = answer->nodes[i];
        table_cell(&table, "%s", node->name);
        table_cell(&table, "%s",
                   transcode_enum_name(&muster__node__state__descriptor, (int)node->state));
        table_cell(&table, "%u/%u", node->slots_used, node->slots);
        table_cell(&table, "%.3g/%.3g", node->cpus_used, node->cpus);
        table_cell(&table, "%s/%s", format_bytes(node->memory_used_bytes, used),
                   format_bytes(node->memory_bytes, whole));
        table_cell(&table, "%s", gpu_used_text(node, gpus));
        table_cell(&table, "%s", gpu_memory_text(node, gpus));
        table_cell(&table, "%s", age_text(node->seen_wall_ms, age));
        table_cell(&table, "%zu", node->n_jobs);
    }
    table_print(&table, out, "no nodes; `muster agent` on a machine joins it");
    table_fini(&table);
    for (size_t i = 0; i < answer->n_nodes; i++)
        gpu_tell_faults(answer->nodes[i], out);
}

static void print_jobs(FILE *out, const Muster__ListJobsAnswer *answer)
{
    static const char *const titles[] = {"JOB",   "NAME",   "TENANT", "STATE",  ">WORLD", ">STEP",
                                         ">LOSS", ">TOK/S", ">AGE",   "REASON", NULL};
    char text[FORMAT_MAX], age[FORMAT_MAX];
    struct table table;
    table_init(&table, titles);
    for (size_t i = 0; i < answer->n_jobs; i++) {
        const Muster__Job *job = answer->jobs[i];
        table_cell(&table, "%s", job->id);
        table_cell(&table, "%s", job->spec ? job->spec->name : "");
        table_cell(&table, "%s", job->spec ? job->spec->tenant : "");
        table_cell(&table, "%s", job_word(job));
        table_cell(&table, "%u", job->world);
        table_cell(&table, "%s", job_step_text(job, text));
        table_cell(&table, "%s", job_loss_text(job, text));
        table_cell(&table, "%s", job_rate_text(job, text));
        table_cell(&table, "%s", age_text(job->submitted_wall_ms, age));
        table_cell(&table, "%.48s", job->reason ? job->reason->text : "");
    }
    table_print(&table, out, "no active jobs");
    table_fini(&table);
}

/* `*text` is malloc'd; NULL without memory. */
static void write_picture(Muster__ListNodesAnswer *nodes, Muster__ListJobsAnswer *jobs, char **text)
{
    size_t size = 0;
    FILE *out = open_memstream(text, &size);
    escape_message(nodes);
    escape_message(jobs);
    if (!out)
        return;
    client_tell_refused(out, nodes->changes_refused);
    print_nodes(out, nodes);
    fputc('\n', out);
    print_jobs(out, jobs);
    if (fclose(out)) {
        free(*text);
        *text = NULL;
    }
}

/* Draws, and keeps the picture in place of the last one. */
static int show_picture(struct client *client, const struct top_screen *screen, char **text,
                        struct error *err)
{
    Muster__ListNodesRequest ask_nodes = MUSTER__LIST_NODES_REQUEST__INIT;
    Muster__ListJobsRequest ask_jobs = MUSTER__LIST_JOBS_REQUEST__INIT;
    Muster__ListNodesAnswer *nodes = NULL;
    Muster__ListJobsAnswer *jobs = NULL;
    ask_jobs.state = (char *)"active";
    int rc = client_call(client, "ListNodes", &ask_nodes, NULL, &nodes, err);
    if (!rc)
        rc = client_call(client, "ListJobs", &ask_jobs, NULL, &jobs, err);
    if (!rc) {
        free(*text);
        *text = NULL;
        write_picture(nodes, jobs, text);
        top_screen_draw(screen, *text ? *text : "");
    }
    rpc_message_free(nodes);
    rpc_message_free(jobs);
    return rc;
}

enum { EXIT_INTERRUPTED = 130 };

static volatile sig_atomic_t ended;

static void on_end(int signal)
{
    (void)signal;
    ended = 1;
}

struct keys { /* the terminal, which returns each key at once meanwhile */
    bool open;
    struct termios before;
    struct sigaction interrupt, terminate;
};

static void keys_open(struct keys *keys)
{
    struct sigaction action = {.sa_handler = on_end};
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &keys->before) < 0)
        return;
    struct termios raw = keys->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    sigaction(SIGINT, &action, &keys->interrupt);
    sigaction(SIGTERM, &action, &keys->terminate);
    keys->open = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static void keys_close(struct keys *keys)
{
    if (!keys->open)
        return;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &keys->before);
    sigaction(SIGINT, &keys->interrupt, NULL);
    sigaction(SIGTERM, &keys->terminate, NULL);
}

/* Until the next picture; false after q or a signal. Other keys ask for it now. */
static bool pause_for(struct keys *keys, int64_t ms)
{
    struct pollfd wait = {.fd = keys->open ? STDIN_FILENO : -1, .events = POLLIN};
    char key = 0;
    int count = poll(&wait, 1, ms > INT32_MAX ? INT32_MAX : (int)ms);
    if (count > 0 && read(STDIN_FILENO, &key, 1) <= 0) { /* the terminal was closed */
        keys_close(keys);
        keys->open = false;
    }
    return !ended && key != 'q' && key != 'Q';
}

static int run_top(const struct args *args)
{
    struct client client = {0};
    struct error err = {0};
    struct keys keys = {0};
    struct top_screen screen = {0};
    char *text = NULL;
    if (client_open(args, &client, &err))
        return client_fail(&err);
    bool terminal = isatty(STDOUT_FILENO);
    int64_t left = args_given(args, "count") ? args_integer(args, "count")
                   : terminal                ? INT64_MAX
                                             : 1;
    int64_t interval_ms = args_integer(args, "interval");
    if (terminal)
        keys_open(&keys);
    top_screen_enter(&screen);
    int rc = show_picture(&client, &screen, &text, &err);
    while (!rc && --left > 0 && pause_for(&keys, interval_ms))
        rc = show_picture(&client, &screen, &text, &err);
    top_screen_leave(&screen);
    if (terminal && text)
        fputs(text, stdout); /* the last one stays */
    keys_close(&keys);
    client_close(&client);
    free(text);
    int code = rc ? client_fail(&err) : 0;
    return ended ? EXIT_INTERRUPTED : code;
}

const struct verb verb_top = {.name = "top", .command = &command, .run = run_top};
