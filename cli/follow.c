#include "cli/follow.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/job_text.h"
#include "cli/table.h"
#include "common/base/parse.h"
#include "common/rpc/message.h"

enum { TURN_MS = 1000, LINES_MAX_BYTES = 256 << 10, BAR_CELLS = 24 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

struct screen { /* what is on the terminal below the log */
    bool terminal;
    bool bar_shown;
    Muster__Job__State state;
    uint64_t generation;
};

static void bar_hide(struct screen *screen)
{
    if (screen->bar_shown)
        fputs("\r\033[K", stderr);
    screen->bar_shown = false;
}

static void bar_show(struct screen *screen, const Muster__Job *job)
{
    if (!screen->terminal)
        return;
    char line[512], text[FORMAT_MAX], cells[BAR_CELLS * 3 + 1] = "";
    double part = job->total_steps ? (double)job->step / (double)job->total_steps : 0;
    for (int i = 0; i < BAR_CELLS && job->total_steps; i++)
        strncat(cells, (i + 0.5) / BAR_CELLS < part ? "█" : "░", 4);
    int n = snprintf(line, sizeof(line), "%s%s%s", cells, *cells ? " " : "", job_word(job));
    if (job->total_steps)
        n += snprintf(line + n, sizeof(line) - (size_t)n, "  step %" PRIu64 "/%" PRIu64, job->step,
                      job->total_steps);
    if (job_loss_known(job))
        n += snprintf(line + n, sizeof(line) - (size_t)n, "  loss %s", job_loss_text(job, text));
    if (job_rate_known(job))
        n += snprintf(line + n, sizeof(line) - (size_t)n, "  %s tok/s", job_rate_text(job, text));
    if (job->world)
        snprintf(line + n, sizeof(line) - (size_t)n, "  world %u", job->world);
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
    screen->bar_shown = true;
}

void print_log_line(const Muster__LogLine *line, bool show_rank)
{
    if (show_rank)
        printf("%s[%u]%s ", colour_dim(stdout), line->rank, colour_off(stdout));
    puts(line->text);
}

static void tell_changes(struct screen *screen, const Muster__Job *job)
{
    if (job->state == screen->state && job->generation == screen->generation)
        return;
    const char *word = job_state_word(job->state);
    fprintf(stderr, "%s%s%s: %s", colour_of_state(stderr, word), word, colour_off(stderr), job->id);
    if (job->generation)
        fprintf(stderr, ", generation %" PRIu64 ", world %u", job->generation, job->world);
    if (job->reason && job->reason->text[0])
        fprintf(stderr, ": %s", job->reason->text);
    fputc('\n', stderr);
    screen->state = job->state;
    screen->generation = job->generation;
}

static int ending(const Muster__Job *job, bool quiet)
{
    bool good = job->state == MUSTER__JOB__STATE__succeeded;
    if (!good && job->reason && job->reason->hint[0] && !quiet)
        fprintf(stderr, "        %s\n", job->reason->hint);
    return good ? EXIT_DONE : EXIT_JOB_FAILED;
}

static bool ended(const Muster__Job *job)
{
    return job->state >= MUSTER__JOB__STATE__succeeded;
}

/* One round: new log lines (waiting for some), then the job. */
static int turn(struct client *client, const struct follow *how, Muster__GetLogsRequest *request,
                struct screen *screen, bool *ret_ended)
{
    struct error err = {0};
    Muster__GetLogsAnswer *logs = NULL;
    struct rpc_options options = {.timeout_ms = TURN_MS, .retry = true};
    int rc = client_call(client, "GetLogs", request, &options, &logs, &err);
    if (rc == E_UNAVAILABLE || rc == E_DEADLINE_EXCEEDED)
        return 0; /* the coordinator is being restarted: go on when it is back */
    if (rc != 0)
        return client_fail(&err);
    if (logs->n_lines || !screen->terminal)
        bar_hide(screen);
    for (size_t i = 0; i < logs->n_lines; i++)
        print_log_line(logs->lines[i], how->show_rank);
    fflush(stdout);
    request->cursor = logs->cursor;
    request->tail_lines = 0;
    *ret_ended = logs->ended;
    rpc_message_free(logs);
    return 0;
}

static int look(struct client *client, const struct follow *how, struct screen *screen,
                bool *ret_ended, int *ret_code)
{
    struct error err = {0};
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    struct rpc_options options = {.timeout_ms = TURN_MS * 3, .retry = true};
    Muster__Job *job = NULL;
    request.id = (char *)how->id;
    int rc = client_call(client, "GetJob", &request, &options, &job, &err);
    if (rc == E_UNAVAILABLE || rc == E_DEADLINE_EXCEEDED)
        return 0;
    if (rc != 0)
        return client_fail(&err);
    if (!how->quiet) {
        if (job->state != screen->state || job->generation != screen->generation)
            bar_hide(screen);
        tell_changes(screen, job);
        if (!ended(job))
            bar_show(screen, job);
    }
    *ret_ended = ended(job);
    if (*ret_ended)
        *ret_code = ending(job, how->quiet);
    rpc_message_free(job);
    return 0;
}

int follow_job(struct client *client, const struct follow *how)
{
    struct screen screen = {.terminal = isatty(STDERR_FILENO) && !how->quiet};
    Muster__GetLogsRequest request = MUSTER__GET_LOGS_REQUEST__INIT;
    request.id = (char *)how->id;
    request.rank = how->rank;
    request.tail_lines = (uint32_t)how->tail_lines;
    request.follow = true;
    request.max_bytes = LINES_MAX_BYTES;
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    sigaction(SIGINT, &action, &before);
    bool job_ended = false, logs_ended = false;
    int code = EXIT_DONE, failed = 0;
    while (!failed && !interrupted && !(job_ended && logs_ended)) {
        failed = turn(client, how, &request, &screen, &logs_ended);
        if (!failed && !(job_ended && logs_ended))
            failed = look(client, how, &screen, &job_ended, &code);
    }
    bar_hide(&screen);
    sigaction(SIGINT, &before, NULL);
    if (failed)
        return failed;
    if (interrupted && !job_ended) {
        fprintf(stderr,
                "\n%s goes on without you: `muster logs -f %s` follows it, `muster cancel %s` "
                "ends it\n",
                how->id, how->id, how->id);
        return 130;
    }
    return code;
}
