/* Channels: who may open and use them, what ends them, and what stays on record. Red's member has a
 * job that runs on n1; blue is another tenant. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/str.h"
#include "coordinator/relay/relay.h"
#include "tests/unit/coordinator_api/access_world.h"

enum { MINUTE_MS = 60000, ID_MAX = 64 };

static uint64_t sequence;

static void poll_node(uint64_t known, struct answer *ret)
{
    Muster__NodePollRequest message = poll_message(0);
    message.terminals_version = known;
    agent(&world, "Poll", &message, ret);
}

/* n1 reports red's worker in that state. */
static void report(Muster__Worker__State state)
{
    struct answer answer, poll;
    poll_node(0, &poll);
    const Muster__NodePollAnswer *wanted = (const void *)poll.message;
    Muster__WorkerStatus status = MUSTER__WORKER_STATUS__INIT, *list[] = {&status};
    Muster__Exit exit = MUSTER__EXIT__INIT;
    Muster__NodeReport message = MUSTER__NODE_REPORT__INIT;
    message.node = "n1";
    message.incarnation = 7;
    message.sequence = ++sequence;
    if (wanted->n_assignments > 0) {
        status.job = wanted->assignments[0]->job;
        status.uid = wanted->assignments[0]->uid;
        status.generation = wanted->assignments[0]->generation;
        status.pid = 42;
        status.state = state;
        status.exit = state == MUSTER__WORKER__STATE__exited ? &exit : NULL;
        message.workers = list;
        message.n_workers = 1;
    }
    agent(&world, "Report", &message, &answer);
    answer_fini(&answer);
    answer_fini(&poll);
}

static void channels_init(void)
{
    sequence = 0;
    access_init();
    report(MUSTER__WORKER__STATE__joined);
}

TestSuite(channels, .init = channels_init, .fini = access_fini, .timeout = 60);

static Muster__OpenChannelRequest shell_of(const char *job)
{
    Muster__OpenChannelRequest message = MUSTER__OPEN_CHANNEL_REQUEST__INIT;
    message.id = (char *)(uintptr_t)job;
    message.terminal = true;
    message.term = "xterm";
    message.rows = 40;
    message.columns = 100;
    return message;
}

static void open_as(const char *token, char ret_id[ID_MAX])
{
    struct answer answer;
    Muster__OpenChannelRequest message = shell_of(made.red_job);
    ask("OpenChannel", &message, token, &answer);
    cr_assert(answer.message, "%s", answer.err.text);
    (void)str_copy(ret_id, ID_MAX, ((Muster__Channel *)answer.message)->id);
    answer_fini(&answer);
}

static int open_code(Muster__OpenChannelRequest message, const char *token, struct error *ret)
{
    struct error err;
    return refusal("OpenChannel", &message, token, ret ? ret : &err);
}

static uint64_t send_as(const char *token, const char *id, uint64_t offset, const char *text)
{
    struct answer answer;
    Muster__SendChannelRequest message = MUSTER__SEND_CHANNEL_REQUEST__INIT;
    message.id = (char *)(uintptr_t)id;
    message.offset = offset;
    message.data.data = (uint8_t *)(uintptr_t)text;
    message.data.len = strlen(text);
    ask("SendChannel", &message, token, &answer);
    cr_assert(answer.message, "%s", answer.err.text);
    uint64_t accepted = ((Muster__SendChannelAnswer *)answer.message)->offset;
    answer_fini(&answer);
    return accepted;
}

static Muster__ReceiveTerminalRequest receive_message(const char *id)
{
    Muster__ReceiveTerminalRequest message = MUSTER__RECEIVE_TERMINAL_REQUEST__INIT;
    message.node = "n1";
    message.incarnation = 7;
    message.id = (char *)(uintptr_t)id;
    message.rows = 40;
    message.columns = 100;
    return message;
}

static Muster__SendTerminalRequest output_message(const char *id, uint64_t offset, const char *text)
{
    Muster__SendTerminalRequest message = MUSTER__SEND_TERMINAL_REQUEST__INIT;
    message.node = "n1";
    message.incarnation = 7;
    message.id = (char *)(uintptr_t)id;
    message.offset = offset;
    message.data.data = (uint8_t *)(uintptr_t)text;
    message.data.len = strlen(text);
    return message;
}

