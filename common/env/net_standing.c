#include "common/env/net_standing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/base/limits.h"
#include "common/base/murmur3.h"
#include "common/base/str.h"

enum { PEERS_MAX = 65536 };

struct origin { /* all peers of one address */
    char name[NET_PEER_NAME_MAX];
    int peers, strangers;
    size_t half[NET_STANDINGS], unsent;
};

static const size_t half_max[NET_STANDINGS] = {
    [NET_STRANGER] = MAX_STRANGERS_HALF_BYTES,
    [NET_CALLER] = MAX_CALLERS_HALF_BYTES,
    [NET_AGENT] = MAX_AGENTS_HALF_BYTES,
};

bool standing_enter(struct peer *p)
{
    struct strmap *all = &p->listener->origins;
    struct origin *origin = strmap_get(all, p->name);
    if (!origin) {
        origin = calloc(1, sizeof(*origin));
        if (!origin || strmap_set(all, p->name, origin, NULL)) {
            free(origin);
            return false;
        }
        (void)str_copy(origin->name, sizeof(origin->name), p->name);
    }
    uint64_t digest[2];
    murmur3(p->name, strlen(p->name), digest);
    p->whose = digest[0];
    p->origin = origin;
    origin->peers++;
    origin->strangers++;
    standing_count(p);
    return true;
}

void standing_count(struct peer *p)
{
    struct sp_listener *l = p->listener;
    size_t half = p->received.size, unsent = p->unsent.size - p->unsent_at;
    if (!p->origin)
        return;
    if (p->standing == NET_AGENT) /* only others have a sum for it */
        unsent = 0;
    l->half[p->standing] += half - p->half_bytes;
    p->origin->half[p->standing] += half - p->half_bytes;
    l->unsent_bytes += unsent - p->unsent_bytes;
    p->origin->unsent += unsent - p->unsent_bytes;
    p->half_bytes = half;
    p->unsent_bytes = unsent;
}

void standing_change(struct peer *p, enum net_standing to)
{
    struct origin *origin = p->origin;
    if (p->standing == to)
        return;
    if (origin) {
        p->listener->half[p->standing] -= p->half_bytes;
        origin->half[p->standing] -= p->half_bytes;
        p->half_bytes = 0;
        origin->strangers += (to == NET_STRANGER) - (p->standing == NET_STRANGER);
    }
    p->standing = to;
    standing_count(p);
}

/* Its buffers are empty. */
void standing_leave(struct peer *p)
{
    struct origin *origin = p->origin;
    if (!origin)
        return;
    standing_count(p);
    origin->strangers -= p->standing == NET_STRANGER;
    if (--origin->peers == 0) {
        strmap_remove(&p->listener->origins, origin->name);
        free(origin);
    }
    p->origin = NULL;
}

static const struct origin *largest_origin(const struct sp_listener *l,
                                           size_t (*held)(const struct origin *, enum net_standing),
                                           enum net_standing standing)
{
    const struct origin *most = NULL;
    for (struct map_entry *e = strmap_first(&l->origins); e; e = map_next(e))
        if (!most || held(e->value, standing) > held(most, standing))
            most = e->value;
    return most && held(most, standing) > 0 ? most : NULL;
}

static size_t half_of(const struct origin *origin, enum net_standing standing)
{
    return origin->half[standing];
}

static size_t unsent_of(const struct origin *origin, enum net_standing standing)
{
    (void)standing;
    return origin->unsent;
}

static size_t strangers_of(const struct origin *origin, enum net_standing standing)
{
    (void)standing;
    return (size_t)origin->strangers;
}

/* The loop reports its end; its earlier data is not read any more. */
static void peer_doom(struct peer *p)
{
    p->doomed = true;
    if (p->listener->serving != p) /* otherwise the request being served is there */
        buf_fini(&p->received);
    buf_fini(&p->unsent);
    p->unsent_at = 0;
    standing_count(p);
    (void)shutdown(p->fd, SHUT_RDWR);
}

bool standing_may_receive(struct peer *p, size_t more)
{
    struct sp_listener *l = p->listener;
    enum net_standing standing = p->standing;
    if (standing == NET_STRANGER && l->classifies &&
        p->received.size + more > MAX_STRANGER_HALF_BYTES)
        return false;
    while (l->half[standing] + more > half_max[standing]) {
        const struct origin *most = largest_origin(l, half_of, standing);
        struct peer *one, *victim = p;
        list_each(one, &l->peers, link)
            if (one->origin == most && one->standing == standing && !one->doomed &&
                one->half_bytes > victim->half_bytes)
                victim = one;
        if (victim == p)
            return false;
        peer_doom(victim);
    }
    return true;
}

bool standing_may_leave_unread(struct peer *p, size_t more)
{
    struct sp_listener *l = p->listener;
    if (p->standing == NET_AGENT || !l->classifies)
        return true;
    if (p->unsent_bytes > 0 && p->unsent_bytes + more > MAX_CALLER_UNSENT_BYTES)
        return false;
    while (l->unsent_bytes + more > MAX_CALLERS_UNSENT_BYTES) {
        const struct origin *most = largest_origin(l, unsent_of, NET_CALLER);
        struct peer *one, *victim = p;
        list_each(one, &l->peers, link)
            if (one->origin == most && !one->doomed && one->unsent_bytes > victim->unsent_bytes)
                victim = one;
        if (victim == p)
            return false;
        peer_doom(victim);
    }
    return true;
}

size_t standing_peers_max(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur / 8 * 5 > PEERS_MAX)
        return PEERS_MAX;
    return files.rlim_cur / 8 * 5; /* REST has a quarter, files the rest */
}

bool standing_evict_stranger(struct sp_listener *l)
{
    const struct origin *most =
        l->classifies ? largest_origin(l, strangers_of, NET_STRANGER) : NULL;
    struct peer *one;
    list_each(one, &l->peers, link) /* in the order of arrival */
        if (most && one->origin == most && one->standing == NET_STRANGER && !one->doomed) {
            peer_doom(one);
            return true;
        }
    return false;
}
