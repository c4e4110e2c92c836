/* Rank 0 collects the entries of all ranks, then sends them the table. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/bootstrap.h"
#include "libworker/comm/comm_internal.h"
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

struct office {
    const struct comm_bootstrap_options *options;
    struct caller callers[CALLERS_MAX];
    int count;
    bool starved; /* a connection waits, but no descriptor is left */
    struct bootstrap_rivals rivals;
    int port; /* this rank listens on it */
    char hosts[COMM_WORLD_MAX][BOOTSTRAP_HOST_BYTES];
    struct bootstrap_row rows[COMM_WORLD_MAX];
};

static bool entered(const struct caller *caller)
{
    return caller->got == sizeof(caller->entry);
}

static void drop(struct office *office, int i)
{
    close(office->callers[i].fd);
    office->callers[i] = office->callers[--office->count];
}

static int waiting_for(const struct office *office, char *ret_names, size_t bytes)
{
    int missing = 0;
    size_t at = 0;
    ret_names[0] = '\0';
    for (int r = 1; r < office->options->world; r++) {
        bool here = false;
        for (int i = 0; i < office->count; i++)
            here |= entered(&office->callers[i]) && office->callers[i].entry.rank == r;
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
static int find_idle(const struct office *office)
{
    int first = -1;
    for (int i = 0; i < office->count; i++)
        if (!entered(&office->callers[i]) &&
            (first < 0 || office->callers[i].deadline_ms < office->callers[first].deadline_ms))
            first = i;
    int64_t came_ms = first < 0 ? 0 : office->callers[first].deadline_ms - CALLER_MS;
    return first >= 0 && comm_now_us() / 1000 >= came_ms + CALLER_LEAST_MS ? first : -1;
}

static bool is_full(const struct office *office)
{
    return office->count == CALLERS_MAX && find_idle(office) < 0;
}

static void let_in(struct office *office, int listen_fd)
{
    while (!is_full(office)) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            office->starved |= endpoint_starved(errno);
            return;
        }
        if (office->count == CALLERS_MAX)
            drop(office, find_idle(office));
        struct caller *caller = &office->callers[office->count];
        *caller = (struct caller){.fd = fd, .deadline_ms = comm_now_us() / 1000 + CALLER_MS};
        bootstrap_greet(&caller->greeting, office->options);
        if (send(fd, &caller->greeting, sizeof(caller->greeting), MSG_NOSIGNAL | MSG_DONTWAIT) ==
            (ssize_t)sizeof(caller->greeting))
            office->count++;
        else
            close(fd);
    }
}

