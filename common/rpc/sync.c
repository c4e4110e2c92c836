#include "common/env/clock_os.h"
#include "common/rpc/sync.h"

#include <stdlib.h>

#include "common/env/env.h"
#include "common/loop/loop.h"

struct rpc_sync {
    struct loop *loop;
    struct env env;
    bool env_ready;
    struct rpc_client *client;
    struct error err; /* of the call in progress, with its answer */
    ProtobufCMessage *answer;
    bool waiting;   /* in rpc_sync_wait */
    bool completed; /* a started call has, since the last rpc_sync_wait */
    struct loop_timer timer;
    struct started *first; /* under way */
};

struct started {
    struct rpc_sync *sync;
    rpc_done done; /* NULL = cancelled: its end is not reported */
    void *arg;
    struct started *prev, *next;
};

int rpc_sync_new(const char *url, const char *token, struct rpc_sync **ret, struct error *err)
{
    struct rpc_sync *sync = calloc(1, sizeof(*sync));
    if (!sync)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a client");
    int rc = loop_new(clock_os(), &sync->loop, err);
    if (!rc)
        rc = env_os_init(&sync->env, sync->loop, err);
    if (!rc) {
        sync->env_ready = true;
        rc = rpc_client_new(&sync->env, sync->loop, url, token, &sync->client, err);
    }
    if (rc) {
        rpc_sync_free(sync);
        return rc;
    }
    *ret = sync;
    return 0;
}

void rpc_sync_free(struct rpc_sync *sync)
{
    if (!sync)
        return;
    rpc_client_free(sync->client);
    if (sync->env_ready)
        env_os_fini(&sync->env);
    loop_free(sync->loop);
    free(sync);
}

static void answered(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct rpc_sync *sync = arg;
    sync->err = *err;
    if (answer && !(sync->answer = rpc_message_copy(answer)))
        error_set(&sync->err, E_RESOURCE_EXHAUSTED, "no memory for the answer");
    loop_stop(sync->loop);
}

int rpc_sync_call(struct rpc_sync *sync, const ProtobufCServiceDescriptor *service,
                  const char *method, const ProtobufCMessage *request,
                  const struct rpc_options *options, ProtobufCMessage **ret_answer,
                  struct error *err)
{
    sync->answer = NULL;
    loop_turn(sync->loop); /* time has passed since the last call: deadlines count from now */
    int rc = rpc_client_call(sync->client, service, method, request, options, answered, sync, err);
    if (rc)
        return rc;
    loop_run(sync->loop);
    if (sync->err.code != 0) {
        if (err)
            *err = sync->err;
        return sync->err.code;
    }
    *ret_answer = sync->answer;
    return 0;
}

static void link_up(struct started *started)
{
    struct rpc_sync *sync = started->sync;
    started->next = sync->first;
    if (started->next)
        started->next->prev = started;
    sync->first = started;
}

static void unlink_and_free(struct started *started)
{
    if (started->next)
        started->next->prev = started->prev;
    *(started->prev ? &started->prev->next : &started->sync->first) = started->next;
    free(started);
}

static void started_done(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct started started = *(struct started *)arg;
    struct rpc_sync *sync = started.sync;
    unlink_and_free(arg);
    if (!started.done)
        return;
    started.done(started.arg, err, answer);
    sync->completed = true;
    if (sync->waiting)
        loop_stop(sync->loop);
}

int rpc_sync_start(struct rpc_sync *sync, const ProtobufCServiceDescriptor *service,
                   const char *method, const ProtobufCMessage *request,
                   const struct rpc_sync_start *how, struct error *err)
{
    struct started *started = malloc(sizeof(*started));
    if (!started)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for another call");
    *started = (struct started){.sync = sync, .done = how->done, .arg = how->arg};
    link_up(started);
    loop_turn(sync->loop);
    int rc = rpc_client_call(sync->client, service, method, request, &how->options, started_done,
                             started, err);
    if (rc)
        unlink_and_free(started);
    return rc;
}

void rpc_sync_cancel(struct rpc_sync *sync, const void *arg)
{
    struct error err = {0};
    error_set(&err, E_CANCELLED, "it was given up");
    for (struct started *started = sync->first; started; started = started->next) {
        rpc_done done = started->arg == arg ? started->done : NULL;
        if (!done)
            continue;
        started->done = NULL;
        done(started->arg, &err, NULL);
    }
}

static void waited(void *arg)
{
    struct rpc_sync *sync = arg;
    loop_stop(sync->loop);
}

bool rpc_sync_wait(struct rpc_sync *sync, int64_t wait_ms)
{
    loop_turn(sync->loop);
    if (!sync->completed) {
        sync->waiting = true;
        loop_timer_set(sync->loop, &sync->timer, loop_now_ms(sync->loop) + wait_ms, waited, sync);
        loop_run(sync->loop);
        loop_timer_cancel(sync->loop, &sync->timer);
        sync->waiting = false;
    }
    bool completed = sync->completed;
    sync->completed = false;
    return completed;
}
