#include "coordinator/node_retention.h"

#include "coordinator/retention.h"

static void on_time(void *arg);

static void check_again_in(struct node_retention *nodes, int64_t in_ms)
{
    loop_timer_set(nodes->loop, &nodes->timer, loop_now_ms(nodes->loop) + in_ms, on_time, nodes);
}

static struct nodes_forget limits_of(const struct node_retention *nodes, int known)
{
    int64_t wall_ms = retention_wall_ms(nodes->ages);
    int64_t lost_ms = nodes->keep_ms < RETENTION_LOST_MS ? nodes->keep_ms : RETENTION_LOST_MS;
    struct nodes_forget limits = {.max = RETENTION_NODES_BATCH, .keep = nodes->keep};
    if (retention_ages_count(nodes->ages)) {
        limits.beyond_before_wall_ms = wall_ms - lost_ms;
        limits.old_before_wall_ms = wall_ms - nodes->keep_ms;
        limits.set_aside_before_wall_ms = wall_ms - nodes->keep_ms * RETENTION_SET_ASIDE_TIMES;
    }
    if (known > RETENTION_NODES_NEARLY_FULL)
        limits.beyond_before_wall_ms = INT64_MAX;
    return limits;
}

static void on_time(void *arg)
{
    struct node_retention *nodes = arg;
    const struct service_host *host = &nodes->host;
    int before = cluster_nodes_count(host->cluster(host->self));
    struct event event = {.kind = EVENT_NODES_FORGET, .nodes_forget = limits_of(nodes, before)};
    host->step(host->self, &event);
    int forgotten = before - cluster_nodes_count(host->cluster(host->self));
    check_again_in(nodes,
                   forgotten < RETENTION_NODES_BATCH ? RETENTION_EVERY_MS : RETENTION_NODES_MS);
}

void node_retention_start(struct node_retention *nodes)
{
    enum { DAY_MS = 86400000 };
    if (!nodes->keep)
        nodes->keep = RETENTION_KEEP_NODES;
    if (!nodes->keep_ms)
        nodes->keep_ms = (int64_t)RETENTION_KEEP_NODES_DAYS * DAY_MS;
    check_again_in(nodes, RETENTION_NODES_FIRST_MS);
}

void node_retention_fini(struct node_retention *nodes)
{
    if (nodes->loop)
        loop_timer_cancel(nodes->loop, &nodes->timer);
}
