/* Server and client on one loop, over loopback. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "common/env/clock_os.h"
#include "common/env/env.h"
#include "common/loop/loop.h"
#include "common/rpc/call.h"
#include "common/rpc/client.h"
#include "common/rpc/frame.h"
#include "common/rpc/server.h"
#include "common/rpc/sync.h"
#include "proto/client.pb-c.h"
#include "tests/lib/loopback.h"

static const ProtobufCServiceDescriptor *const service = &muster__coordinator__descriptor;

/* The rig's clock stands still until a test lets it go: without a deadline, and without the moment
 * that a call waits for a connection, no machine is too slow. */
static bool held;
static int64_t held_ms;

static int64_t hold_or_run(void *self)
{
    (void)self;
    held_ms = held ? held_ms : clock_os_now_ms();
    return held_ms;
}

struct rig {
    struct loop *loop;
    struct env env;
    struct rpc_server *server;
    struct rpc_client *client;
    uint64_t kept[512]; /* ids of calls a handler has left open */
    int kept_count;
    int handled;
    int64_t left_ms; /* until the deadline of the last of them, when it came */
    uint64_t gone;
    char seen_token[64], seen_key[64], seen_id[64];
};

struct outcome {
    int completions;
    struct error err;
    char id[64];
    struct rig *rig;
    struct outcome *then; /* a call to be made from inside the completion */
};

static void rig_init(struct rig *rig)
{
    struct clock clock = clock_os();
    clock.now_ms = hold_or_run;
    held = false;
    held = hold_or_run(NULL) != 0;
    memset(rig, 0, sizeof(*rig));
    cr_assert_eq(loop_new(clock, &rig->loop, NULL), 0);
    cr_assert_eq(env_os_init(&rig->env, rig->loop, NULL), 0);
    struct error err;
    char url[64];
    snprintf(url, sizeof(url), "tcp://%s:0", loopback_own());
    cr_assert_eq(rpc_server_new(&rig->env, rig->loop, url, 512, &rig->server, &err), 0, "%s",
                 err.text);
    cr_assert_eq(rpc_client_new(&rig->env, rig->loop, rpc_server_url(rig->server), "secret",
                                &rig->client, &err),
                 0, "%s", err.text);
}

static void rig_fini(struct rig *rig)
{
    rpc_client_free(rig->client);
    rpc_server_free(rig->server);
    env_os_fini(&rig->env);
    loop_free(rig->loop);
}

static void keep(void *arg, struct rpc_call *call)
{
    struct rig *rig = arg;
    rig->handled++;
    rig->left_ms = rpc_call_deadline_ms(call) - loop_now_ms(rig->loop);
    rig->kept[rig->kept_count++] = rpc_call_id(call);
}

static void echo_id(void *arg, struct rpc_call *call)
{
    struct rig *rig = arg;
    rig->handled++;
    const Muster__GetJobRequest *request = (const Muster__GetJobRequest *)rpc_call_request(call);
    snprintf(rig->seen_token, sizeof(rig->seen_token), "%s", rpc_call_token(call));
    snprintf(rig->seen_key, sizeof(rig->seen_key), "%s", rpc_call_idempotency_key(call));
    snprintf(rig->seen_id, sizeof(rig->seen_id), "%s", request->id);
    Muster__Job job = MUSTER__JOB__INIT;
    job.id = request->id;
    rpc_call_answer(call, &job.base);
}

static void refuse(void *arg, struct rpc_call *call)
{
    (void)arg;
    struct error err;
    error_set(&err, E_FAILED_PRECONDITION, "not today");
    error_field(&err, "spec.nodes.min");
    error_hint(&err, "come back tomorrow");
    rpc_call_fail(call, &err);
}

static void answer_huge(void *arg, struct rpc_call *call)
{
    (void)arg;
    Muster__Job job = MUSTER__JOB__INIT;
    job.id = calloc(1, RPC_PAYLOAD_MAX_BYTES + 10);
    memset(job.id, 'x', RPC_PAYLOAD_MAX_BYTES + 9);
    rpc_call_answer(call, &job.base);
    free(job.id);
}

