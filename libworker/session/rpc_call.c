#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "common/env/clock_os.h"
#include "libworker/session/rpc_call.h"
#include "proto/worker.pb-c.h"

struct waiting {
    struct hub *hub;
    const char *method;
    const ProtobufCMessage *request;
    const struct rpc_options *options;
    ProtobufCMessage *answer;
    struct error error;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};

static void *run_loop(void *arg)
{
    struct hub *hub = arg;
    loop_run(hub->loop);
    return NULL;
}

int hub_open(struct hub *hub, const char *url, const char *token, struct error *err)
{
    *hub = (struct hub){0};
    (void)pthread_mutex_init(&hub->lock, NULL);
    int rc = loop_new(clock_os(), &hub->loop, err);
    if (!rc)
        rc = env_local_init(&hub->env, hub->loop, err);
    if (!rc)
        rc = rpc_client_new(&hub->env, hub->loop, url, token, &hub->client, err);
    if (!rc && pthread_create(&hub->thread, NULL, run_loop, hub))
        rc = error_set(err, WK_ENOMEM, "no thread for the session");
    hub->running = !rc;
    if (rc)
        hub_close(hub);
    return rc;
}

void hub_close(struct hub *hub)
{
    if (hub->running) {
        loop_stop(hub->loop);
        (void)pthread_join(hub->thread, NULL);
    }
    rpc_client_free(hub->client);
    if (hub->env.net.self)
        env_local_fini(&hub->env);
    if (hub->loop)
        loop_free(hub->loop);
    (void)pthread_mutex_destroy(&hub->lock);
    *hub = (struct hub){0};
}

static void finish_call(struct waiting *waiting)
{
    (void)pthread_mutex_lock(&waiting->lock);
    waiting->done = true;
    (void)pthread_cond_signal(&waiting->changed);
    (void)pthread_mutex_unlock(&waiting->lock);
}

static void call_done(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct waiting *waiting = arg;
    waiting->error = *err;
    if (!err->code) {
        waiting->answer = rpc_message_copy(answer);
        if (!waiting->answer)
            (void)error_set(&waiting->error, WK_ENOMEM, "no memory for an answer");
    }
    finish_call(waiting);
}

static void start_call(void *arg)
{
    struct waiting *waiting = arg;
    if (rpc_client_call(waiting->hub->client, &muster__worker_hub__descriptor, waiting->method,
                        waiting->request, waiting->options, call_done, waiting, &waiting->error))
        finish_call(waiting);
}

int hub_call(struct hub *hub, const char *method, const ProtobufCMessage *request,
             const struct rpc_options *options, ProtobufCMessage **ret_answer, struct error *err)
{
    struct waiting waiting = {.hub = hub, .method = method, .request = request, .options = options};
    (void)pthread_mutex_init(&waiting.lock, NULL);
    (void)pthread_cond_init(&waiting.changed, NULL);
    loop_post(hub->loop, start_call, &waiting);
    (void)pthread_mutex_lock(&waiting.lock);
    while (!waiting.done)
        (void)pthread_cond_wait(&waiting.changed, &waiting.lock);
    (void)pthread_mutex_unlock(&waiting.lock);
    (void)pthread_cond_destroy(&waiting.changed);
    (void)pthread_mutex_destroy(&waiting.lock);
    if (waiting.error.code) {
        if (err)
            *err = waiting.error;
        return waiting.error.code;
    }
    *ret_answer = waiting.answer;
    return 0;
}

static void apply_token(void *arg)
{
    struct hub *hub = arg;
    char token[FRAME_TOKEN_MAX + 1];
    (void)pthread_mutex_lock(&hub->lock);
    (void)str_copy(token, sizeof(token), hub->token);
    (void)pthread_mutex_unlock(&hub->lock);
    (void)rpc_client_set_token(hub->client, token, NULL);
}

/* A posted item owns nothing: the loop may be stopped before it runs. */
void hub_set_token(struct hub *hub, const char *token)
{
    (void)pthread_mutex_lock(&hub->lock);
    (void)str_copy(hub->token, sizeof(hub->token), token);
    (void)pthread_mutex_unlock(&hub->lock);
    loop_post(hub->loop, apply_token, hub);
}
