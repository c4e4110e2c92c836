/* Retries, told on virtual time over a network that answers as it is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "common/env/env.h"
#include "common/loop/loop.h"
#include "common/rpc/client.h"
#include "common/rpc/frame.h"
#include "proto/client.pb-c.h"

struct net_dialer { /* one call in flight is enough here */
    net_answer_fn on_answer;
    void *arg;
    int64_t timeout_ms;
    int calls;
    uint64_t id;
    char token[32], key[32];
};

static struct net_dialer wire;
static int64_t now;

static int64_t fake_now(void *self)
{
    (void)self;
    return now;
}

static void fake_fill(void *self, void *bytes, size_t count)
{
    (void)self;
    memset(bytes, 42, count);
}

static int fake_dial(void *self, const char *url, struct net_dialer **ret, struct error *err)
{
    (void)self, (void)url, (void)err;
    *ret = &wire;
    return 0;
}

static int fake_call(struct net_dialer *d, const void *bytes, size_t size, int64_t timeout_ms,
                     net_answer_fn on_answer, void *arg, struct error *err)
{
    Muster__RpcRequest *request;
    cr_assert_eq(frame_unpack_request(bytes, size, &request, err), 0);
    d->id = request->id;
    snprintf(d->token, sizeof(d->token), "%s", request->token);
    snprintf(d->key, sizeof(d->key), "%s", request->idempotency_key);
    rpc_message_free(request);
    d->on_answer = on_answer;
    d->arg = arg;
    d->timeout_ms = timeout_ms;
    d->calls++;
    return 0;
}

static void fake_close(struct net_dialer *d)
{
    if (d->on_answer)
        d->on_answer(d->arg, E_CANCELLED, NULL, 0);
    d->on_answer = NULL;
}

static void wire_fail(int code)
{
    net_answer_fn fn = wire.on_answer;
    wire.on_answer = NULL;
    fn(wire.arg, code, NULL, 0);
}

static void wire_answer(int code, uint64_t id)
{
    Muster__RpcAnswer answer = MUSTER__RPC_ANSWER__INIT;
    answer.id = id;
    answer.code = -code;
    answer.message = (char *)(uintptr_t) "said the server";
    struct buf frame = {0};
    frame_pack(&answer.base, &frame, NULL);
    net_answer_fn fn = wire.on_answer;
    wire.on_answer = NULL;
    fn(wire.arg, 0, frame.data, frame.size);
    buf_fini(&frame);
}

struct outcome {
    int completions;
    struct error err;
};

static void done(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct outcome *outcome = arg;
    cr_assert_eq(answer == NULL, err->code != 0);
    outcome->completions++;
    outcome->err = *err;
}

static struct env env;
static struct loop *loop;
static struct rpc_client *client;

static void set_up(void)
{
    env.clock = (struct clock){.now_ms = fake_now, .wall_ms = fake_now};
    env.rng.fill = fake_fill;
    env.net = (struct net){.dial = fake_dial, .call = fake_call, .close_dialer = fake_close};
    cr_assert_eq(loop_new_simulated(env.clock, &loop, NULL), 0);
    cr_assert_eq(rpc_client_new(&env, loop, "tcp://nowhere:1", "first", &client, NULL), 0);
}

static void tear_down(void)
{
    rpc_client_free(client);
    loop_free(loop);
}

TestSuite(retry, .init = set_up, .fini = tear_down);

static void start(const struct rpc_options *options, struct outcome *outcome)
{
    Muster__VersionRequest request = MUSTER__VERSION_REQUEST__INIT;
    cr_assert_eq(rpc_client_call(client, &muster__coordinator__descriptor, "Version", &request.base,
                                 options, done, outcome, NULL),
                 0);
}

/* Let time pass until the next try; how long that took. */
static int64_t next_try(void)
{
    int calls = wire.calls;
    for (int64_t waited = 0; waited < 5000; waited++) {
        if (wire.calls > calls)
            return waited;
        now++;
        loop_turn(loop);
    }
    return -1;
}

Test(retry, backs_off_with_jitter_up_to_a_second)
{
    struct outcome outcome = {0};
    start(&(struct rpc_options){.timeout_ms = 60000, .retry = true, .idempotency_key = "k"},
          &outcome);
    int64_t least = RPC_CLIENT_BACKOFF_MIN_MS / 2, most = RPC_CLIENT_BACKOFF_MIN_MS;
    for (int i = 0; i < 8; i++) {
        wire_fail(E_UNAVAILABLE);
        int64_t waited = next_try();
        cr_assert(waited >= least && waited <= most, "%d: %ld", i, (long)waited);
        cr_assert_str_eq(wire.key, "k");
        cr_assert_eq(wire.timeout_ms, 60000 - now);
        most = 2 * most > RPC_CLIENT_BACKOFF_MAX_MS ? RPC_CLIENT_BACKOFF_MAX_MS : 2 * most;
        least = most / 2;
    }
    rpc_client_set_token(client, "second", NULL);
    wire_answer(E_UNAVAILABLE, wire.id); /* the server's own word counts the same */
    cr_assert(next_try() >= 0);
    cr_assert_str_eq(wire.token, "second");
    wire_answer(0, wire.id);
    cr_assert_eq(outcome.completions, 1);
    cr_assert_eq(outcome.err.code, 0);
}

Test(retry, only_when_asked_and_only_for_unavailable)
{
    struct outcome outcome = {0}, second = {0};
    start(NULL, &outcome);
    wire_fail(E_UNAVAILABLE);
    cr_assert_eq(outcome.err.code, E_UNAVAILABLE);
    cr_assert_not_null(strstr(outcome.err.text, "tcp://nowhere:1"));
    start(&(struct rpc_options){.retry = true}, &second);
    wire_answer(E_NOT_FOUND, wire.id);
    cr_assert_eq(second.err.code, E_NOT_FOUND);
    cr_assert_str_eq(second.err.text, "said the server");
    cr_assert_eq(wire.calls, 2);
}

Test(retry, ends_at_the_deadline_with_the_last_cause)
{
    struct outcome outcome = {0};
    start(&(struct rpc_options){.timeout_ms = 1000, .retry = true}, &outcome);
    while (!outcome.completions) {
        wire_fail(E_UNAVAILABLE);
        if (!outcome.completions)
            cr_assert(next_try() >= 0);
    }
    cr_assert(now <= 1000);
    cr_assert_eq(outcome.err.code, E_UNAVAILABLE);
    cr_assert_not_null(strstr(outcome.err.hint, "tries"), "%s", outcome.err.hint);
}

Test(retry, a_call_backing_off_is_cancelled_by_free)
{
    struct outcome outcome = {0};
    start(&(struct rpc_options){.retry = true}, &outcome);
    wire_fail(E_UNAVAILABLE);
    cr_assert_eq(outcome.completions, 0);
    rpc_client_free(client);
    client = NULL;
    cr_assert_eq(outcome.completions, 1);
    cr_assert_eq(outcome.err.code, E_CANCELLED);
}

Test(retry, a_foreign_answer_is_an_error_and_not_a_result)
{
    struct outcome outcome = {0};
    start(NULL, &outcome);
    wire_answer(0, wire.id + 1);
    cr_assert_eq(outcome.err.code, E_INTERNAL);
}