static void take(const char *id) /* by n1's agent */
{
    struct answer answer;
    Muster__SendTerminalRequest message = output_message(id, 0, "");
    agent(&world, "SendTerminal", &message, &answer);
    answer_fini(&answer);
}

/* Its end, if all output was read; waits for it. */
static void end_of(const char *token, const char *id, uint64_t offset, struct channel_end *ret)
{
    struct answer answer;
    Muster__ReceiveChannelRequest message = MUSTER__RECEIVE_CHANNEL_REQUEST__INIT;
    message.id = (char *)(uintptr_t)id;
    message.offset = offset;
    ask("ReceiveChannel", &message, token, &answer);
    cr_assert(answer.message, "%s", answer.err.text);
    const Muster__ReceiveChannelAnswer *got = (const void *)answer.message;
    cr_assert(got->end, "it is not over");
    *ret = (struct channel_end){
        .exited = got->end->exited, .code = got->end->code, .signal = got->end->signal};
    (void)str_copy(ret->text, sizeof(ret->text), got->end->text);
    answer_fini(&answer);
}

static size_t terminals_of_n1(uint64_t *version)
{
    struct answer answer;
    poll_node(*version, &answer);
    const Muster__NodePollAnswer *got = (const void *)answer.message;
    size_t count = got->n_terminals;
    *version = got->terminals_version;
    answer_fini(&answer);
    return count;
}

Test(channels, bytes_go_both_ways_and_a_repeated_call_does_no_harm)
{
    char id[ID_MAX];
    struct answer answer;
    struct channel_end end;
    open_as(made.red, id);
    uint64_t version = 1;
    cr_assert_eq(terminals_of_n1(&version), 1);
    cr_assert_eq(send_as(made.red, id, 0, "ls\n"), 3);
    cr_assert_eq(send_as(made.red, id, 0, "ls\n"), 3, "the answer was lost");
    Muster__ReceiveTerminalRequest receive = receive_message(id);
    const Muster__ReceiveTerminalAnswer *got = agent(&world, "ReceiveTerminal", &receive, &answer);
    cr_assert_eq(got->data.len, 3);
    cr_assert_eq(memcmp(got->data.data, "ls\n", 3), 0);
    answer_fini(&answer);
    Muster__SendTerminalRequest output = output_message(id, 0, "a b\n");
    Muster__ChannelEnd told = MUSTER__CHANNEL_END__INIT;
    told.exited = true;
    told.code = 3;
    output.end = &told;
    agent(&world, "SendTerminal", &output, &answer);
    answer_fini(&answer);
    Muster__ReceiveChannelRequest read = MUSTER__RECEIVE_CHANNEL_REQUEST__INIT;
    read.id = id;
    ask("ReceiveChannel", &read, made.red, &answer);
    const Muster__ReceiveChannelAnswer *out = (const void *)answer.message;
    cr_assert(out && out->data.len == 4 && !out->end, "bytes come before the end");
    answer_fini(&answer);
    end_of(made.red, id, 4, &end);
    cr_assert(end.exited && end.code == 3 && !end.text[0]);
    cr_assert_eq(terminals_of_n1(&version), 0);
    cr_assert_eq(version, 1, "as an agent without terminals");
}

Test(channels, a_key_stroke_wakes_its_receiver_at_once)
{
    char id[ID_MAX];
    struct answer waiting;
    open_as(made.red, id);
    Muster__ReceiveTerminalRequest receive = receive_message(id);
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = "ReceiveTerminal",
                        .message = &receive.base,
                        .token = world.agent,
                        .peer = 1};
    call_start(&world, &call, &waiting);
    world_run(&world, 500);
    cr_assert_not(waiting.done, "there is nothing yet");
    int64_t before_ms = world.now_ms;
    cr_assert_eq(send_as(made.red, id, 0, "x"), 1);
    while (!waiting.done)
        world_run(&world, 1);
    cr_assert_leq(world.now_ms - before_ms, 3);
    answer_fini(&waiting);
}

