/* Rank 0 collects everybody's entry, then hands the table out. */
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

enum { CALLERS_MAX = COMM_WORLD_MAX + 32, NAMES_MAX = 8, CALLER_MS = 5000 };

struct caller {
    int fd;
    int64_t deadline_ms; /* to have said who it is */
    struct bootstrap_greeting greeting;
    struct bootstrap_entry entry;
    size_t got;
};

struct office {
    const struct comm_bootstrap_options *options;
    struct caller callers[CALLERS_MAX];
    int count;
    bool starved; /* somebody waits whom there is no descriptor for */
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

static void let_in(struct office *office, int listen_fd)
{
    while (office->count < CALLERS_MAX) {
        struct caller *caller = &office->callers[office->count];
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            office->starved |= endpoint_starved(errno);
            return;
        }
        *caller = (struct caller){.fd = fd, .deadline_ms = comm_now_us() / 1000 + CALLER_MS};
        bootstrap_greet(&caller->greeting, office->options);
        if (send(fd, &caller->greeting, sizeof(caller->greeting), MSG_NOSIGNAL | MSG_DONTWAIT) ==
            (ssize_t)sizeof(caller->greeting))
            office->count++;
        else
            close(fd);
    }
}

/* False when the caller is to be dropped. */
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
    if (entered(caller))
        return bootstrap_entry_valid(&caller->entry, office->options, &caller->greeting);
    bool waiting = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    return waiting && comm_now_us() / 1000 < caller->deadline_ms;
}

static int collect(struct office *office, int listen_fd, struct error *err)
{
    char names[NAMES_MAX * 16 + 32];
    int64_t deadline_ms = comm_now_us() / 1000 + office->options->timeout_ms;
    while (waiting_for(office, names, sizeof(names)) > 0) {
        struct pollfd fds[CALLERS_MAX + 1];
        if (bootstrap_cancelled(office->options))
            return error_set(err, WK_EABORT, "cancelled while waiting for rank %s", names);
        if (comm_now_us() / 1000 >= deadline_ms)
            return error_set(err, WK_ETIMEOUT, "rank %s did not come to %s:%d in %d ms%s", names,
                             office->options->master_addr, office->options->master_port,
                             office->options->timeout_ms, office->starved ? ENDPOINT_STARVED : "");
        for (int i = 0; i < office->count; i++)
            fds[i] = (struct pollfd){.fd = office->callers[i].fd, .events = POLLIN};
        /* Who waits without a descriptor to be had would be news all the time. */
        bool closed = office->starved || office->count == CALLERS_MAX;
        fds[office->count] = (struct pollfd){.fd = closed ? -1 : listen_fd, .events = POLLIN};
        (void)poll(fds, (nfds_t)office->count + 1, BOOTSTRAP_LOOK_MS);
        office->starved = false;
        let_in(office, listen_fd);
        for (int i = office->count - 1; i >= 0; i--)
            if (!listen_to(office, &office->callers[i]))
                drop(office, i);
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

/* A caller that cannot take it will say so by its own timeout. */
static void hand_out(struct office *office, struct bootstrap_table *table)
{
    size_t rows_bytes = (size_t)office->options->world * sizeof(office->rows[0]);
    for (int i = 0; i < office->count; i++) {
        struct caller *caller = &office->callers[i];
        if (!entered(caller))
            continue;
        bootstrap_table_mac(table, office->rows, office->options, &caller->greeting, table->mac);
        (void)(send_all(caller->fd, table, sizeof(*table)) &&
               send_all(caller->fd, office->rows, rows_bytes));
    }
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

static int listen_near(const struct comm_bootstrap_options *options, int *ret_fd, struct error *err)
{
    int rc = WK_EUNAVAILABLE;
    for (int i = 0; rc == WK_EUNAVAILABLE && i < BOOTSTRAP_PORTS; i++)
        rc = endpoint_listen_tcp(options->master_addr, options->master_port + i, ret_fd, err);
    return rc;
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
        rc = listen_near(options, &listen_fd, err);
    if (rc == 0)
        rc = collect(office, listen_fd, err);
    if (rc == 0)
        rc = draw(office, &table, err);
    if (rc == 0) {
        fill_rows(office, &own);
        hand_out(office, &table);
        rc = bootstrap_table_take(ret, &table, office->rows, err);
    }
    while (office->count > 0)
        drop(office, 0);
    if (listen_fd >= 0)
        close(listen_fd);
    free(office);
    return rc;
}
