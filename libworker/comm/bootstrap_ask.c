/* The ranks above 0 search rank 0 on its few ports, enter, and wait for the table. */
#include "libworker/comm/bootstrap_ask.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/bootstrap_protocol.h"
#include "libworker/comm/clock.h"
#include "libworker/comm/endpoint.h"

enum { PAUSE_MS = 20 };

/* A connection to a process that may be rank 0. */
struct call {
    const struct comm_bootstrap_options *options;
    int fd;
    int64_t deadline_ms;
};

static bool wait_ready(const struct call *call, short events)
{
    struct pollfd watched = {.fd = call->fd, .events = events};
    while (!bootstrap_cancelled(call->options)) {
        int64_t left_ms = call->deadline_ms - comm_now_us() / 1000;
        int check_ms = left_ms < BOOTSTRAP_CHECK_MS ? (int)left_ms : BOOTSTRAP_CHECK_MS;
        if (left_ms <= 0)
            return false;
        if (poll(&watched, 1, check_ms) > 0)
            return true;
    }
    return false;
}

/* False at the deadline, the end of the stream, or a cancellation. */
static bool recv_all(const struct call *call, void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        if (!wait_ready(call, POLLIN))
            return false;
        ssize_t n = recv(call->fd, (char *)data + at, bytes - at, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Possible causes for not finding rank 0: the first of each kind. */
struct findings {
    bool ours;          /* our rank 0 answered */
    char others[200];   /* a rank 0 of another training; "" if none */
    char strangers[64]; /* another program uses MASTER_PORT; "" if none */
};

static void note_finding(struct findings *findings, const struct comm_bootstrap_options *options,
                         int port, const struct bootstrap_greeting *greeting)
{
    if (greeting && !*findings->others)
        snprintf(findings->others, sizeof(findings->others),
                 "; port %d is held by another training of %d ranks%s%.63s%s", port,
                 greeting->world, *greeting->run ? " (" : "", greeting->run,
                 *greeting->run ? ")" : "");
    else if (!greeting && port == options->master_port && !options->port_is_shared)
        snprintf(findings->strangers, sizeof(findings->strangers),
                 "; port %d is held by another program", port);
}

/* A connection to a process that greets us as our rank 0; -1 if it is not on this port. */
static int find_rank_0(const struct comm_bootstrap_options *options, int port,
                       struct bootstrap_greeting *ret_greeting, struct findings *findings)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    struct call call = {options, -1, comm_now_us() / 1000 + BOOTSTRAP_GREETING_MS};
    struct endpoint endpoint = {.name = ""};
    snprintf(endpoint.host, sizeof(endpoint.host), "%s", options->master_addr);
    snprintf(endpoint.port, sizeof(endpoint.port), "%u", (unsigned)port & 0xffff);
    if (endpoint_dial(&endpoint, false, &call.fd))
        return -1;
    if (wait_ready(&call, POLLOUT) &&
        getsockopt(call.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0) {
        bool greeted = recv_all(&call, ret_greeting, sizeof(*ret_greeting));
        enum bootstrap_whose whose =
            greeted ? bootstrap_classify(ret_greeting, options) : BOOTSTRAP_STRANGERS;
        if (whose == BOOTSTRAP_OURS)
            return call.fd;
        note_finding(findings, options, port, whose == BOOTSTRAP_OTHERS ? ret_greeting : NULL);
    }
    close(call.fd);
    return -1;
}

/* After WK_EIO another attempt is useful. */
static int receive_table(const struct call *call, const struct bootstrap_greeting *greeting,
                         struct comm_table *ret, struct error *err)
{
    const struct comm_bootstrap_options *options = call->options;
    struct bootstrap_table table;
    struct bootstrap_row rows[COMM_WORLD_MAX];
    uint8_t mac[SHA256_BYTES];
    size_t rows_bytes = (size_t)options->world * sizeof(rows[0]);
    if (!recv_all(call, &table, sizeof(table)) || table.world != options->world)
        return WK_EIO;
    if (!*table.refusal && !recv_all(call, rows, rows_bytes))
        return WK_EIO;
    bootstrap_table_mac(&table, rows, options, greeting, mac);
    if (!sha256_equal(mac, table.mac))
        return WK_EIO;
    if (*table.refusal)
        return error_set(err, WK_EINVAL, "%.*s", (int)sizeof(table.refusal) - 1, table.refusal);
    return bootstrap_table_copy(ret, &table, rows, err);
}

/* WK_EIO: rank 0 is not on this port, or not any more. */
static int enter_training(const struct comm_bootstrap_options *options, const struct call *call,
                          const struct bootstrap_greeting *greeting, struct comm_table *ret,
                          struct error *err)
{
    struct bootstrap_entry entry;
    int rc = bootstrap_enter(&entry, options, greeting, err);
    if (rc)
        return rc;
    if (send(call->fd, &entry, sizeof(entry), MSG_NOSIGNAL) != (ssize_t)sizeof(entry))
        return WK_EIO;
    return receive_table(call, greeting, ret, err);
}

int bootstrap_ask(const struct comm_bootstrap_options *options, struct comm_table *ret,
                  struct error *err)
{
    int64_t deadline_ms = comm_now_us() / 1000 + options->timeout_ms;
    struct findings findings = {.ours = false};
    while (comm_now_us() / 1000 < deadline_ms && !bootstrap_cancelled(options)) {
        for (int i = 0; i < BOOTSTRAP_PORTS; i++) {
            struct bootstrap_greeting greeting;
            int fd = find_rank_0(options, options->master_port + i, &greeting, &findings);
            if (fd < 0)
                continue;
            findings.ours = true;
            struct call call = {options, fd, deadline_ms};
            int rc = enter_training(options, &call, &greeting, ret, err);
            close(fd);
            if (rc != WK_EIO)
                return rc;
        }
        (void)poll(NULL, 0, PAUSE_MS);
    }
    if (bootstrap_cancelled(options))
        return error_set(err, WK_EABORT, "cancelled while waiting for rank 0 at %s:%d",
                         options->master_addr, options->master_port);
    return error_set(
        err, WK_ETIMEOUT, "%s:%d: %s in %d ms%s%s", options->master_addr, options->master_port,
        findings.ours ? "rank 0 answered, but not every rank connected" : "rank 0 did not answer",
        options->timeout_ms, findings.ours ? "" : findings.strangers,
        findings.ours ? "" : findings.others);
}