/* False if the caller must be dropped. */
static bool listen_to(struct office *office, struct caller *caller)
{
    if (entered(caller)) {
        char byte;
        ssize_t n = recv(caller->fd, &byte, 1, MSG_DONTWAIT);
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    ssize_t n = recv(caller->fd, (char *)&caller->entry + caller->got,
                     sizeof(caller->entry) - caller->got, MSG_DONTWAIT);
    if (n > 0)
        caller->got += (size_t)n;
    if (entered(caller)) {
        caller->entered_ms = comm_now_us() / 1000;
        return bootstrap_entry_valid(&caller->entry, office->options, &caller->greeting);
    }
    bool waiting = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    return waiting && comm_now_us() / 1000 < caller->deadline_ms;
}

/* An entry as rank 0, or of a rank that has already entered from another process, means two
 * trainings. The same process may enter again. The connection of an ended process may close after
 * its successor enters: until that is decided *ret_waiting is true. */
static int find_double(struct office *office, bool *ret_waiting, struct error *err)
{
    const struct comm_bootstrap_options *options = office->options;
    int first[COMM_WORLD_MAX];
    memset(first, -1, sizeof(first));
    for (int i = 0; i < office->count; i++) {
        const struct caller *caller = &office->callers[i];
        if (!entered(caller))
            continue;
        if (caller->entry.rank == 0)
            return bootstrap_refuse_rival(options, err);
        int before = first[caller->entry.rank];
        first[caller->entry.rank] = i;
        if (before < 0)
            continue;
        const struct caller *other = &office->callers[before];
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

static int look_around(struct office *office, bool *ret_waiting, struct error *err)
{
    int rc = bootstrap_rivals_look(&office->rivals, office->options, ret_waiting, err);
    return rc ? rc : find_double(office, ret_waiting, err);
}

static void wait_for_news(struct office *office, int listen_fd)
{
    struct pollfd fds[CALLERS_MAX + 1];
    for (int i = 0; i < office->count; i++)
        fds[i] = (struct pollfd){.fd = office->callers[i].fd, .events = POLLIN};
    /* A connection that waits for a descriptor would wake the poll all the time. */
    bool closed = office->starved || is_full(office);
    fds[office->count] = (struct pollfd){.fd = closed ? -1 : listen_fd, .events = POLLIN};
    (void)poll(fds, (nfds_t)office->count + 1, BOOTSTRAP_LOOK_MS);
}

static int refuse_late(const struct office *office, const char *names, struct error *err)
{
    const struct comm_bootstrap_options *options = office->options;
    char elsewhere[96] = "";
    if (office->port != options->master_port)
        snprintf(elsewhere, sizeof(elsewhere), ", which is in use: rank 0 listened on port %d",
                 office->port);
    return error_set(err, WK_ETIMEOUT, "rank %s did not connect to %s:%d in %d ms%s%s", names,
                     options->master_addr, options->master_port, options->timeout_ms, elsewhere,
                     office->starved ? ENDPOINT_STARVED : "");
}

static int collect(struct office *office, int listen_fd, struct error *err)
{
    char names[NAMES_MAX * 16 + 32];
    bool waiting = office->rivals.count > 0;
    int64_t deadline_ms = comm_now_us() / 1000 + office->options->timeout_ms;
    while (waiting_for(office, names, sizeof(names)) > 0 || waiting) {
        if (bootstrap_cancelled(office->options))
            return error_set(err, WK_EABORT, "cancelled while waiting for rank %s", names);
        if (comm_now_us() / 1000 >= deadline_ms)
            return refuse_late(office, names, err);
        wait_for_news(office, listen_fd);
        office->starved = false;
        let_in(office, listen_fd);
        for (int i = office->count - 1; i >= 0; i--)
            if (!listen_to(office, &office->callers[i]))
                drop(office, i);
        int rc = look_around(office, &waiting, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Hosts are numbered in the order of the first rank on each. */
static void number_hosts(struct office *office)
{
    for (int r = 0; r < office->options->world; r++) {
        int first = 0;
        while (strcmp(office->hosts[first], office->hosts[r]) != 0)
            first++;
        office->rows[r].host = first;
    }
}

static void fill_rows(struct office *office, const struct bootstrap_entry *own)
{
    memcpy(office->rows[0].endpoint, own->endpoint, sizeof(own->endpoint));
    memcpy(office->hosts[0], own->host, sizeof(own->host));
    for (int i = 0; i < office->count; i++) {
        const struct bootstrap_entry *entry = &office->callers[i].entry;
        if (!entered(&office->callers[i]))
            continue;
        memcpy(office->rows[entry->rank].endpoint, entry->endpoint, sizeof(entry->endpoint));
        memcpy(office->hosts[entry->rank], entry->host, sizeof(entry->host));
    }
    number_hosts(office);
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
static void hand_out(struct office *office, struct bootstrap_table *table)
{
    size_t rows_bytes = (size_t)office->options->world * sizeof(office->rows[0]);
    for (int i = 0; i < office->count; i++) {
        struct caller *caller = &office->callers[i];
        if (!entered(caller))
            continue;
        bootstrap_table_mac(table, office->rows, office->options, &caller->greeting, table->mac);
        if (send_all(caller->fd, table, sizeof(*table)) && !*table->refusal)
            (void)send_all(caller->fd, office->rows, rows_bytes);
    }
}

static void hand_out_refusal(struct office *office, const struct error *err)
{
    struct bootstrap_table table;
    bootstrap_table_init(&table, office->options);
    snprintf(table.refusal, sizeof(table.refusal), "%.*s", (int)sizeof(table.refusal) - 1,
             err->text);
    hand_out(office, &table);
}

static int draw(const struct office *office, struct bootstrap_table *table, struct error *err)
{
    bootstrap_table_init(table, office->options);
    if (getrandom(&table->generation, sizeof(table->generation), 0) < 0)
        return error_set(err, WK_EUNAVAILABLE, "no random bytes");
    if (office->options->secret)
        memcpy(table->secret, office->options->secret, sizeof(table->secret));
    else if (getrandom(table->secret, sizeof(table->secret), 0) < 0)
        return error_set(err, WK_EUNAVAILABLE, "no random bytes");
    return 0;
}

static void remark_taken(const struct office *office, const struct error *why)
{
    const struct comm_bootstrap_options *options = office->options;
    char text[512];
    snprintf(text, sizeof(text),
             "MASTER_PORT %d is in use (%.300s): rank 0 listens on port %d, which the others try "
             "too",
             options->master_port, why->text, office->port);
    if (options->remark && !options->port_is_shared)
        options->remark(options->remark_arg, text);
}

/* The launcher's own port does not count as another rank 0's. */
static int listen_near(struct office *office, int *ret_fd, struct error *err)
{
    const struct comm_bootstrap_options *options = office->options;
    struct error first = {0};
    for (int i = 0; i < BOOTSTRAP_PORTS; i++) {
        office->port = options->master_port + i;
        int rc = endpoint_listen_tcp(options->master_addr, office->port, ret_fd, err);
        if (rc != WK_EUNAVAILABLE) {
            if (rc == 0)
                error_clear(err);
            if (rc == 0 && i > 0)
                remark_taken(office, &first);
            return rc;
        }
        if (i == 0)
            first = *err;
        if (i > 0 || !options->port_is_shared)
            bootstrap_rival_dial(&office->rivals, options, office->port);
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
    struct office *office = calloc(1, sizeof(*office));
    if (!office)
        return error_set(err, WK_ENOMEM, "no memory to bootstrap");
    office->options = options;
    bootstrap_greet(&greeting, options);
    int rc = bootstrap_enter(&own, options, &greeting, err);
    if (rc == 0 && options->world > 1)
        rc = listen_near(office, &listen_fd, err);
    if (rc == 0)
        rc = collect(office, listen_fd, err);
    if (rc == WK_EINVAL)
        hand_out_refusal(office, err);
    if (rc == 0)
        rc = draw(office, &table, err);
    if (rc == 0) {
        fill_rows(office, &own);
        hand_out(office, &table);
        rc = bootstrap_table_take(ret, &table, office->rows, err);
    }
    while (office->count > 0)
        drop(office, 0);
    bootstrap_rivals_fini(&office->rivals);
    if (listen_fd >= 0)
        close(listen_fd);
    free(office);
    return rc;
}
