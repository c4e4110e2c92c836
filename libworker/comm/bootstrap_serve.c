/* Rank 0 collects the entries of all ranks, then sends them the table. */
#include "libworker/comm/bootstrap_serve.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/bootstrap_protocol.h"
#include "libworker/comm/bootstrap_rival.h"
#include "libworker/comm/clock.h"
#include "libworker/comm/endpoint.h"

enum {
    CALLERS_MAX = COMM_WORLD_MAX + 32,
    NAMES_MAX = 8,
    CALLER_MS = 5000,
    CALLER_LEAST_MS = 100, /* to send its entry, when others wait for the place */
};

struct caller {
    int fd;
    int64_t deadline_ms; /* for its entry */
    int64_t entered_ms;  /* time of its entry */
    struct bootstrap_greeting greeting;
    struct bootstrap_entry entry;
    size_t got;
};

struct server {
    const struct comm_bootstrap_options *options;
    struct caller callers[CALLERS_MAX];
    int count;
    bool starved; /* a connection waits, but no descriptor is left */
    struct bootstrap_rivals rivals;
    int port; /* this rank listens on it */
    char hosts[COMM_WORLD_MAX][BOOTSTRAP_HOST_BYTES];
    struct bootstrap_row rows[COMM_WORLD_MAX];
};

static bool has_entered(const struct caller *caller)
{
    return caller->got == sizeof(caller->entry);
}

static void drop_caller(struct server *server, int i)
{
    close(server->callers[i].fd);
    server->callers[i] = server->callers[--server->count];
}

static int waiting_for(const struct server *server, char *ret_names, size_t bytes)
{
    int missing = 0;
    size_t at = 0;
    ret_names[0] = '\0';
    for (int r = 1; r < server->options->world; r++) {
        bool here = false;
        for (int i = 0; i < server->count; i++)
            here |= has_entered(&server->callers[i]) && server->callers[i].entry.rank == r;
        if (here)
            continue;
        if (missing < NAMES_MAX)
            at += (size_t)snprintf(ret_names + at, bytes - at, "%s%d", missing ? ", " : "", r);
        missing++;
    }
    if (missing > NAMES_MAX)
        snprintf(ret_names + at, bytes - at, " and %d more", missing - NAMES_MAX);
    return missing;
}

/* The oldest caller without an entry that has had enough time; -1: there is none. */
static int find_idle(const struct server *server)
{
    int first = -1;
    for (int i = 0; i < server->count; i++)
        if (!has_entered(&server->callers[i]) &&
            (first < 0 || server->callers[i].deadline_ms < server->callers[first].deadline_ms))
            first = i;
    int64_t came_ms = first < 0 ? 0 : server->callers[first].deadline_ms - CALLER_MS;
    return first >= 0 && comm_now_us() / 1000 >= came_ms + CALLER_LEAST_MS ? first : -1;
}

static bool is_full(const struct server *server)
{
    return server->count == CALLERS_MAX && find_idle(server) < 0;
}

static void accept_callers(struct server *server, int listen_fd)
{
    while (!is_full(server)) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            server->starved |= endpoint_starved(errno);
            return;
        }
        if (server->count == CALLERS_MAX)
            drop_caller(server, find_idle(server));
        struct caller *caller = &server->callers[server->count];
        *caller = (struct caller){.fd = fd, .deadline_ms = comm_now_us() / 1000 + CALLER_MS};
        bootstrap_greet(&caller->greeting, server->options);
        if (send(fd, &caller->greeting, sizeof(caller->greeting), MSG_NOSIGNAL | MSG_DONTWAIT) ==
            (ssize_t)sizeof(caller->greeting))
            server->count++;
        else
            close(fd);
    }
}

