/* Membership: joining generations, leaving them, and re-forming in place. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/str.h"
#include "libworker/comm/bootstrap.h"
#include "libworker/step/context.h"

enum { LOST_MAX = 64, REFORM_PAUSE_US = 20000 };

/* Our address on the route to `peer`: connecting a datagram socket reads the routing table and
 * sends nothing. */
static bool address_towards(const char *peer, char ret[NI_MAXHOST])
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found = NULL;
    if (getaddrinfo(peer, "9", &hints, &found))
        return false;
    bool done = false;
    for (struct addrinfo *at = found; at && !done; at = at->ai_next) {
        int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct sockaddr_storage own;
        socklen_t size = sizeof(own);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0 &&
            getsockname(fd, (struct sockaddr *)&own, &size) == 0)
            done = getnameinfo((struct sockaddr *)&own, size, ret, NI_MAXHOST, NULL, 0,
                               NI_NUMERICHOST) == 0;
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(found);
    return done;
}

static int listen_once(struct wk_context *ctx, struct error *err)
{
    char address[NI_MAXHOST] = "127.0.0.1";
    if (ctx->listener)
        return 0;
    const char *bind = settings_text(&ctx->settings, SETTING_BIND_ADDRESS);
    if (*bind)
        (void)str_copy(address, sizeof(address), bind);
    else if (*ctx->place.master_addr && !address_towards(ctx->place.master_addr, address))
        return error_set(err, WK_EUNAVAILABLE, "MASTER_ADDR %s leads nowhere",
                         ctx->place.master_addr);
    return comm_listen(address, &ctx->listener, err);
}

static bool superseded(void *arg)
{
    struct wk_context *ctx = arg;
    int64_t grace_ms;
    if (!ctx->session)
        return signal_count() > ctx->signals_seen;
    return ctx->session->ops->target(ctx->session) > ctx->generation ||
           ctx->session->ops->stopping(ctx->session, &grace_ms);
}

static void connecting(void *arg, const struct wk_comm_status *status)
{
    struct wk_context *ctx = arg;
    (void)pthread_mutex_lock(&ctx->lock);
    ctx->connecting = *status;
    (void)pthread_mutex_unlock(&ctx->lock);
}

static int timeout_ms(const struct wk_context *ctx, enum setting setting)
{
    int64_t timeout_ms = settings_integer(&ctx->settings, setting);
    return timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms;
}

int context_meet(struct wk_context *ctx, struct error *err)
{
    int rc = alike_check(ctx, err);
    if (!rc)
        rc = kernels_agree(ctx, err);
    return rc ? rc : units_meet(ctx, err);
}

static int connect_group(struct wk_context *ctx, struct comm_options *options, struct error *err)
{
    struct wk_comm *comm;
    options->connect_timeout_ms = timeout_ms(ctx, SETTING_CONNECT_TIMEOUT);
    options->timeout_ms = timeout_ms(ctx, SETTING_COMM_TIMEOUT);
    options->tcp_connections = (int)settings_integer(&ctx->settings, SETTING_COMM_CONNECTIONS);
    options->ways = settings_text(&ctx->settings, SETTING_COMM_WAYS);
    options->cancelled = superseded;
    options->cancelled_arg = ctx;
    options->waits = connecting;
    options->waits_arg = ctx;
    (void)pthread_mutex_lock(&ctx->lock);
    ctx->generation = options->generation;
    (void)pthread_mutex_unlock(&ctx->lock);
    int rc = comm_connect(ctx->listener, options, &comm, err);
    (void)pthread_mutex_lock(&ctx->lock);
    ctx->connecting = (struct wk_comm_status){0};
    ctx->comm = rc ? NULL : comm;
    if (!rc) {
        ctx->rank = options->rank;
        ctx->world = options->world;
    }
    (void)pthread_mutex_unlock(&ctx->lock);
    if (rc)
        return rc;
    return ctx->ready ? context_meet(ctx, err) : 0;
}

static int join_alone(struct wk_context *ctx, struct error *err)
{
    static const char *const endpoint[] = {""};
    static const int host[] = {0};
    struct comm_options options = {.world = 1, .endpoints = endpoint, .hosts = host};
    return connect_group(ctx, &options, err);
}

static void notice_remark(void *arg, const char *text)
{
    context_notice(arg, "%s", text);
}

/* torchrun, mpirun, Slurm: one generation, found through MASTER_ADDR. */
static int join_static(struct wk_context *ctx, struct error *err)
{
    int rc = listen_once(ctx, err);
    if (rc)
        return rc;
    struct comm_table table;
    struct comm_bootstrap_options bootstrap = {
        .rank = ctx->place.rank,
        .world = ctx->place.world,
        .master_addr = ctx->place.master_addr,
        .master_port = ctx->place.master_port,
        .endpoint = comm_listener_endpoint(ctx->listener),
        .run = ctx->place.run,
        .port_is_shared = ctx->place.port_is_shared,
        .timeout_ms = timeout_ms(ctx, SETTING_RENDEZVOUS_TIMEOUT),
        .remark = notice_remark,
        .remark_arg = ctx,
        .cancelled = superseded,
        .cancelled_arg = ctx,
    };
    rc = comm_bootstrap(&bootstrap, &table, err);
    if (rc)
        return rc;
    struct comm_options options = {
        .rank = ctx->place.rank,
        .world = ctx->place.world,
        .endpoints = table.endpoint_list,
        .hosts = table.hosts,
        .generation = table.generation,
    };
    memcpy(options.secret, table.secret, sizeof(options.secret));
    rc = connect_group(ctx, &options, err);
    ctx->local_rank = ctx->place.local_rank;
    comm_table_fini(&table);
    return rc;
}

