#include "libworker/comm/bootstrap_rival.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/clock.h"
#include "libworker/comm/endpoint.h"

/* A process that stays silent this long is not a rank 0, however busy the machine. */
enum { RIVAL_MS = 5000 };

static void close_rival(struct bootstrap_rival *rival)
{
    if (rival->fd >= 0)
        close(rival->fd);
    rival->fd = -1;
}

void bootstrap_rival_dial(struct bootstrap_rivals *rivals,
                          const struct comm_bootstrap_options *options, int port)
{
    struct endpoint endpoint = {.name = ""};
    struct bootstrap_rival rival = {.fd = -1, .port = port};
    snprintf(endpoint.host, sizeof(endpoint.host), "%s", options->master_addr);
    snprintf(endpoint.port, sizeof(endpoint.port), "%u", (unsigned)port & 0xffff);
    rival.since_ms = comm_now_us() / 1000;
    if (rivals->count < BOOTSTRAP_PORTS && !endpoint_dial(&endpoint, false, &rival.fd))
        rivals->list[rivals->count++] = rival;
}

int bootstrap_refuse_rival(const struct comm_bootstrap_options *options, struct error *err)
{
    return error_set(err, WK_EINVAL,
                     "two trainings of %d ranks wait at %s with MASTER_PORT %d, and nothing "
                     "distinguishes their ranks: set another MASTER_PORT for each training",
                     options->world, options->master_addr, options->master_port);
}

/* The other rank 0 learns of it by an entry with its own rank. */
static int inform_rival(const struct bootstrap_rival *rival,
                        const struct comm_bootstrap_options *options, struct error *err)
{
    struct bootstrap_entry entry;
    if (!bootstrap_enter(&entry, options, &rival->greeting, err))
        (void)!send(rival->fd, &entry, sizeof(entry), MSG_NOSIGNAL | MSG_DONTWAIT);
    return bootstrap_refuse_rival(options, err);
}

static int look_at_rival(struct bootstrap_rival *rival,
                         const struct comm_bootstrap_options *options, struct error *err)
{
    int rc = 0;
    ssize_t n = recv(rival->fd, (char *)&rival->greeting + rival->got,
                     sizeof(rival->greeting) - rival->got, MSG_DONTWAIT);
    if (n > 0)
        rival->got += (size_t)n;
    bool whole = rival->got == sizeof(rival->greeting);
    if (whole && bootstrap_classify(&rival->greeting, options) == BOOTSTRAP_OURS)
        rc = inform_rival(rival, options, err);
    bool waiting = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    if (whole || !waiting || comm_now_us() / 1000 >= rival->since_ms + RIVAL_MS)
        close_rival(rival);
    return rc;
}

int bootstrap_rivals_read(struct bootstrap_rivals *rivals,
                          const struct comm_bootstrap_options *options, bool *ret_waiting,
                          struct error *err)
{
    int rc = 0;
    *ret_waiting = false;
    for (int i = 0; i < rivals->count && !rc; i++) {
        if (rivals->list[i].fd >= 0)
            rc = look_at_rival(&rivals->list[i], options, err);
        *ret_waiting |= rivals->list[i].fd >= 0 &&
                        comm_now_us() / 1000 < rivals->list[i].since_ms + BOOTSTRAP_GREETING_MS;
    }
    return rc;
}

void bootstrap_rivals_fini(struct bootstrap_rivals *rivals)
{
    for (int i = 0; i < rivals->count; i++)
        close_rival(&rivals->list[i]);
    rivals->count = 0;
}