/* False if the caller must be dropped. */
static bool read_entry(struct server *server, struct caller *caller)
{
    if (has_entered(caller)) {
        char byte;
        ssize_t n = recv(caller->fd, &byte, 1, MSG_DONTWAIT);
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    ssize_t n = recv(caller->fd, (char *)&caller->entry + caller->got,
                     sizeof(caller->entry) - caller->got, MSG_DONTWAIT);
    if (n > 0)
        caller->got += (size_t)n;
    if (has_entered(caller)) {
        caller->entered_ms = comm_now_us() / 1000;
        return bootstrap_entry_valid(&caller->entry, server->options, &caller->greeting);
    }
    bool waiting = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    return waiting && comm_now_us() / 1000 < caller->deadline_ms;
}

/* An entry as rank 0, or of a rank that has already entered from another process, means two
 * trainings. The same process may enter again. The connection of an ended process may close after
 * its successor enters: until that is decided *ret_waiting is true. */
static int find_double(struct server *server, bool *ret_waiting, struct error *err)
{
    const struct comm_bootstrap_options *options = server->options;
    int first[COMM_WORLD_MAX];
    memset(first, -1, sizeof(first));
    for (int i = 0; i < server->count; i++) {
        const struct caller *caller = &server->callers[i];
        if (!has_entered(caller))
            continue;
        if (caller->entry.rank == 0)
            return bootstrap_refuse_rival(options, err);
        int before = first[caller->entry.rank];
        first[caller->entry.rank] = i;
        if (before < 0)
            continue;
        const struct caller *other = &server->callers[before];
        if (comm_now_us() / 1000 < caller->entered_ms + BOOTSTRAP_GREETING_MS ||
            comm_now_us() / 1000 < other->entered_ms + BOOTSTRAP_GREETING_MS)
            *ret_waiting = true;
        else
            return error_set(err, WK_EINVAL,
                             "two processes connected to %s:%d as rank %d: set another RANK for "
                             "each process, and another MASTER_PORT for each training",
                             options->master_addr, options->master_port, caller->entry.rank);
    }
    return 0;
}

static int look_for_doubles(struct server *server, bool *ret_waiting, struct error *err)
{
    int rc = bootstrap_rivals_read(&server->rivals, server->options, ret_waiting, err);
    if (rc)
        return rc;
    return find_double(server, ret_waiting, err);
}

static void wait_for_callers(struct server *server, int listen_fd)
{
    struct pollfd fds[CALLERS_MAX + 1];
    for (int i = 0; i < server->count; i++)
        fds[i] = (struct pollfd){.fd = server->callers[i].fd, .events = POLLIN};
    /* A connection that waits for a descriptor would wake the poll all the time. */
    bool closed = server->starved || is_full(server);
    fds[server->count] = (struct pollfd){.fd = closed ? -1 : listen_fd, .events = POLLIN};
    (void)poll(fds, (nfds_t)server->count + 1, BOOTSTRAP_CHECK_MS);
}

static int refuse_missing(const struct server *server, const char *names, struct error *err)
{
    const struct comm_bootstrap_options *options = server->options;
    char elsewhere[96] = "";
    if (server->port != options->master_port)
        snprintf(elsewhere, sizeof(elsewhere), ", which is in use: rank 0 listened on port %d",
                 server->port);
    return error_set(err, WK_ETIMEOUT, "rank %s did not connect to %s:%d in %d ms%s%s", names,
                     options->master_addr, options->master_port, options->timeout_ms, elsewhere,
                     server->starved ? ENDPOINT_STARVED : "");
}

static int collect_entries(struct server *server, int listen_fd, struct error *err)
{
    char names[NAMES_MAX * 16 + 32];
    bool waiting = server->rivals.count > 0;
    int64_t deadline_ms = comm_now_us() / 1000 + server->options->timeout_ms;
    while (waiting_for(server, names, sizeof(names)) > 0 || waiting) {
        if (bootstrap_cancelled(server->options))
            return error_set(err, WK_EABORT, "cancelled while waiting for rank %s", names);
        if (comm_now_us() / 1000 >= deadline_ms)
            return refuse_missing(server, names, err);
        wait_for_callers(server, listen_fd);
        server->starved = false;
        accept_callers(server, listen_fd);
        for (int i = server->count - 1; i >= 0; i--)
            if (!read_entry(server, &server->callers[i]))
                drop_caller(server, i);
        int rc = look_for_doubles(server, &waiting, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Hosts are numbered in the order of the first rank on each. */
static void number_hosts(struct server *server)
{
    for (int r = 0; r < server->options->world; r++) {
        int first = 0;
        while (strcmp(server->hosts[first], server->hosts[r]) != 0)
            first++;
        server->rows[r].host = first;
    }
}

static void fill_rows(struct server *server, const struct bootstrap_entry *own)
{
    memcpy(server->rows[0].endpoint, own->endpoint, sizeof(own->endpoint));
    memcpy(server->hosts[0], own->host, sizeof(own->host));
    for (int i = 0; i < server->count; i++) {
        const struct bootstrap_entry *entry = &server->callers[i].entry;
        if (!has_entered(&server->callers[i]))
            continue;
        memcpy(server->rows[entry->rank].endpoint, entry->endpoint, sizeof(entry->endpoint));
        memcpy(server->hosts[entry->rank], entry->host, sizeof(entry->host));
    }
    number_hosts(server);
}

static bool send_all(int fd, const void *data, size_t bytes)
{
    struct pollfd watched = {.fd = fd, .events = POLLOUT};
    for (size_t at = 0; at < bytes;) {
        ssize_t n = send(fd, (const char *)data + at, bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        at += n > 0 ? (size_t)n : 0;
        if (n < 0 && poll(&watched, 1, CALLER_MS) <= 0)
            return false;
    }
    return true;
}

/* Send the table to all that have entered. A caller that cannot receive it reports its own timeout.
 */
static void send_table(struct server *server, struct bootstrap_table *table)
{
    size_t rows_bytes = (size_t)server->options->world * sizeof(server->rows[0]);
    for (int i = 0; i < server->count; i++) {
        struct caller *caller = &server->callers[i];
        if (!has_entered(caller))
            continue;
        bootstrap_table_mac(table, server->rows, server->options, &caller->greeting, table->mac);
        if (send_all(caller->fd, table, sizeof(*table)) && !*table->refusal)
            (void)send_all(caller->fd, server->rows, rows_bytes);
    }
}

static void send_refusal(struct server *server, const struct error *err)
{
    struct bootstrap_table table;
    bootstrap_table_init(&table, server->options);
    snprintf(table.refusal, sizeof(table.refusal), "%.*s", (int)sizeof(table.refusal) - 1,
             err->text);
    send_table(server, &table);
}

static int draw_secret(const struct server *server, struct bootstrap_table *table,
                       struct error *err)
{
    bootstrap_table_init(table, server->options);
    if (getrandom(&table->generation, sizeof(table->generation), 0) < 0)
        return error_set(err, WK_EUNAVAILABLE, "no random bytes");
    if (server->options->secret)
        memcpy(table->secret, server->options->secret, sizeof(table->secret));
    else if (getrandom(table->secret, sizeof(table->secret), 0) < 0)
        return error_set(err, WK_EUNAVAILABLE, "no random bytes");
    return 0;
}

static void remark_taken(const struct server *server, const struct error *why)
{
    const struct comm_bootstrap_options *options = server->options;
    char text[512];
    snprintf(text, sizeof(text),
             "MASTER_PORT %d is in use (%.300s): rank 0 listens on port %d, which the others try "
             "too",
             options->master_port, why->text, server->port);
    if (options->remark && !options->port_is_shared)
        options->remark(options->remark_arg, text);
}

/* The launcher's own port does not count as another rank 0's. */
static int listen_near(struct server *server, int *ret_fd, struct error *err)
{
    const struct comm_bootstrap_options *options = server->options;
    struct error first = {0};
    for (int i = 0; i < BOOTSTRAP_PORTS; i++) {
        server->port = options->master_port + i;
        int rc = endpoint_listen_tcp(options->master_addr, server->port, ret_fd, err);
        if (rc != WK_EUNAVAILABLE) {
            if (!rc)
                error_clear(err);
            if (!rc && i > 0)
                remark_taken(server, &first);
            return rc;
        }
        if (i == 0)
            first = *err;
        if (i > 0 || !options->port_is_shared)
            bootstrap_rival_dial(&server->rivals, options, server->port);
    }
    return error_set(err, WK_EUNAVAILABLE,
                     "none of the %d ports from MASTER_PORT %d on can be had: %.300s",
                     BOOTSTRAP_PORTS, options->master_port, first.text);
}

int bootstrap_serve(const struct comm_bootstrap_options *options, struct comm_table *ret,
                    struct error *err)
{
    struct bootstrap_greeting greeting;
    struct bootstrap_entry own;
    struct bootstrap_table table;
    int listen_fd = -1;
    struct server *server = calloc(1, sizeof(*server));
    if (!server)
        return error_set(err, WK_ENOMEM, "no memory to bootstrap");
    server->options = options;
    bootstrap_greet(&greeting, options);
    int rc = bootstrap_enter(&own, options, &greeting, err);
    if (!rc && options->world > 1)
        rc = listen_near(server, &listen_fd, err);
    if (!rc)
        rc = collect_entries(server, listen_fd, err);
    if (rc == WK_EINVAL)
        send_refusal(server, err);
    if (!rc)
        rc = draw_secret(server, &table, err);
    if (!rc) {
        fill_rows(server, &own);
        send_table(server, &table);
        rc = bootstrap_table_copy(ret, &table, server->rows, err);
    }
    while (server->count > 0)
        drop_caller(server, 0);
    bootstrap_rivals_fini(&server->rivals);
    if (listen_fd >= 0)
        close(listen_fd);
    free(server);
    return rc;
}
