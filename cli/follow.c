#include "cli/follow.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "cli/escape.h"
#include "cli/job_text.h"
#include "cli/progress_bar.h"
#include "cli/table.h"
#include "common/base/str.h"
#include "common/rpc/message.h"

enum {
    CALL_MS = 10000, /* of a call that waits for news */
    TURN_MS = 100,   /* how soon Ctrl-C is obeyed */
    BAR_MS = 1000,   /* between two looks at the progress */
    LINES_MAX_BYTES = 256 << 10,
    EXIT_INTERRUPTED = 130,
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

struct follower {
    struct client *client;
    struct follow *how;
    Muster__GetLogsRequest logs;
    Muster__ListEventsRequest events;
    bool logs_wait, events_wait, job_waits; /* a call is under way */
    bool logs_ended;
    int64_t bar_due_ms;
    struct error err;         /* of a call, if it ends everything */
    struct progress_bar bar;  /* below the output */
    Muster__Job__State state; /* last printed */
    char waits_for[64];       /* kind of the last printed reason of a queued job */
    uint64_t generation;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What happens to the job, and how far it is */

static struct progress progress_of(const Muster__Job *job)
{
    struct progress progress = {.runs = job->state == MUSTER__JOB__STATE__running &&
                                        job->stalled_wall_ms == 0,
                                .step_known = job->step_known_case != 0,
                                .generation = job->generation,
                                .step = job->step,
                                .total_steps = job->total_steps,
                                .world = job->world};
    (void)str_copy(progress.word, sizeof(progress.word), job_word(job));
    if (progress.step_known)
        job_step_text(job, progress.steps);
    if (job_loss_known(job))
        job_loss_text(job, progress.loss);
    if (job_rate_known(job))
        job_rate_text(job, progress.rate);
    return progress;
}

static bool is_end(Muster__Job__State state)
{
    return state >= MUSTER__JOB__STATE__succeeded;
}

struct happening { /* the job entered a state */
    Muster__Job__State state;
    uint64_t generation;
    uint32_t world;
    const char *text;
};

/* Not that of a job that failed though none of its programs did. */
static bool is_code_of_program(const Muster__Job *job)
{
    return job->exit_code &&
           (job->state == MUSTER__JOB__STATE__cancelled || (job->reason && job->reason->rank >= 0));
}

static int exit_code_of(const struct follower *f, const Muster__Job *job)
{
    if (job->state == MUSTER__JOB__STATE__succeeded)
        return EXIT_DONE;
    if (!f->how->exit_code)
        return EXIT_JOB_FAILED;
    return is_code_of_program(job) ? job->exit_code : EXIT_OWN_FAILURE;
}

static void tell(struct follower *f, const struct happening *what, const Muster__Job *ended)
{
    if (f->how->quiet || (what->state == f->state && what->generation == f->generation))
        return;
    const char *word = job_state_word(what->state);
    progress_bar_hide(&f->bar);
    fflush(stdout);
    fprintf(stderr, "%s%s%s: %s", colour_of_state(stderr, word), word, colour_off(stderr),
            f->how->id);
    if (what->generation)
        fprintf(stderr, ", generation %" PRIu64, what->generation);
    if (what->world)
        fprintf(stderr, ", world %u", what->world);
    if (ended && is_code_of_program(ended))
        fprintf(stderr, ", exit code %d", ended->exit_code);
    else if (ended && f->how->exit_code && exit_code_of(f, ended) != EXIT_DONE)
        fprintf(stderr, ", exit code %d", exit_code_of(f, ended));
    fprintf(stderr, "%s%s\n", what->text[0] ? ": " : "", what->text);
    f->state = what->state;
    f->generation = what->generation;
    progress_bar_draw(&f->bar, now_ms());
}

static void tell_job(struct follower *f, const Muster__Job *job)
{
    struct happening what = {.state = job->state,
                             .generation = job->generation,
                             .world = job->world,
                             .text = job->reason ? job->reason->text : ""};
    tell(f, &what, is_end(job->state) ? job : NULL);
    if (job->reason)
        (void)str_copy(f->waits_for, sizeof(f->waits_for), job->reason->kind);
}

/* Its submission is not printed. The job's state reports the end, after its last line. */
static void tell_event(struct follower *f, const Muster__Event *event)
{
    const ProtobufCEnumValue *state =
        protobuf_c_enum_descriptor_get_value_by_name(&muster__job__state__descriptor, event->to);
    bool submitted = !event->from[0];
    if (strcmp(event->kind, "job_state") != 0 || !state || is_end(state->value) || submitted)
        return;
    struct happening what = {.state = state->value,
                             .generation = event->generation,
                             .world = event->world,
                             .text = event->reason ? event->reason->text : ""};
    tell(f, &what, NULL);
    if (event->reason)
        (void)str_copy(f->waits_for, sizeof(f->waits_for), event->reason->kind);
}

/* No event has the reason why a queued job waits. */
static void tell_waiting(struct follower *f, const Muster__Job *job)
{
    const char *kind = job->reason ? job->reason->kind : "";
    if (job->state != MUSTER__JOB__STATE__queued || f->state > MUSTER__JOB__STATE__queued ||
        strcmp(kind, f->waits_for) == 0 || strcmp(kind, "submitted") == 0)
        return;
    f->state = MUSTER__JOB__STATE__unknown;
    tell_job(f, job);
}

static void take_events(struct follower *f, const Muster__ListEventsAnswer *answer)
{
    for (size_t i = 0; i < answer->n_events; i++)
        if (answer->events[i]->seq > f->events.after)
            tell_event(f, answer->events[i]);
    if (answer->next > f->events.after)
        f->events.after = answer->next;
}

/* Calls under way */

/* True for an answer. A coordinator that does not answer is being restarted: ask it again. */
static bool usable(struct follower *f, const struct error *err)
{
    bool passes =
        err->code == E_UNAVAILABLE || err->code == E_DEADLINE_EXCEEDED || err->code == E_CANCELLED;
    if (err->code != 0 && !passes && f->err.code == 0)
        f->err = *err;
    return err->code == 0;
}

static void on_logs(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct follower *f = arg;
    const Muster__GetLogsAnswer *answer = (const void *)message;
    f->logs_wait = false;
    if (!usable(f, err))
        return;
    if (answer->n_lines)
        progress_bar_hide(&f->bar);
    for (size_t i = 0; i < answer->n_lines; i++)
        log_line_print(&f->how->printer, answer->lines[i]);
    fflush(stdout);
    if (answer->n_lines && !answer->ended)
        progress_bar_draw(&f->bar, now_ms());
    f->logs.cursor = answer->cursor;
    f->logs.tail_lines = 0;
    f->logs_ended = answer->ended;
}

static void on_events(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct follower *f = arg;
    f->events_wait = false;
    escape_message((void *)(uintptr_t)message);
    if (usable(f, err))
        take_events(f, (const void *)message);
}

static void on_job(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    escape_message((void *)(uintptr_t)message);
    struct follower *f = arg;
    const Muster__Job *job = (const void *)message;
    f->job_waits = false;
    f->bar_due_ms = now_ms() + BAR_MS;
    if (!usable(f, err) || is_end(job->state))
        return;
    tell_waiting(f, job);
    struct progress progress = progress_of(job);
    progress_bar_hear(&f->bar, &progress, now_ms());
}

static void start_call(struct follower *f, const char *method, const void *request, rpc_done done,
                       bool *ret_waits)
{
    struct rpc_sync_start how = {
        .options = {.timeout_ms = CALL_MS, .retry = true}, .done = done, .arg = f};
    if (*ret_waits || f->err.code)
        return;
    *ret_waits = !rpc_sync_start(f->client->rpc, &muster__coordinator__descriptor, method, request,
                                 &how, &f->err);
}

static void follow_lines_and_events(struct follower *f)
{
    Muster__GetJobRequest job = MUSTER__GET_JOB_REQUEST__INIT;
    job.id = f->logs.id;
    while (!f->err.code && !interrupted && !f->logs_ended) {
        start_call(f, "GetLogs", &f->logs, on_logs, &f->logs_wait);
        if (!f->how->quiet)
            start_call(f, "ListEvents", &f->events, on_events, &f->events_wait);
        bool waits = !f->how->quiet && f->state <= MUSTER__JOB__STATE__queued;
        if ((f->bar.out || waits) && now_ms() >= f->bar_due_ms)
            start_call(f, "GetJob", &job, on_job, &f->job_waits);
        rpc_sync_wait(f->client->rpc, TURN_MS);
        progress_bar_turn(&f->bar, now_ms());
    }
    rpc_sync_cancel(f->client->rpc, f);
    progress_bar_end(&f->bar);
}

/* The first and the last word */

/* One call that waits until a coordinator that is being restarted is there again. */
static int call_until_answered(struct follower *f, const char *method, const void *request,
                               void *ret_answer)
{
    struct rpc_options options = {.timeout_ms = CALL_MS, .retry = true};
    struct error err = {0};
    int rc;
    do
        rc = client_call(f->client, method, request, &options, ret_answer, &err);
    while ((rc == E_UNAVAILABLE || rc == E_DEADLINE_EXCEEDED) && !interrupted);
    if (!rc)
        escape_message(*(void **)ret_answer);
    if (rc && !interrupted)
        f->err = err;
    return rc;
}

static Muster__Job *ask_job(struct follower *f)
{
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    Muster__Job *job = NULL;
    request.id = f->logs.id;
    return call_until_answered(f, "GetJob", &request, &job) ? NULL : job;
}

/* Earlier events count as printed; only the present state is printed. */
static void begin_at_present(struct follower *f)
{
    Muster__ListEventsRequest request = MUSTER__LIST_EVENTS_REQUEST__INIT;
    Muster__ListEventsAnswer *answer = NULL;
    request.job = f->logs.id;
    request.newest = true;
    request.limit = 1;
    if (call_until_answered(f, "ListEvents", &request, &answer))
        return;
    f->events.after = answer->n_events ? answer->events[answer->n_events - 1]->seq : 0;
    rpc_message_free(answer);
    Muster__Job *job = ask_job(f);
    if (job && !is_end(job->state))
        tell_job(f, job);
    rpc_message_free(job);
}

static void take_last_events(struct follower *f)
{
    Muster__ListEventsRequest request = f->events;
    Muster__ListEventsAnswer *answer = NULL;
    request.follow = false;
    for (bool more = !f->how->quiet; more; rpc_message_free(answer), answer = NULL) {
        request.after = f->events.after;
        if (call_until_answered(f, "ListEvents", &request, &answer))
            return;
        more = answer->n_events > 0;
        take_events(f, answer);
    }
}

static int tell_end(struct follower *f)
{
    take_last_events(f);
    Muster__Job *job = f->err.code ? NULL : ask_job(f);
    if (!job)
        return EXIT_INTERRUPTED;
    tell_job(f, job);
    int code = exit_code_of(f, job);
    if (code != EXIT_DONE && !f->how->quiet && job->reason && job->reason->hint[0])
        fprintf(stderr, "        %s\n", job->reason->hint);
    rpc_message_free(job);
    return code;
}

int follow_job(struct client *client, struct follow *how)
{
    struct follower f = {.client = client,
                         .how = how,
                         .logs = MUSTER__GET_LOGS_REQUEST__INIT,
                         .events = MUSTER__LIST_EVENTS_REQUEST__INIT};
    if (!how->quiet)
        progress_bar_init(&f.bar, stderr);
    f.logs.id = f.events.job = (char *)(uintptr_t)how->id;
    f.logs.rank = how->rank;
    f.logs.tail_lines = (uint32_t)how->tail_lines;
    f.logs.max_bytes = LINES_MAX_BYTES;
    f.logs.follow = f.events.follow = true;
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    sigaction(SIGINT, &action, &before);
    if (!how->past && !how->quiet)
        begin_at_present(&f);
    follow_lines_and_events(&f);
    int code = f.logs_ended ? tell_end(&f) : EXIT_INTERRUPTED;
    sigaction(SIGINT, &before, NULL);
    if (f.err.code) {
        code = client_fail(&f.err);
        return how->exit_code ? EXIT_OWN_FAILURE : code;
    }
    if (!f.logs_ended)
        fprintf(stderr,
                "\n"
                "%s continues: `muster logs -f %s` follows it, `muster cancel %s` ends it\n",
                how->id, how->id, how->id);
    return code;
}