Test(channels, a_new_window_size_wakes_the_agent)
{
    char id[ID_MAX];
    struct answer waiting, answer;
    open_as(made.red, id);
    Muster__ReceiveTerminalRequest receive = receive_message(id);
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = "ReceiveTerminal",
                        .message = &receive.base,
                        .token = world.agent,
                        .peer = 1};
    call_start(&world, &call, &waiting);
    world_run(&world, 5);
    Muster__SendChannelRequest window = MUSTER__SEND_CHANNEL_REQUEST__INIT;
    window.id = id;
    window.rows = 50;
    window.columns = 132;
    ask("SendChannel", &window, made.red, &answer);
    answer_fini(&answer);
    world_run(&world, 5);
    cr_assert(waiting.done && waiting.message);
    const Muster__ReceiveTerminalAnswer *got = (const void *)waiting.message;
    cr_assert(got->rows == 50 && got->columns == 132);
    answer_fini(&waiting);
}

/* A receiver that does not read stops its sender. */
Test(channels, a_sender_waits_while_nobody_reads)
{
    static char data[32 << 10];
    char id[ID_MAX];
    struct answer first, second;
    open_as(made.red, id);
    memset(data, 'x', sizeof(data) - 1);
    for (uint64_t sent = 0; sent < 2; sent++) {
        Muster__SendTerminalRequest output = output_message(id, sent * (sizeof(data) - 1), data);
        agent(&world, "SendTerminal", &output, &first);
        answer_fini(&first);
    }
    Muster__SendTerminalRequest more = output_message(id, 2 * (sizeof(data) - 1), "yyyy");
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = "SendTerminal",
                        .message = &more.base,
                        .token = world.agent,
                        .peer = 1};
    call_start(&world, &call, &first);
    world_run(&world, 20);
    cr_assert(first.done, "2 bytes of it fit");
    cr_assert_eq(((Muster__SendTerminalAnswer *)first.message)->offset, RELAY_PIPE_BYTES);
    answer_fini(&first);
    more.offset = RELAY_PIPE_BYTES;
    call_start(&world, &call, &first);
    world_run(&world, 2000);
    cr_assert_not(first.done);
    Muster__ReceiveChannelRequest read = MUSTER__RECEIVE_CHANNEL_REQUEST__INIT;
    read.id = id;
    read.offset = 100;
    ask("ReceiveChannel", &read, made.red, &second);
    answer_fini(&second);
    world_run(&world, 5);
    cr_assert(first.done && first.message);
    cr_assert_eq(((Muster__SendTerminalAnswer *)first.message)->offset, RELAY_PIPE_BYTES + 4);
    answer_fini(&first);
}

Test(channels, are_opened_by_those_who_may_change_the_job)
{
    struct error err;
    struct store_audit entry;
    Muster__OpenChannelRequest message = shell_of(made.red_job);
    cr_assert_eq(open_code(message, made.viewer, &err), E_PERMISSION_DENIED);
    newest_entry(&entry);
    cr_assert_str_eq(entry.method, "OpenChannel");
    cr_assert_str_eq(entry.result, "PERMISSION_DENIED");
    cr_assert_eq(open_code(message, made.operator, & err), E_PERMISSION_DENIED);
    cr_assert_eq(open_code(message, made.revoked, &err), E_UNAUTHENTICATED);
    same_as_absent("OpenChannel", &message, &message.id, made.blue, made.red_job);
    cr_assert_eq(open_code(shell_of(made.blue_job), made.blue, &err), E_FAILED_PRECONDITION,
                 "it waits for the slot");
    char id[ID_MAX];
    open_as(made.red, id);
    open_as(world.admin, id);
}

/* The words for an id that is someone else's are those for one that is not there. */
static void expect_foreign(const char *method, void *message, const char *token)
{
    struct error err;
    cr_assert_eq(refusal(method, message, token, &err), E_NOT_FOUND, "%s", method);
    cr_assert_str_eq(err.text, "there is no such channel: it has ended, or the coordinator was "
                               "restarted");
}

