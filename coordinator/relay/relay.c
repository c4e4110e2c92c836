#include "coordinator/relay/relay.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/map.h"
#include "common/base/parse.h"

enum { EMPTY_VERSION = 1, FNV_PRIME = 0x1b3 };

struct opens { /* of one tenant */
    int64_t minute;
    int count;
};

struct relay {
    int64_t idle_ms;
    struct list channels;
    int count;
    struct strmap opens; /* tenant -> struct opens */
};

int relay_new(int64_t idle_ms, struct relay **ret, struct error *err)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    if (!relay)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    relay->idle_ms = idle_ms > 0 ? idle_ms : RELAY_IDLE_MS;
    list_init(&relay->channels);
    *ret = relay;
    return 0;
}

void relay_forget(struct relay *relay, struct channel *channel)
{
    channel_free(channel);
    relay->count--;
}

void relay_free(struct relay *relay)
{
    if (!relay)
        return;
    while (!list_empty(&relay->channels))
        relay_forget(relay, list_first(&relay->channels, struct channel, link));
    strmap_free_values(&relay->opens);
    free(relay);
}

struct channel *relay_first(const struct relay *relay)
{
    return list_empty(&relay->channels) ? NULL : list_first(&relay->channels, struct channel, link);
}

struct channel *relay_next(const struct relay *relay, const struct channel *channel)
{
    struct list *next = channel->link.next;
    return next == &relay->channels ? NULL : list_entry(next, struct channel, link);
}

/* Without memory the rate is not counted: the other limits remain. */
static bool rate_allows(struct relay *relay, const char *tenant, int64_t now_ms)
{
    struct opens *opens = strmap_get(&relay->opens, tenant);
    if (!opens) {
        opens = calloc(1, sizeof(*opens));
        if (!opens || strmap_set(&relay->opens, tenant, opens, NULL)) {
            free(opens);
            return true;
        }
    }
    int64_t minute = now_ms / RELAY_MINUTE_MS;
    if (minute != opens->minute)
        *opens = (struct opens){.minute = minute};
    if (opens->count == MAX_CHANNEL_OPENS)
        return false;
    opens->count++;
    return true;
}

/* One that is over counts until its client has read the rest: it uses a place of all. */
bool relay_has_room(struct relay *relay, const struct channel_wish *wish, int64_t now_ms,
                    enum limit *ret_limit)
{
    int of_job = 0, of_tenant = 0;
    for (struct channel *c = relay_first(relay); c; c = relay_next(relay, c)) {
        if (!c->left && strcmp(c->tenant, wish->tenant) == 0)
            of_tenant++;
        if (!c->left && strcmp(c->job, wish->job) == 0)
            of_job++;
    }
    if (of_job >= MAX_JOB_CHANNELS)
        *ret_limit = LIMIT_JOB_CHANNELS;
    else if (of_tenant >= MAX_TENANT_CHANNELS)
        *ret_limit = LIMIT_TENANT_CHANNELS;
    else if (relay->count >= MAX_CHANNELS)
        *ret_limit = LIMIT_CHANNELS;
    else if (!rate_allows(relay, wish->tenant, now_ms))
        *ret_limit = LIMIT_CHANNEL_OPENS;
    else
        return true;
    return false;
}

int relay_open(struct relay *relay, const struct channel_wish *wish, const uint8_t *id,
               int64_t now_ms, struct channel **ret, struct error *err)
{
    int rc = channel_new(wish, id, now_ms, ret, err);
    if (rc)
        return rc;
    list_push_back(&relay->channels, &(*ret)->link);
    relay->count++;
    return 0;
}

static struct channel *find(const struct relay *relay, const char *id)
{
    for (struct channel *c = relay_first(relay); c; c = relay_next(relay, c))
        if (strcmp(c->id, id) == 0)
            return c;
    return NULL;
}

struct channel *relay_of_owner(const struct relay *relay, const char *id, const char *owner)
{
    struct channel *channel = find(relay, id);
    return channel && strcmp(channel->owner, owner) == 0 ? channel : NULL;
}

struct channel *relay_of_node(const struct relay *relay, const char *id, const char *node,
                              uint64_t incarnation)
{
    struct channel *channel = find(relay, id);
    bool its = channel && channel->announced && channel->incarnation == incarnation &&
               strcmp(channel->node, node) == 0;
    return its ? channel : NULL;
}

/* The sentence is for the person at the terminal. */
static void end_if_due(const struct relay *relay, struct channel *channel, int64_t now_ms)
{
    char idle[FORMAT_MAX];
    if (now_ms - channel->client_ms >= RELAY_LOST_MS)
        (void)channel_stop(channel, now_ms, "its client is gone");
    else if (!channel->taken && now_ms - channel->opened_ms >= RELAY_UNTAKEN_MS)
        (void)channel_stop(channel, now_ms,
                           "the agent of node %s did not open it: it is of an older version, or "
                           "does not answer",
                           channel->node);
    else if (now_ms - channel->used_ms >= relay->idle_ms)
        (void)channel_stop(channel, now_ms, "nothing was typed or printed for %s",
                           format_duration_exact(relay->idle_ms, idle));
    else if (now_ms - channel->opened_ms >= RELAY_LIFE_MS)
        (void)channel_stop(channel, now_ms, "it was open for %d hours, the longest time",
                           RELAY_LIFE_MS / (60 * RELAY_MINUTE_MS));
}

bool relay_sweep(struct relay *relay, int64_t now_ms)
{
    for (struct channel *c = relay_first(relay), *next; c; c = next) {
        next = relay_next(relay, c);
        if (!c->over)
            end_if_due(relay, c, now_ms);
        else if (c->told && (c->left || now_ms - c->over_ms >= RELAY_LINGER_MS))
            relay_forget(relay, c);
    }
    return relay->count > 0;
}

bool relay_wants(const struct channel *channel, const char *node)
{
    return channel->announced && !channel->over && strcmp(channel->node, node) == 0;
}

uint64_t relay_version(const struct relay *relay, const char *node)
{
    uint64_t version = EMPTY_VERSION;
    for (struct channel *c = relay_first(relay); c; c = relay_next(relay, c)) {
        if (!relay_wants(c, node))
            continue;
        for (const char *digit = c->id; *digit; digit++)
            version = (version ^ (uint8_t)*digit) * ((1ULL << 40) + FNV_PRIME); /* FNV-1a */
    }
    return version ? version : EMPTY_VERSION;
}

bool relay_agent_asks(struct relay *relay, const char *node, uint64_t incarnation, int64_t now_ms)
{
    bool any = false;
    for (struct channel *c = relay_first(relay); c; c = relay_next(relay, c))
        if (c->incarnation != incarnation && relay_wants(c, node))
            any |= channel_stop(c, now_ms, "the agent of node %s was restarted", node);
    return any;
}
