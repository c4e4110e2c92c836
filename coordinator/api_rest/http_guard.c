#include "coordinator/api_rest/http_guard.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/base/str.h"
#include "common/env/clock_os.h"
#include "coordinator/api_rest/http_limits.h"
#include "coordinator/api_rest/http_wire.h"

struct address {
    char name[INET6_ADDRSTRLEN];
    int count;
};

struct guarded { /* one connection */
    struct list link;
    struct address *from;
    int fd;
    struct tls_web_session *tls;
    enum guard_state state;
    int64_t since_ms;
};

unsigned guard_connections_max(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur / 4 > HTTP_CONNECTIONS_MAX)
        return HTTP_CONNECTIONS_MAX;
    return (unsigned)files.rlim_cur / 4;
}

static int64_t now_ms(const struct guard *guard)
{
    return guard->clock.now_ms(guard->clock.self);
}

void guard_init(struct guard *guard)
{
    int places = (int)guard_connections_max();
    *guard = (struct guard){.clock = clock_os_coarse(), .most = places - places / 32};
    pthread_mutex_init(&guard->mutex, NULL);
    list_init(&guard->waiting);
    list_init(&guard->busy);
}

void guard_fini(struct guard *guard)
{
    strmap_free_values(&guard->addresses);
    pthread_mutex_destroy(&guard->mutex);
}

static struct address *address_of(struct guard *guard, const char *name)
{
    struct address *address = strmap_get(&guard->addresses, name);
    if (address)
        return address;
    address = calloc(1, sizeof(*address));
    if (!address || strmap_set(&guard->addresses, name, address, NULL)) {
        free(address);
        return NULL;
    }
    (void)str_copy(address->name, sizeof(address->name), name);
    return address;
}

/* The usual end-of-connection callback follows: guard_leave runs later. */
static void hang_up(struct guarded *guarded)
{
    (void)shutdown(guarded->fd, SHUT_RDWR);
    list_remove(&guarded->link);
}

static void make_room(struct guard *guard)
{
    struct guarded *one, *victim = NULL;
    list_each(one, &guard->waiting, link)
        if (!victim || one->from->count > victim->from->count)
            victim = one;
    if (!victim)
        return;
    hang_up(victim);
    guard->evicted++;
}

static struct guarded *add_connection(struct guard *guard, int fd, const char *address)
{
    struct guarded *guarded = calloc(1, sizeof(*guarded));
    if (!guarded)
        return NULL;
    pthread_mutex_lock(&guard->mutex);
    guarded->from = address_of(guard, address);
    if (guarded->from) {
        guarded->fd = fd;
        guarded->since_ms = now_ms(guard);
        guarded->from->count++;
        if (++guard->count > guard->most)
            make_room(guard);
        list_push_back(&guard->waiting, &guarded->link);
    }
    pthread_mutex_unlock(&guard->mutex);
    if (guarded->from)
        return guarded;
    free(guarded);
    return NULL;
}

static void remove_connection(struct guard *guard, struct guarded *guarded)
{
    pthread_mutex_lock(&guard->mutex);
    list_remove(&guarded->link);
    guard->count--;
    if (--guarded->from->count == 0) {
        strmap_remove(&guard->addresses, guarded->from->name);
        free(guarded->from);
    }
    pthread_mutex_unlock(&guard->mutex);
    tls_web_release(guarded->tls);
    free(guarded);
}

void guard_peer(struct MHD_Connection *connection, char ret[INET6_ADDRSTRLEN])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *from = info ? info->client_addr : NULL;
    const void *address = NULL;
    if (from && from->sa_family == AF_INET)
        address = &((const struct sockaddr_in *)(const void *)from)->sin_addr;
    else if (from && from->sa_family == AF_INET6)
        address = &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
    if (!address || !inet_ntop(from->sa_family, address, ret, INET6_ADDRSTRLEN))
        ret[0] = 0;
}

static void start_tls(struct guard *guard, struct guarded *guarded,
                      struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info)
        guarded->tls = tls_web_take(guard->tls, info->tls_session, guarded->fd);
}

void guard_on_connection(void *arg, struct MHD_Connection *connection, void **context,
                         enum MHD_ConnectionNotificationCode what)
{
    struct guard *guard = arg;
    char peer[INET6_ADDRSTRLEN];
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*context)
            remove_connection(guard, *context);
        *context = NULL;
        return;
    }
    http_wire_watch(guard->tls);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    guard_peer(connection, peer);
    *context = info ? add_connection(guard, info->connect_fd, peer) : NULL;
    if (guard->tls && *context)
        start_tls(guard, *context, connection);
}

void guard_request(struct guard *guard, struct MHD_Connection *connection, enum guard_state state)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct guarded *guarded = info ? info->socket_context : NULL;
    if (!guarded)
        return;
    pthread_mutex_lock(&guard->mutex);
    bool hung_up = list_empty(&guarded->link);
    guarded->state = state;
    guarded->since_ms = now_ms(guard);
    if (!hung_up) {
        list_remove(&guarded->link);
        list_push_back(state == GUARD_BUSY ? &guard->busy : &guard->waiting, &guarded->link);
    }
    pthread_mutex_unlock(&guard->mutex);
}

static int64_t patience_ms(enum guard_state state)
{
    switch (state) {
    case GUARD_FRESH:
        return GUARD_FRESH_MS;
    case GUARD_IDLE:
        return GUARD_IDLE_MS;
    case GUARD_BODY:
        return GUARD_BODY_MS;
    case GUARD_BUSY:
        break;
    }
    return INT64_MAX;
}

void guard_sweep(struct guard *guard)
{
    int64_t now = now_ms(guard);
    pthread_mutex_lock(&guard->mutex);
    for (struct list *at = guard->waiting.next, *next; at != &guard->waiting; at = next) {
        struct guarded *one = list_entry(at, struct guarded, link);
        next = at->next;
        if (now - one->since_ms > patience_ms(one->state)) {
            hang_up(one);
            guard->late++;
        }
    }
    pthread_mutex_unlock(&guard->mutex);
}