static void add(struct rig *rig, const char *method, rpc_handler fn)
{
    cr_assert_eq(rpc_server_add(rig->server, service, method, fn, rig, NULL), 0);
}

static void get_job(struct rig *rig, const char *id, const struct rpc_options *options,
                    struct outcome *outcome);

static void done(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct outcome *outcome = arg;
    outcome->completions++;
    outcome->err = *err;
    if (answer)
        snprintf(outcome->id, sizeof(outcome->id), "%s", ((const Muster__Job *)answer)->id);
    if (outcome->then)
        get_job(outcome->rig, "then", NULL, outcome->then);
}

static void get_job(struct rig *rig, const char *id, const struct rpc_options *options,
                    struct outcome *outcome)
{
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    request.id = (char *)(uintptr_t)id;
    struct error err;
    cr_assert_eq(rpc_client_call(rig->client, service, "GetJob", &request.base, options, done,
                                 outcome, &err),
                 0, "%s", err.text);
    cr_assert_eq(outcome->completions, 0);
}

static void turn(struct rig *rig)
{
    loop_turn(rig->loop);
    usleep(200);
}

/* Criterion ends what hangs. */
static void turn_until(struct rig *rig, const int *counter, int least)
{
    while (*counter < least)
        turn(rig);
}

static void turn_ms(struct rig *rig, int ms)
{
    for (int i = 0; i < ms * 5; i++)
        turn(rig);
}

Test(calls, carry_request_token_key_and_answer)
{
    struct rig rig;
    rig_init(&rig);
    add(&rig, "GetJob", echo_id);
    struct outcome outcome = {0};
    get_job(&rig, "job-1", &(struct rpc_options){.idempotency_key = "once"}, &outcome);
    turn_until(&rig, &outcome.completions, 1);
    cr_assert_eq(outcome.err.code, 0, "%s", outcome.err.text);
    cr_assert_str_eq(outcome.id, "job-1");
    cr_assert_str_eq(rig.seen_token, "secret");
    cr_assert_str_eq(rig.seen_key, "once");
    cr_assert_eq(rpc_client_set_token(rig.client, "other", NULL), 0);
    struct outcome second = {0};
    get_job(&rig, "job-2", NULL, &second);
    turn_until(&rig, &second.completions, 1);
    cr_assert_str_eq(rig.seen_token, "other");
    rig_fini(&rig);
}

Test(calls, failures_arrive_whole)
{
    struct rig rig;
    rig_init(&rig);
    add(&rig, "GetJob", refuse);
    struct outcome outcome = {0};
    get_job(&rig, "x", NULL, &outcome);
    turn_until(&rig, &outcome.completions, 1);
    cr_assert_eq(outcome.err.code, E_FAILED_PRECONDITION);
    cr_assert_str_eq(outcome.err.text, "not today");
    cr_assert_str_eq(outcome.err.field, "spec.nodes.min");
    cr_assert_str_eq(outcome.err.hint, "come back tomorrow");
    rig_fini(&rig);
}

Test(calls, unknown_methods_are_unimplemented)
{
    struct rig rig;
    rig_init(&rig);
    add(&rig, "GetLogs", echo_id);
    struct outcome outcome = {0};
    get_job(&rig, "x", NULL, &outcome);
    turn_until(&rig, &outcome.completions, 1);
    cr_assert_eq(outcome.err.code, E_UNIMPLEMENTED);
    cr_assert_not_null(strstr(outcome.err.text, "Coordinator.GetJob"));
    cr_assert_not_null(strstr(outcome.err.hint, "Coordinator.GetLogs"));
    struct error err;
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    cr_assert_eq(
        rpc_client_call(rig.client, service, "GetJbo", &request.base, NULL, done, &outcome, &err),
        E_NOT_FOUND);
    cr_assert_not_null(strstr(err.hint, "GetJob"), "%s", err.hint);
    cr_assert_eq(rpc_server_add(rig.server, service, "GetLogs", refuse, NULL, &err),
                 E_ALREADY_EXISTS);
    cr_assert_eq(rpc_server_add(rig.server, service, "Nothing", refuse, NULL, &err), E_NOT_FOUND);
    rig_fini(&rig);
}

