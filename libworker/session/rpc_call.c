#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

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

static void *run(void *arg)
{
    struct hub *hub = arg;
    loop_run(hub->loop);
    return NULL;
}

int hub_open(struct hub *hub, const char *url, const char *token, struct error *err)
{
    *hub = (struct hub){0};
    int rc = loop_new(&hub->loop, err);
    if (!rc)
        rc = env_os_init(&hub->env, hub->loop, err);
    if (!rc)
        rc = rpc_client_new(&hub->env, hub->loop, url, token, &hub->client, err);
    if (!rc && pthread_create(&hub->thread, NULL, run, hub))
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
        env_os_fini(&hub->env);
    if (hub->loop)
        loop_free(hub->loop);
    *hub = (struct hub){0};
}

static void finish(struct waiting *waiting)
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
    finish(waiting);
}

static void start_call(void *arg)
{
    struct waiting *waiting = arg;
    if (rpc_client_call(waiting->hub->client, &muster__worker_hub__descriptor, waiting->method,
                        waiting->request, waiting->options, call_done, waiting, &waiting->error))
        finish(waiting);
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

struct new_token {
    struct hub *hub;
    char *token;
};

static void apply_token(void *arg)
{
    struct new_token *new_token = arg;
    (void)rpc_client_set_token(new_token->hub->client, new_token->token, NULL);
    free(new_token->token);
    free(new_token);
}

void hub_set_token(struct hub *hub, const char *token)
{
    struct new_token *new_token = calloc(1, sizeof(*new_token));
    char *copy = strdup(token);
    if (!new_token || !copy) {
        free(new_token);
        free(copy);
        return;
    }
    *new_token = (struct new_token){hub, copy};
    loop_post(hub->loop, apply_token, new_token);
}