Test(channels, are_used_only_by_the_token_that_opened_them)
{
    char id[ID_MAX], absent[] = "00000000000000000000000000000000";
    char *const ids[] = {id, absent};
    open_as(made.red, id);
    for (size_t i = 0; i < 2; i++) {
        Muster__SendChannelRequest send = MUSTER__SEND_CHANNEL_REQUEST__INIT;
        Muster__ReceiveChannelRequest receive = MUSTER__RECEIVE_CHANNEL_REQUEST__INIT;
        send.id = receive.id = ids[i];
        send.close = true;
        expect_foreign("SendChannel", &send, made.blue);
        expect_foreign("ReceiveChannel", &receive, made.blue);
        expect_foreign("SendChannel", &send, world.admin);
        expect_foreign("ReceiveChannel", &receive, world.admin);
    }
    cr_assert_eq(send_as(made.red, id, 0, "still"), 5);
}

static int terminal_code(const char *node, uint64_t incarnation, const char *id)
{
    struct answer answer;
    Muster__SendTerminalRequest message = output_message(id, 0, "forged");
    message.node = (char *)(uintptr_t)node;
    message.incarnation = incarnation;
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = "SendTerminal",
                        .message = &message.base,
                        .token = world.agent,
                        .peer = 2};
    call_now(&world, &call, &answer);
    int code = answer.err.code;
    answer_fini(&answer);
    return code;
}

Test(channels, are_served_only_by_the_agent_of_their_node)
{
    char id[ID_MAX];
    struct answer answer;
    open_as(made.red, id);
    Muster__RegisterNodeRequest other = MUSTER__REGISTER_NODE_REQUEST__INIT;
    other.name = "n2";
    other.incarnation = 8;
    other.address = "127.0.0.1";
    agent(&world, "RegisterNode", &other, &answer);
    answer_fini(&answer);
    cr_assert_eq(terminal_code("n2", 8, id), E_NOT_FOUND);
    cr_assert_eq(terminal_code("n1", 6, id), E_NOT_FOUND, "an earlier start of n1's agent");
    cr_assert_eq(terminal_code("n1", 7, id), 0);
}

Test(channels, show_what_a_caller_may_see)
{
    char id[ID_MAX];
    const char *const tokens[] = {made.red, made.viewer, made.blue, world.admin};
    const size_t counts[] = {1, 1, 0, 1};
    open_as(made.red, id);
    for (size_t i = 0; i < 4; i++) {
        struct answer answer;
        Muster__ListChannelsRequest list = MUSTER__LIST_CHANNELS_REQUEST__INIT;
        ask("ListChannels", &list, tokens[i], &answer);
        const Muster__ListChannelsAnswer *got = (const void *)answer.message;
        cr_assert(got, "%s", answer.err.text);
        cr_assert_eq(got->n_channels, counts[i]);
        if (counts[i]) {
            cr_assert_str_eq(got->channels[0]->what, "a shell");
            cr_assert_str_eq(got->channels[0]->user, "red");
            cr_assert_str_eq(got->channels[0]->node, "n1");
        }
        answer_fini(&answer);
    }
}

static void newest_event(char ret[512])
{
    struct answer answer;
    Muster__ListEventsRequest list = MUSTER__LIST_EVENTS_REQUEST__INIT;
    list.job = made.red_job;
    list.limit = 1000;
    const Muster__ListEventsAnswer *got = client(&world, "ListEvents", &list, &answer);
    cr_assert_gt(got->n_events, 0);
    const Muster__Event *event = got->events[got->n_events - 1];
    (void)str_printf(ret, 512, "%s: %s", event->kind, event->reason ? event->reason->text : "");
    answer_fini(&answer);
}