Test(calls, too_large_in_either_direction)
{
    struct rig rig;
    rig_init(&rig);
    add(&rig, "GetJob", answer_huge);
    struct outcome outcome = {0};
    get_job(&rig, "x", NULL, &outcome);
    turn_until(&rig, &outcome.completions, 1);
    cr_assert_eq(outcome.err.code, E_RESOURCE_EXHAUSTED, "%s", outcome.err.text);
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    request.id = calloc(1, RPC_PAYLOAD_MAX_BYTES + 10);
    memset(request.id, 'x', RPC_PAYLOAD_MAX_BYTES + 9);
    struct error err;
    cr_assert_eq(
        rpc_client_call(rig.client, service, "GetJob", &request.base, NULL, done, &outcome, &err),
        E_OUT_OF_RANGE);
    free(request.id);
    rig_fini(&rig);
}

static void raw_answer(void *arg, int code, const void *bytes, size_t size)
{
    struct outcome *outcome = arg;
    outcome->completions++;
    Muster__RpcAnswer *answer;
    cr_assert_eq(code, 0);
    cr_assert_eq(frame_unpack_answer(bytes, size, &answer, NULL), 0);
    outcome->err.code = -answer->code;
    rpc_message_free(answer);
}

Test(calls, garbage_is_answered_with_invalid_argument)
{
    struct rig rig;
    rig_init(&rig);
    add(&rig, "GetJob", echo_id);
    struct net_dialer *dialer;
    struct net *net = &rig.env.net;
    cr_assert_eq(net->dial(net->self, rpc_server_url(rig.server), &dialer, NULL), 0);
    turn_ms(&rig, 100);
    struct buf frame = {0};
    Muster__RpcRequest request = MUSTER__RPC_REQUEST__INIT;
    request.method = (char *)(uintptr_t) "Coordinator.GetJob";
    uint8_t payload[] = {0x0a, 200, 1}; /* a string longer than what follows */
    request.payload.data = payload;
    request.payload.len = sizeof(payload);
    frame_pack(&request.base, &frame, NULL);
    const struct {
        const void *bytes;
        size_t size;
    } garbage[] = {{"", 0},
                   {"GET / HTTP/1.1\r\n\r\n", 18},
                   {"MST1\xff\xff\xff\xff", 8},
                   {frame.data, frame.size},
                   {frame.data, frame.size - 1}};
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        struct outcome outcome = {0};
        cr_assert_eq(
            net->call(dialer, garbage[i].bytes, garbage[i].size, 3000, raw_answer, &outcome, NULL),
            0);
        turn_until(&rig, &outcome.completions, 1);
        cr_assert_eq(outcome.err.code, E_INVALID_ARGUMENT, "%zu", i);
    }
    struct rpc_server_stats stats;
    rpc_server_stats(rig.server, &stats);
    cr_assert_eq(stats.refused, 5);
    cr_assert_eq(stats.calls, 0);
    net->close_dialer(dialer);
    buf_fini(&frame);
    rig_fini(&rig);
}

Test(calls, late_answers_by_id_and_200_at_once)
{
    enum { CALLS = 200 };
    static struct outcome outcomes[CALLS];
    struct rig rig;
    rig_init(&rig);
    add(&rig, "GetJob", keep);
    for (int i = 0; i < CALLS; i++)
        get_job(&rig, "x", NULL, &outcomes[i]);
    turn_until(&rig, &rig.handled, CALLS);
    cr_assert_eq(rig.handled, CALLS);
    turn_ms(&rig, 50);
    for (int i = CALLS - 1; i >= 0; i--) {
        struct rpc_call *call = rpc_server_find(rig.server, rig.kept[i]);
        cr_assert_not_null(call);
        Muster__Job job = MUSTER__JOB__INIT;
        job.id = (char *)(uintptr_t) "late";
        rpc_call_answer(call, &job.base);
        cr_assert_null(rpc_server_find(rig.server, rig.kept[i]));
    }
    for (int i = 0; i < CALLS; i++) {
        turn_until(&rig, &outcomes[i].completions, 1);
        cr_assert_eq(outcomes[i].completions, 1);
        cr_assert_str_eq(outcomes[i].id, "late");
    }
    rig_fini(&rig);
}