/* The next generation above the present one, from the session's agent. */
static int join_next(struct wk_context *ctx, struct error *err)
{
    struct session_group group = {0};
    int rc = listen_once(ctx, err);
    if (!rc)
        rc = ctx->session->ops->join(ctx->session, comm_listener_endpoint(ctx->listener),
                                     ctx->generation, &group, err);
    if (rc)
        return rc;
    struct comm_options options = {
        .rank = group.rank,
        .world = group.world,
        .endpoints = group.endpoint_list,
        .hosts = group.hosts,
        .generation = group.generation,
    };
    memcpy(options.secret, group.secret, sizeof(options.secret));
    (void)str_copy(ctx->resume_from, sizeof(ctx->resume_from), group.resume_from);
    rc = connect_group(ctx, &options, err);
    ctx->local_rank = group.local_rank;
    session_group_fini(&group);
    return rc;
}

void context_leave(struct wk_context *ctx)
{
    (void)pthread_mutex_lock(&ctx->lock);
    struct wk_comm *comm = ctx->comm;
    ctx->comm = NULL;
    (void)pthread_mutex_unlock(&ctx->lock);
    if (comm)
        units_leave(ctx);
    wk_comm_close(comm);
}

bool context_mendable(int code)
{
    /* A collective's timeout is not recoverable this way: it would happen again. */
    return code == WK_EPEER || code == WK_EABORT;
}

static void report_lost(struct wk_context *ctx)
{
    int ranks[LOST_MAX], n = 0;
    if (ctx->comm)
        n = wk_comm_lost(ctx->comm, ranks, LOST_MAX);
    ctx->session->ops->lost(ctx->session, ctx->generation, ranks, n < LOST_MAX ? n : LOST_MAX);
}

static int join_until_connected(struct wk_context *ctx, struct error *err)
{
    for (;;) {
        uint64_t before = ctx->generation;
        *err = (struct error){0};
        int rc = join_next(ctx, err);
        if (!rc || ctx->generation == before)
            return rc;
        /* It got a generation but could not connect it. */
        if (!context_mendable(rc) && rc != WK_ETIMEOUT && rc != WK_EUNAVAILABLE)
            return rc;
        if (rc != WK_EABORT)
            report_lost(ctx);
        context_leave(ctx); /* it may have broken after connecting */
        usleep(REFORM_PAUSE_US);
    }
}

int context_join(struct wk_context *ctx, struct error *err)
{
    if (ctx->session)
        return join_until_connected(ctx, err);
    int rc = ctx->place.world == 1 ? join_alone(ctx, err) : join_static(ctx, err);
    return rc && boundary_stopping(ctx) ? error_set(err, WK_ESTOPPED, "asked to stop") : rc;
}

int context_reform(struct wk_context *ctx, struct error *err)
{
    for (;;) {
        int rc = join_until_connected(ctx, err);
        if (ctx->rank != 0) /* before the next rank 0 opens them, which it does after all have
                             * agreed */
            report_release(ctx);
        if (!rc)
            rc = state_agree(ctx, err);
        if (!rc) {
            window_begin_again(ctx);
            report_follow(ctx);
            return 0;
        }
        if (!context_mendable(rc))
            return rc;
        report_lost(ctx);
        context_leave(ctx);
    }
}

/* Lost ranks are not the program's fault, except those that said goodbye. */
void context_explain(const struct wk_context *ctx, struct error *err)
{
    int lost;
    if (!ctx->comm || *err->hint || !*units_sentence(ctx))
        return;
    if (err->code == WK_EPEER && !wk_comm_lost(ctx->comm, &lost, 1))
        error_hint(err,
                   "its loop ended before the others', by an error of its own, which it reports, "
                   "or a break: to leave together call wk_trigger on any rank and ask wk_triggered "
                   "on all");
    if (err->code == WK_EMISMATCH)
        error_hint(err, "the ranks' loops have parted: all make the same calls and take as many "
                        "batches, also in an evaluation; what one finds out all learn by "
                        "wk_triggered or wk_reduce_value");
}

int context_break(struct wk_context *ctx, int code)
{
    if (ctx->phase == STEP_BROKEN)
        return ctx->error.code;
    struct error err = {0};
    (void)error_set(&err, code, "%s", units_sentence(ctx));
    context_explain(ctx, &err);
    bool mend = context_mendable(code) && ctx->session;
    /* Inform the others first: they wait for this rank in collectives that cannot complete. */
    if (ctx->comm)
        wk_comm_abort(ctx->comm);
    units_drain(ctx);
    if (ctx->saver && ctx->is_sharded)
        saver_cancel(ctx->saver); /* a part of its checkpoint may never arrive */
    /* In a gang that is asked to stop a leaving rank is not a loss. */
    if (mend && code == WK_EPEER && !boundary_stopping(ctx)) {
        context_notice(ctx, "generation %llu is broken: %s%s%s",
                       (unsigned long long)ctx->generation, err.text, *err.hint ? "; " : "",
                       err.hint);
        report_lost(ctx);
    }
    context_leave(ctx);
    window_roll_back(ctx);
    if (mend)
        return 0;
    if (boundary_stopping(ctx))
        (void)error_set(&err, WK_ESTOPPED, "asked to stop");
    return context_fail(ctx, &err);
}
