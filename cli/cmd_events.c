/* muster events: what happened, with reasons */
#include <inttypes.h>
#include <string.h>

#include "cli/client.h"
#include "cli/last_words.h"
#include "cli/replay.h"
#include "cli/table.h"
#include "common/base/parse.h"
#include "common/rpc/message.h"

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "follow",
     .letter = 'f',
     .kind = ARGS_FLAG,
     .help = "wait for more; -o json then prints each event as JSON on a line of its own"},
    {.name = "after",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 0,
     .max = INT64_MAX,
     .fallback = "0",
     .value_name = "SEQ",
     .help = "only events after this number"},
    {.name = "audit",
     .kind = ARGS_FLAG,
     .help = "show who changed what instead (admins): the newest 1000, or those after --after"},
    REPLAY_OPTIONS,
    {.name = "job", .kind = ARGS_POSITIONAL, .help = "id or name; without it the whole cluster"},
    {0},
};
static const char *const examples[] = {
    "muster events -f gpt-kjv",
    "muster events --replay --at 3500",
    "muster events --replay --data /backup/muster-2026-11-20.db --json",
    NULL,
};
static const struct args_command command = {
    .program = "muster events",
    .summary = "the event log of a job or the cluster, and the states it led to",
    .options = options,
    .examples = examples,
};

static void print_event(const Muster__Event *event)
{
    char time[FORMAT_MAX];
    printf("%s%6" PRIu64 " %s%s %-14s", colour_dim(stdout), event->seq,
           format_time(event->wall_ms, time), colour_off(stdout), event->kind);
    if (event->job[0])
        printf(" %s", event->job);
    if (event->node[0])
        printf(" %s", event->node);
    if (event->generation)
        printf(" g%" PRIu64, event->generation);
    if (event->to[0])
        printf(" %s%s%s%s%s", event->from, event->from[0] ? " → " : "",
               colour_of_state(stdout, event->to), event->to, colour_off(stdout));
    if (event->reason && event->reason->text[0])
        printf(": %s", event->reason->text);
    putchar('\n');
    if (event->reason)
        print_last_words(stdout, "       ", event->reason->output);
}

static void print_entry(const Muster__AuditEntry *entry)
{
    char time[FORMAT_MAX];
    printf("%s%6" PRIu64 " %s%s %s (%s%s%s", colour_dim(stdout), entry->seq,
           format_time(entry->wall_ms, time), colour_off(stdout), entry->token_name, entry->role,
           entry->tenant[0] ? " of " : "", entry->tenant);
    printf(", %s%s%s) %s", entry->carrier, entry->peer[0] ? " from " : "", entry->peer,
           entry->method);
    if (entry->object[0])
        printf(" %s", entry->object);
    printf(": %s%s%s\n", entry->result, entry->text[0] ? ", " : "", entry->text);
}

static int run_audit(const struct args *args)
{
    Muster__ListAuditRequest request = MUSTER__LIST_AUDIT_REQUEST__INIT;
    Muster__ListAuditAnswer *answer = NULL;
    request.after = (uint64_t)args_integer(args, "after");
    request.newest = request.after == 0;
    request.limit = 1000;
    int code = client_ask(args, "ListAudit", &request, &answer);
    if (code == 0 && !client_printed(args, answer))
        for (size_t i = 0; i < answer->n_entries; i++)
            print_entry(answer->entries[i]);
    rpc_message_free(answer);
    return code;
}

/* Each event is a document of its own, for programs that read line by line. */
static void print_events(const struct args *args, const Muster__ListEventsAnswer *answer)
{
    const char *format = args_text(args, "output");
    bool plain = strcmp(format, "table") == 0, follow = args_flag(args, "follow");
    if (plain || !follow)
        client_printed(args, answer); /* or escaped */
    for (size_t i = 0; (plain || follow) && i < answer->n_events; i++) {
        if (plain)
            print_event(answer->events[i]);
        else
            client_print_item(format, answer->events[i]);
    }
}

static int run_events(const struct args *args)
{
    if (args_flag(args, "replay"))
        return replay_run(args);
    if (args_flag(args, "audit"))
        return run_audit(args);
    struct client client = {0};
    struct error err = {0};
    if (client_open(args, &client, &err))
        return client_fail(&err);
    Muster__ListEventsRequest request = MUSTER__LIST_EVENTS_REQUEST__INIT;
    Muster__Job *job = NULL;
    const char *id = args_text(args, "job");
    int code = id ? client_job(&client, id, &job) : 0;
    request.job = job ? job->id : (char *)"";
    request.after = (uint64_t)args_integer(args, "after");
    request.limit = 1000;
    request.follow = args_flag(args, "follow");
    bool more = code == 0;
    while (more) {
        Muster__ListEventsAnswer *answer = NULL;
        struct rpc_options options_call = {.timeout_ms = 15000, .retry = true};
        int rc = client_call(&client, "ListEvents", &request, &options_call, &answer, &err);
        if (rc && request.follow && (rc == E_DEADLINE_EXCEEDED || rc == E_UNAVAILABLE))
            continue;
        if (rc) {
            code = client_fail(&err);
            break;
        }
        print_events(args, answer);
        fflush(stdout);
        more = request.follow || answer->n_events == request.limit;
        request.after = answer->next;
        rpc_message_free(answer);
    }
    rpc_message_free(job);
    client_close(&client);
    return code;
}

const struct verb verb_events = {.name = "events", .command = &command, .run = run_events};
