#include "agent/node_channels.h"

#include <stdlib.h>
#include <string.h>

struct node_channels {
    struct channel_host host;
    struct list all;
    struct loop_timer sweep;
    bool closed;
};

static struct node_channel *channel_of(struct node_channels *channels, struct list *at)
{
    return at == &channels->all ? NULL : list_entry(at, struct node_channel, link);
}

static void sweep(void *arg)
{
    struct node_channels *channels = arg;
    for (struct node_channel *c = channel_of(channels, channels->all.next), *next; c; c = next) {
        next = channel_of(channels, c->link.next);
        if (node_channel_is_idle(c))
            node_channel_free(c);
    }
}

/* Not now: the channel's own functions are running. */
static void on_idle(void *arg)
{
    struct node_channels *channels = arg;
    if (!channels->closed && !loop_timer_armed(&channels->sweep))
        loop_timer_set(channels->host.loop, &channels->sweep, loop_now_ms(channels->host.loop),
                       sweep, channels);
}

int node_channels_new(const struct channel_host *host, struct node_channels **ret,
                      struct error *err)
{
    struct node_channels *channels = calloc(1, sizeof(*channels));
    if (!channels)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for channels");
    channels->host = *host;
    channels->host.idle = on_idle;
    channels->host.arg = channels;
    list_init(&channels->all);
    *ret = channels;
    return 0;
}

static struct node_channel *find(struct node_channels *channels, const char *id)
{
    struct node_channel *c = channel_of(channels, channels->all.next);
    while (c && strcmp(c->id, id) != 0)
        c = channel_of(channels, c->link.next);
    return c;
}

static bool is_listed(const char *id, Muster__Terminal *const *terminals, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(terminals[i]->id, id) == 0)
            return true;
    return false;
}

/* One that has ended here stays until the list lacks it: an older answer may still name it. */
void node_channels_set(struct node_channels *channels, Muster__Terminal *const *terminals,
                       size_t count)
{
    for (struct node_channel *c = channel_of(channels, channels->all.next); c;
         c = channel_of(channels, c->link.next))
        if (c->wanted && !is_listed(c->id, terminals, count))
            node_channel_drop(c);
    for (size_t i = 0; i < count; i++) {
        struct node_channel *fresh = find(channels, terminals[i]->id)
                                         ? NULL
                                         : node_channel_open(&channels->host, terminals[i]);
        if (fresh)
            list_push_back(&channels->all, &fresh->link);
    }
    on_idle(channels);
}

void node_channels_close(struct node_channels *channels)
{
    if (!channels)
        return;
    channels->closed = true;
    loop_timer_cancel(channels->host.loop, &channels->sweep);
    for (struct node_channel *c = channel_of(channels, channels->all.next); c;
         c = channel_of(channels, c->link.next))
        node_channel_drop(c);
}

void node_channels_free(struct node_channels *channels)
{
    if (!channels)
        return;
    while (!list_empty(&channels->all))
        node_channel_free(list_first(&channels->all, struct node_channel, link));
    free(channels);
}