Test(calls, the_server_ends_calls_that_nobody_answers)
{
    struct rig rig;
    rig_init(&rig);
    add(&rig, "GetJob", keep);
    add(&rig, "GetLogs", refuse);
    struct outcome connected = {0}, outcome = {0};
    Muster__GetLogsRequest request = MUSTER__GET_LOGS_REQUEST__INIT;
    cr_assert_eq(rpc_client_call(rig.client, service, "GetLogs", &request.base, NULL, done,
                                 &connected, NULL),
                 0);
    turn_until(&rig, &connected.completions, 1);
    get_job(&rig, "x", &(struct rpc_options){.timeout_ms = 150}, &outcome);
    turn_until(&rig, &rig.handled, 1);
    held = false;
    cr_assert(rig.left_ms > 0 && rig.left_ms <= 150, "%ld", (long)rig.left_ms);
    turn_until(&rig, &outcome.completions, 1);
    cr_assert_eq(outcome.err.code, E_DEADLINE_EXCEEDED);
    struct rpc_server_stats stats = {0};
    while (stats.expired == 0) {
        turn(&rig);
        rpc_server_stats(rig.server, &stats);
    }
    cr_assert_null(rpc_server_find(rig.server, rig.kept[0]));
    cr_assert_eq(stats.expired, 1);
    cr_assert_eq(stats.open, 0);
    cr_assert_eq(outcome.completions, 1);
    rig_fini(&rig);
}

static void answer_twice(void *arg, struct rpc_call *call)
{
    (void)arg;
    Muster__Job job = MUSTER__JOB__INIT;
    rpc_call_answer(call, &job.base);
    rpc_call_answer(call, &job.base);
}

Test(calls, answering_twice_is_caught, .signal = SIGABRT)
{
    struct rig rig;
    rig_init(&rig);
    add(&rig, "GetJob", answer_twice);
    struct outcome outcome = {0};
    get_job(&rig, "x", NULL, &outcome);
    turn_until(&rig, &outcome.completions, 1);
}

static void on_gone(void *arg, uint64_t peer)
{
    ((struct rig *)arg)->gone = peer;
}

Test(calls, free_cancels_open_calls_and_the_server_hears_it)
{
    struct rig rig;
    rig_init(&rig);
    add(&rig, "GetJob", keep);
    rpc_server_on_gone(rig.server, on_gone, &rig);
    struct outcome outcome = {0};
    get_job(&rig, "x", NULL, &outcome);
    turn_until(&rig, &rig.handled, 1);
    uint64_t peer = rpc_call_peer(rpc_server_find(rig.server, rig.kept[0]));
    rpc_client_free(rig.client);
    rig.client = NULL;
    cr_assert_eq(outcome.completions, 1);
    cr_assert_eq(outcome.err.code, E_CANCELLED);
    while (!rig.gone)
        turn(&rig);
    cr_assert_eq(rig.gone, peer);
    struct rpc_call *call = rpc_server_find(rig.server, rig.kept[0]);
    cr_assert_not_null(call); /* still open; its answer goes nowhere */
    Muster__Job job = MUSTER__JOB__INIT;
    rpc_call_answer(call, &job.base);
    turn_ms(&rig, 20);
    cr_assert_eq(outcome.completions, 1);
    rig_fini(&rig);
}

Test(calls, new_calls_may_be_made_from_a_completion)
{
    struct rig rig;
    rig_init(&rig);
    add(&rig, "GetJob", echo_id);
    struct outcome then = {0}, first = {.rig = &rig, .then = &then};
    get_job(&rig, "first", NULL, &first);
    turn_until(&rig, &then.completions, 1);
    cr_assert_str_eq(first.id, "first");
    cr_assert_str_eq(then.id, "then");
    rig_fini(&rig);
}