Test(channels, stay_on_record)
{
    char id[ID_MAX], text[512], first[] = "rm", second[] = "-rf\n\033[2J";
    char *argv[] = {first, second};
    struct answer answer;
    struct store_audit entry;
    Muster__OpenChannelRequest message = MUSTER__OPEN_CHANNEL_REQUEST__INIT;
    message.id = made.red_job;
    message.argv = argv;
    message.n_argv = 2;
    ask("OpenChannel", &message, made.red, &answer);
    cr_assert(answer.message, "%s", answer.err.text);
    (void)str_copy(id, sizeof(id), ((Muster__Channel *)answer.message)->id);
    answer_fini(&answer);
    newest_entry(&entry);
    cr_assert_str_eq(entry.method, "OpenChannel");
    cr_assert_str_eq(entry.token_name, "red");
    cr_assert_str_eq(entry.object, made.red_job);
    cr_assert_str_eq(entry.text, "red opened `rm -rf??[2J` beside rank 0");
    newest_event(text);
    cr_assert_str_eq(text, "channel_opened: red opened `rm -rf??[2J` beside rank 0");
    Muster__SendTerminalRequest output = output_message(id, 0, "gone\n");
    Muster__ChannelEnd told = MUSTER__CHANNEL_END__INIT;
    told.exited = true;
    told.signal = 9;
    output.end = &told;
    agent(&world, "SendTerminal", &output, &answer);
    answer_fini(&answer);
    world_run(&world, 10);
    newest_entry(&entry);
    cr_assert_str_eq(entry.method, "EndChannel");
    cr_assert_str_eq(entry.text,
                     "`rm -rf??[2J` of red ended after 0 s: signal 9; 0 bytes in, 5 out");
    newest_event(text);
    cr_assert(strstr(text, "channel_ended: `rm") == text, "%s", text);
}

/* The node and, with a channel, its client are heard of all the while. */
static void live(int64_t ms, const char *id, uint64_t offset)
{
    for (int64_t end_ms = world.now_ms + ms; world.now_ms < end_ms;) {
        report(MUSTER__WORKER__STATE__joined);
        if (id)
            (void)send_as(made.red, id, offset, "");
        world_run(&world, 990);
    }
}

static void expect_end(const char *id, const char *text)
{
    struct channel_end end;
    end_of(made.red, id, 0, &end);
    cr_assert_not(end.exited);
    cr_assert_str_eq(end.text, text);
}

/* n1's agent finds red's worker running. */
static void register_again(uint64_t incarnation)
{
    struct answer answer;
    Muster__RegisterNodeRequest again = MUSTER__REGISTER_NODE_REQUEST__INIT;
    Muster__WorkerStatus status = MUSTER__WORKER_STATUS__INIT, *list[] = {&status};
    again.name = "n1";
    again.incarnation = incarnation;
    again.address = "127.0.0.1";
    again.slots = 1;
    status.job = made.red_job;
    status.uid = 1;
    status.generation = 1;
    status.state = MUSTER__WORKER__STATE__joined;
    again.workers = list;
    again.n_workers = 1;
    agent(&world, "RegisterNode", &again, &answer);
    answer_fini(&answer);
}

Test(channels, end_when_idle)
{
    char id[ID_MAX];
    world.terminal_idle_ms = 2 * MINUTE_MS;
    world_restart(&world);
    register_again(7);
    live(1000, NULL, 0);
    open_as(made.red, id);
    take(id);
    live(MINUTE_MS, id, 0);
    cr_assert_eq(send_as(made.red, id, 0, "x"), 1);
    live(2 * MINUTE_MS - 5000, id, 1);
    uint64_t version = 1;
    cr_assert_eq(terminals_of_n1(&version), 1, "a byte counts, an empty call does not");
    live(8000, id, 1);
    expect_end(id, "nothing was typed or printed for 2m");
    cr_assert_eq(terminals_of_n1(&version), 0);
}

Test(channels, end_without_their_client)
{
    char id[ID_MAX];
    open_as(made.red, id);
    take(id);
    live(RELAY_LOST_MS - 2000, NULL, 0);
    uint64_t version = 1;
    cr_assert_eq(terminals_of_n1(&version), 1);
    live(4000, NULL, 0);
    cr_assert_eq(terminals_of_n1(&version), 0);
}

Test(channels, end_if_no_agent_takes_them)
{
    char id[ID_MAX];
    open_as(made.red, id);
    live(RELAY_UNTAKEN_MS + 2000, id, 0);
    expect_end(id, "the agent of node n1 did not open it: it is of an older version, or does not "
                   "answer");
}

Test(channels, end_with_their_worker)
{
    char id[ID_MAX];
    open_as(made.red, id);
    take(id);
    report(MUSTER__WORKER__STATE__exited);
    expect_end(id, "rank 0's worker has ended");
}

