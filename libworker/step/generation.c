#include "libworker/step/generation.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/str.h"
#include "libworker/comm/bootstrap.h"
#include "libworker/device/replay.h"
#include "libworker/parallel/wires.h"
#include "libworker/step/agree_config.h"
#include "libworker/step/agree_model.h"
#include "libworker/step/agree_state.h"
#include "libworker/step/break.h"
#include "libworker/step/context.h"
#include "libworker/step/signal.h"

enum { REFORM_PAUSE_US = 20000 };

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
    if (ctx->group.listener)
        return 0;
    const char *bind = settings_text(&ctx->settings, SETTING_BIND_ADDRESS);
    if (*bind)
        (void)str_copy(address, sizeof(address), bind);
    else if (*ctx->place.master_addr && !address_towards(ctx->place.master_addr, address))
        return error_set(err, WK_EUNAVAILABLE, "MASTER_ADDR %s leads nowhere",
                         ctx->place.master_addr);
    return comm_listen(address, &ctx->group.listener, err);
}

static bool superseded(void *arg)
{
    struct wk_context *ctx = arg;
    int64_t grace_ms;
    if (!ctx->session)
        return signal_count() > ctx->stop.signals_seen;
    return ctx->session->ops->target(ctx->session) > ctx->group.generation ||
           ctx->session->ops->stopping(ctx->session, &grace_ms);
}

static void note_connecting(void *arg, const struct wk_comm_status *status)
{
    membership_connecting(&((struct wk_context *)arg)->group, status);
}

static int timeout_ms(const struct wk_context *ctx, enum setting setting)
{
    int64_t timeout_ms = settings_integer(&ctx->settings, setting);
    return timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms;
}

int context_meet(struct wk_context *ctx, struct error *err)
{
    replay_drop(ctx->compute.queue, NULL); /* those of another generation's memory */
    int rc = config_agree(ctx, err);
    if (!rc)
        rc = kernels_agree(ctx, err);
    if (!rc)
        rc = models_agree(ctx, err);
    if (!rc)
        rc = wires_meet(ctx->compute.wires, ctx->group.comm, err);
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
    options->waits = note_connecting;
    options->waits_arg = ctx;
    membership_begin(&ctx->group, options->generation);
    int rc = comm_connect(ctx->group.listener, options, &comm, err);
    if (rc) {
        membership_connecting(&ctx->group, &(struct wk_comm_status){0});
        return rc;
    }
    membership_connected(&ctx->group, comm, options->rank, options->world);
    return ctx->prepared.ready ? context_meet(ctx, err) : 0;
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
        .endpoint = comm_listener_endpoint(ctx->group.listener),
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
    ctx->group.local_rank = ctx->place.local_rank;
    comm_table_fini(&table);
    return rc;
}

/* The next generation above the present one, from the session's agent. */
static int join_next(struct wk_context *ctx, struct error *err)
{
    struct session_group group = {0};
    int rc = listen_once(ctx, err);
    if (!rc)
        rc = ctx->session->ops->join(ctx->session, comm_listener_endpoint(ctx->group.listener),
                                     ctx->group.generation, &group, err);
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
    (void)str_copy(ctx->group.resume_from, sizeof(ctx->group.resume_from), group.resume_from);
    rc = connect_group(ctx, &options, err);
    ctx->group.local_rank = group.local_rank;
    session_group_fini(&group);
    return rc;
}

static int join_until_connected(struct wk_context *ctx, struct error *err)
{
    for (;;) {
        uint64_t before = ctx->group.generation;
        *err = (struct error){0};
        int rc = join_next(ctx, err);
        if (!rc || ctx->group.generation == before)
            return rc;
        /* It got a generation but could not connect it. */
        if (!context_mendable(rc) && rc != WK_ETIMEOUT && rc != WK_EUNAVAILABLE)
            return rc;
        if (context_cause(ctx, rc) != WK_EABORT)
            context_report_lost(ctx);
        context_leave(ctx); /* it may have broken after connecting */
        usleep(REFORM_PAUSE_US);
    }
}

int context_join(struct wk_context *ctx, struct error *err)
{
    if (ctx->session)
        return join_until_connected(ctx, err);
    int rc = ctx->place.world == 1 ? join_alone(ctx, err) : join_static(ctx, err);
    return rc && stop_requested(ctx) ? error_set(err, WK_ESTOPPED, "asked to stop") : rc;
}

int context_reform(struct wk_context *ctx, struct error *err)
{
    for (;;) {
        int rc = join_until_connected(ctx, err);
        if (ctx->group.rank != 0) /* before the next rank 0 opens them, which it does after all have
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
        context_report_lost(ctx);
        context_leave(ctx);
    }
}