Test(calls, a_server_that_comes_back_is_found_again)
{
    struct rig rig;
    rig_init(&rig);
    add(&rig, "GetJob", echo_id);
    char url[256];
    snprintf(url, sizeof(url), "%s", rpc_server_url(rig.server));
    struct outcome before = {0}, during = {0}, after = {0};
    get_job(&rig, "before", NULL, &before);
    turn_until(&rig, &before.completions, 1);
    held = false;
    rpc_server_free(rig.server);
    rig.server = NULL;
    turn_ms(&rig, 50);
    get_job(&rig, "during", NULL, &during);
    get_job(&rig, "after", &(struct rpc_options){.timeout_ms = 1000000, .retry = true}, &after);
    turn_until(&rig, &during.completions, 1);
    cr_assert_eq(during.err.code, E_UNAVAILABLE);
    cr_assert_not_null(strstr(during.err.text, url));
    cr_assert_eq(after.completions, 0);
    struct error err;
    cr_assert_eq(rpc_server_new(&rig.env, rig.loop, url, 8, &rig.server, &err), 0, "%s", err.text);
    add(&rig, "GetJob", echo_id);
    turn_until(&rig, &after.completions, 1);
    cr_assert_eq(after.err.code, 0, "%s", after.err.text);
    cr_assert_str_eq(after.id, "after");
    rig_fini(&rig);
}

Test(sync, says_what_it_could_not_reach)
{
    struct rpc_sync *sync;
    struct error err;
    cr_assert_eq(rpc_sync_new("tcp://127.0.0.1:1", "t", &sync, &err), 0, "%s", err.text);
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    ProtobufCMessage *answer;
    cr_assert_eq(rpc_sync_call(sync, service, "GetJob", &request.base, NULL, &answer, &err),
                 E_UNAVAILABLE);
    cr_assert_not_null(strstr(err.text, "tcp://127.0.0.1:1"), "%s", err.text);
    rpc_sync_free(sync);
    cr_assert_eq(rpc_sync_new("http://x", "t", &sync, &err), E_INVALID_ARGUMENT);
}

struct heard {
    int count, code;
};

static void hear(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct heard *heard = arg;
    cr_expect_null(answer);
    heard->count++;
    heard->code = err->code;
}

Test(sync, started_calls_complete_on_their_own_or_with_the_connection)
{
    struct rpc_sync *sync;
    struct error err;
    cr_assert_eq(rpc_sync_new("tcp://127.0.0.1:1", "t", &sync, &err), 0, "%s", err.text);
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    struct heard soon = {0}, never = {0};
    struct rpc_sync_start patient = {.done = hear, .arg = &never}, brief = patient;
    patient.options = (struct rpc_options){.timeout_ms = 1000000, .retry = true};
    brief.options.timeout_ms = 300;
    brief.arg = &soon;
    cr_assert_eq(rpc_sync_start(sync, service, "GetJob", &request.base, &patient, &err), 0);
    cr_assert_eq(rpc_sync_start(sync, service, "GetJob", &request.base, &brief, &err), 0);
    cr_assert_not(rpc_sync_wait(sync, 0), "nothing has happened yet");
    cr_assert(rpc_sync_wait(sync, 1000000));
    cr_expect(soon.count == 1 && soon.code == E_UNAVAILABLE, "%d", soon.code);
    cr_expect_eq(never.count, 0);
    rpc_sync_free(sync);
    cr_expect(never.count == 1 && never.code == E_CANCELLED, "%d", never.code);
}

Test(sync, what_is_given_up_is_heard_once)
{
    struct rpc_sync *sync;
    struct error err;
    cr_assert_eq(rpc_sync_new("tcp://127.0.0.1:1", "t", &sync, &err), 0, "%s", err.text);
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    struct heard given_up = {0}, other = {0};
    struct rpc_sync_start how = {.options = {.timeout_ms = 1000000, .retry = true}, .done = hear};
    for (int i = 0; i < 4; i++) {
        how.arg = i % 2 ? &given_up : &other;
        cr_assert_eq(rpc_sync_start(sync, service, "GetJob", &request.base, &how, &err), 0);
    }
    rpc_sync_cancel(sync, &given_up);
    cr_expect(given_up.count == 2 && given_up.code == E_CANCELLED, "%d", given_up.code);
    rpc_sync_cancel(sync, &given_up);
    cr_expect_eq(other.count, 0);
    rpc_sync_free(sync);
    cr_expect_eq(given_up.count, 2);
    cr_expect_eq(other.count, 2);
}