Test(channels, end_with_another_start_of_the_agent)
{
    char id[ID_MAX];
    struct answer answer;
    open_as(made.red, id);
    take(id);
    register_again(9);
    Muster__NodePollRequest message = poll_message(0);
    message.incarnation = 9;
    message.terminals_version = 1;
    const Muster__NodePollAnswer *got = agent(&world, "Poll", &message, &answer);
    cr_assert_eq(got->n_terminals, 0, "it is not opened a second time");
    answer_fini(&answer);
    expect_end(id, "the agent of node n1 was restarted");
}

Test(channels, end_with_the_token)
{
    char id[ID_MAX];
    open_as(made.red, id);
    take(id);
    revoke("red");
    world_run(&world, 2500);
    uint64_t version = 1;
    cr_assert_eq(terminals_of_n1(&version), 0);
}

Test(channels, do_not_outlive_the_coordinator)
{
    char id[ID_MAX];
    struct error err;
    open_as(made.red, id);
    world_restart(&world);
    Muster__SendChannelRequest send = MUSTER__SEND_CHANNEL_REQUEST__INIT;
    send.id = id;
    cr_assert_eq(refusal("SendChannel", &send, made.red, &err), E_NOT_FOUND);
}

Test(channels, have_limits)
{
    struct error err;
    Muster__OpenChannelRequest message = shell_of(made.red_job);
    char id[ID_MAX];
    for (int i = 0; i < MAX_JOB_CHANNELS; i++)
        open_as(i % 2 ? made.red : world.admin, id);
    cr_assert_eq(open_code(message, made.red, &err), E_RESOURCE_EXHAUSTED);
    cr_assert(strstr(err.text, "limit job_channels") == err.text, "%s", err.text);
    Muster__SendChannelRequest close = MUSTER__SEND_CHANNEL_REQUEST__INIT;
    struct answer answer;
    close.id = id;
    close.close = true;
    ask("SendChannel", &close, made.red, &answer);
    cr_assert(answer.message, "%s", answer.err.text);
    answer_fini(&answer);
    cr_assert_eq(open_code(message, made.red, &err), 0, "%s", err.text);
}

/* Else one tenant takes the places of all with programs that end at once. */
Test(channels, that_have_ended_count_until_their_client_has_read)
{
    struct error err;
    struct answer answer;
    Muster__OpenChannelRequest message = shell_of(made.red_job);
    Muster__ChannelEnd end = MUSTER__CHANNEL_END__INIT;
    char id[ID_MAX];
    end.exited = true;
    for (int i = 0; i < MAX_JOB_CHANNELS; i++) {
        open_as(made.red, id);
        Muster__SendTerminalRequest send = output_message(id, 0, "");
        send.end = &end;
        agent(&world, "SendTerminal", &send, &answer);
        cr_assert(answer.message, "%s", answer.err.text);
        answer_fini(&answer);
    }
    cr_assert_eq(open_code(message, made.red, &err), E_RESOURCE_EXHAUSTED);
    live(RELAY_LINGER_MS + 2000, NULL, 0);
    cr_assert_eq(open_code(message, made.red, &err), 0, "%s", err.text);
}

Test(channels, refuse_what_cannot_be)
{
    struct error err;
    char *argv[] = {(char[]){""}};
    Muster__OpenChannelRequest message = shell_of(made.red_job);
    message.rank = 1;
    cr_assert_eq(open_code(message, made.red, &err), E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.field, "rank");
    message = shell_of(made.red_job);
    message.port = 80;
    cr_assert_eq(open_code(message, made.red, &err), E_INVALID_ARGUMENT);
    message.terminal = false;
    message.port = 65536;
    cr_assert_eq(open_code(message, made.red, &err), E_INVALID_ARGUMENT);
    message.port = 0;
    cr_assert_eq(open_code(message, made.red, &err), E_INVALID_ARGUMENT, "no program");
    message.argv = argv;
    message.n_argv = 1;
    cr_assert_eq(open_code(message, made.red, &err), E_INVALID_ARGUMENT);
    message = shell_of(made.red_job);
    message.rows = 5000;
    cr_assert_eq(open_code(message, made.red, &err), E_INVALID_ARGUMENT);
}
