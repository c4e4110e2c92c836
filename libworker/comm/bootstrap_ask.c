/* The others look for rank 0 on its few ports, enter, and wait for the table. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/bootstrap.h"
#include "libworker/comm/comm_internal.h"
#include "libworker/comm/endpoint.h"

enum { PAUSE_MS = 20 };

static bool ready(int fd, short events, int64_t deadline_ms)
{
    int64_t left_ms = deadline_ms - comm_now_us() / 1000;
    struct pollfd watched = {.fd = fd, .events = events};
    return left_ms > 0 && poll(&watched, 1, (int)left_ms) > 0;
}

/* False at the deadline or the end of the stream. */
static bool recv_all(int fd, void *data, size_t bytes, int64_t deadline_ms)
{
    for (size_t at = 0; at < bytes;) {
        if (!ready(fd, POLLIN, deadline_ms))
            return false;
        ssize_t n = recv(fd, (char *)data + at, bytes - at, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* A connection to whoever greets us as our rank 0; -1 if this port is not it. */
static int find(const struct comm_bootstrap_options *options, int port,
                struct bootstrap_greeting *ret_greeting)
{
    int fd, error = 0;
    socklen_t bytes = sizeof(error);
    int64_t deadline_ms = comm_now_us() / 1000 + BOOTSTRAP_GREETING_MS;
    struct endpoint endpoint = {.name = ""};
    snprintf(endpoint.host, sizeof(endpoint.host), "%s", options->master_addr);
    snprintf(endpoint.port, sizeof(endpoint.port), "%u", (unsigned)port & 0xffff);
    if (endpoint_dial(&endpoint, false, &fd) != 0)
        return -1;
    if (ready(fd, POLLOUT, deadline_ms) &&
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0 &&
        recv_all(fd, ret_greeting, sizeof(*ret_greeting), deadline_ms) &&
        bootstrap_greeting_valid(ret_greeting, options))
        return fd;
    close(fd);
    return -1;
}

static int receive_table(const struct comm_bootstrap_options *options, int fd, int64_t deadline_ms,
                         const struct bootstrap_greeting *greeting, struct comm_table *ret)
{
    struct bootstrap_table table;
    struct bootstrap_row rows[COMM_WORLD_MAX];
    uint8_t mac[SHA256_BYTES];
    size_t rows_bytes = (size_t)options->world * sizeof(rows[0]);
    if (!recv_all(fd, &table, sizeof(table), deadline_ms) ||
        !recv_all(fd, rows, rows_bytes, deadline_ms) || table.world != options->world)
        return WK_EIO;
    bootstrap_table_mac(&table, rows, options, greeting, mac);
    if (!sha256_equal(mac, table.mac))
        return WK_EIO;
    return bootstrap_table_take(ret, &table, rows, NULL);
}

int bootstrap_ask(const struct comm_bootstrap_options *options, struct comm_table *ret,
                  struct error *err)
{
    int64_t deadline_ms = comm_now_us() / 1000 + options->timeout_ms;
    bool found = false;
    while (comm_now_us() / 1000 < deadline_ms) {
        for (int i = 0; i < BOOTSTRAP_PORTS; i++) {
            struct bootstrap_greeting greeting;
            struct bootstrap_entry entry;
            int fd = find(options, options->master_port + i, &greeting);
            if (fd < 0)
                continue;
            found = true;
            int rc = bootstrap_enter(&entry, options, &greeting, err);
            if (rc == 0 && send(fd, &entry, sizeof(entry), MSG_NOSIGNAL) != (ssize_t)sizeof(entry))
                rc = WK_EIO;
            if (rc == 0)
                rc = receive_table(options, fd, deadline_ms, &greeting, ret);
            close(fd);
            if (rc != WK_EIO)
                return rc;
        }
        (void)poll(NULL, 0, PAUSE_MS);
    }
    return error_set(err, WK_ETIMEOUT, "%s:%d: %s in %d ms", options->master_addr,
                     options->master_port,
                     found ? "rank 0 answered, but not every rank came" : "rank 0 did not answer",
                     options->timeout_ms);
}
