#include "common/env/clock_os.h"
#include "common/rpc/sync.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "common/env/env.h"
#include "common/loop/loop.h"

struct rpc_sync {
    struct loop *loop;
    struct env env;
    bool env_ready;
    struct rpc_client *client;
    struct error err; /* of the call in progress, with its answer */
    ProtobufCMessage *answer;
    bool answered;  /* that call */
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
    sync->answered = true;
    loop_stop(sync->loop);
}

int rpc_sync_call(struct rpc_sync *sync, const ProtobufCServiceDescriptor *service,
                  const char *method, const ProtobufCMessage *request,
                  const struct rpc_options *options, ProtobufCMessage **ret_answer,
                  struct error *err)
{
    sync->answer = NULL;
    sync->answered = false;
    loop_turn(sync->loop); /* time has passed since the last call: deadlines count from now */
    int rc = rpc_client_call(sync->client, service, method, request, options, answered, sync, err);
    if (rc)
        return rc;
    while (!sync->answered) /* a stop may be left from rpc_sync_wait_on */
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

struct watched {
    struct rpc_sync *sync;
    struct pollfd *fd;
};

static void descriptor_ready(void *arg, int fd, uint32_t events)
{
    (void)fd;
    struct watched *watched = arg;
    watched->fd->revents =
        (short)((events & EPOLLIN ? POLLIN : 0) | (events & EPOLLOUT ? POLLOUT : 0) |
                (events & (EPOLLHUP | EPOLLERR) ? POLLHUP : 0));
    loop_stop(watched->sync->loop);
}

/* False if it cannot be watched: then it is ready. */
static bool watch(struct watched *watched)
{
    struct pollfd *fd = watched->fd;
    uint32_t events = (fd->events & POLLIN ? EPOLLIN : 0u) | (fd->events & POLLOUT ? EPOLLOUT : 0u);
    fd->revents = 0;
    if (!loop_watch(watched->sync->loop, fd->fd, events, descriptor_ready, watched, NULL))
        return true;
    fd->revents = fd->events;
    return false;
}

bool rpc_sync_wait_on(struct rpc_sync *sync, struct pollfd *fds, size_t count, int64_t wait_ms)
{
    struct watched *watched = calloc(count + 1, sizeof(*watched));
    bool ready = false;
    for (size_t i = 0; watched && i < count; i++) {
        watched[i] = (struct watched){.sync = sync, .fd = &fds[i]};
        fds[i].revents = 0;
        if (fds[i].fd >= 0 && fds[i].events && !watch(&watched[i])) {
            watched[i].fd = NULL;
            ready = true;
        }
    }
    bool completed = rpc_sync_wait(sync, ready ? 0 : wait_ms);
    for (size_t i = 0; watched && i < count; i++)
        if (watched[i].fd && fds[i].fd >= 0 && fds[i].events)
            loop_unwatch(sync->loop, fds[i].fd);
    free(watched);
    return completed;
}
