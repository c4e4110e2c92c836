/* muster forward: a port here that leads to a port beside a worker */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/raw_terminal.h"
#include "cli/remote.h"
#include "common/base/parse.h"
#include "common/rpc/message.h"

enum {
    CONNECTIONS_MAX = 12, /* at once; an agent has 16 places for a worker's terminals */
    PORT_MAX = 65535,
    BACKLOG = 64,
};

static const char FULL[] = "12 connections are open, which is the most; others wait until one ends";

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    {.name = "rank",
     .letter = 'r',
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .max = INT32_MAX,
     .fallback = "0",
     .help = "beside the worker that has this rank now"},
    {.name = "verbose", .letter = 'v', .kind = ARGS_FLAG, .help = "a line for each connection"},
    {.name = "job", .kind = ARGS_POSITIONAL, .required = true, .help = "id or name"},
    {.name = "port",
     .kind = ARGS_POSITIONAL,
     .required = true,
     .value_name = "[LOCAL:]PORT",
     .help = "the port beside the worker, and the one here: the same without LOCAL, a free one for "
             "0"},
    {0},
};
static const char *const examples[] = {"muster forward gpt-kjv 6006",
                                       "muster forward gpt-kjv 8080:80 --rank 2", NULL};
static const struct args_command command = {
    .program = "muster forward",
    .summary = "reach a port beside a worker from here",
    .description = "For TensorBoard, a debugger or a notebook that a worker runs: connections to "
                   "127.0.0.1 here become connections to 127.0.0.1 on the worker's machine, at "
                   "ports where a program of the worker's user listens; others are refused. It "
                   "needs the right to cancel the job, and is on record. At most 12 connections "
                   "are open at once; others wait.",
    .options = options,
    .examples = examples,
};

struct forward {
    struct client client;
    const char *job;
    uint32_t rank;
    uint16_t port;
    bool verbose;
    int listener, signals; /* descriptors */
    struct remote *remotes[CONNECTIONS_MAX];
    int sockets[CONNECTIONS_MAX];
    unsigned long long count;
    char complaint[512]; /* printed last */
};

/* "PORT" or "LOCAL:PORT". */
static int read_ports(const char *text, uint16_t *ret_local, uint16_t *ret_port, struct error *err)
{
    int64_t local, port;
    const char *colon = strchr(text, ':'), *remote = colon ? colon + 1 : text;
    char first[8] = "";
    if (colon && (size_t)(colon - text) < sizeof(first))
        memcpy(first, text, (size_t)(colon - text));
    int rc = parse_i64(remote, 1, PORT_MAX, &port, err);
    local = port;
    if (!rc && colon)
        rc = parse_i64(first, 0, PORT_MAX, &local, err);
    if (rc)
        return error_wrap(err, "'%.40s' is no [LOCAL:]PORT", text);
    *ret_local = (uint16_t)local;
    *ret_port = (uint16_t)port;
    return 0;
}

static int listen_here(uint16_t *port, int *ret, struct error *err)
{
    struct sockaddr_in here = {
        .sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(here);
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof(here)) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)&here, &size) < 0) {
        int cause = errno;
        if (fd >= 0)
            close(fd);
        error_errno(err, cause, "cannot listen on 127.0.0.1:%u", *port);
        error_hint(err, "LOCAL:PORT chooses another port here, 0:PORT a free one");
        err->code = E_FAILED_PRECONDITION;
        return err->code;
    }
    *port = ntohs(here.sin_port);
    *ret = fd;
    return 0;
}

static void complain(struct forward *forward, const char *text)
{
    if (!text[0] || strcmp(text, forward->complaint) == 0)
        return;
    (void)snprintf(forward->complaint, sizeof(forward->complaint), "%s", text);
    fprintf(stderr, "muster: %s\n", text);
}

static void end_connection(struct forward *forward, int at)
{
    struct remote *remote = forward->remotes[at];
    if (forward->verbose)
        fprintf(stderr, "a connection ended: %llu bytes there, %llu back\n",
                (unsigned long long)remote->offset, (unsigned long long)remote->out.offset);
    if (!remote->exited)
        complain(forward, remote->text);
    remote_close(remote);
    close(forward->sockets[at]);
    free(remote);
    forward->remotes[at] = NULL;
}

static int free_place(const struct forward *forward)
{
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        if (!forward->remotes[i])
            return i;
    return -1;
}

static void accept_one(struct forward *forward)
{
    Muster__OpenChannelRequest wish = MUSTER__OPEN_CHANNEL_REQUEST__INIT;
    struct error err = {0};
    int at = free_place(forward), yes = 1;
    int fd = accept4(forward->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    struct remote_ends ends = {fd, fd, -1};
    struct remote *remote = calloc(1, sizeof(*remote));
    wish.id = rpc_text(forward->job);
    wish.rank = forward->rank;
    wish.port = forward->port;
    if (!remote || remote_open(&forward->client, &wish, &ends, remote, &err)) {
        complain(forward, err.text);
        free(remote);
        close(fd);
        return;
    }
    forward->remotes[at] = remote;
    forward->sockets[at] = fd;
    forward->count++;
    if (free_place(forward) < 0)
        complain(forward, FULL);
    if (forward->verbose)
        fprintf(stderr, "connection %llu to port %u on %s\n", forward->count, forward->port,
                remote->node);
}

/* Until a signal; its number. */
static int serve(struct forward *forward)
{
    for (;;) {
        struct pollfd fds[2 + CONNECTIONS_MAX * REMOTE_FDS] = {
            {.fd = forward->signals, .events = POLLIN},
            {.fd = free_place(forward) >= 0 ? forward->listener : -1, .events = POLLIN}};
        size_t count = 2, first[CONNECTIONS_MAX + 1];
        for (int i = 0; i < CONNECTIONS_MAX; i++) {
            first[i] = count;
            if (!forward->remotes[i])
                continue;
            remote_act(forward->remotes[i]);
            count += remote_wishes(forward->remotes[i], fds + count);
        }
        first[CONNECTIONS_MAX] = count;
        rpc_sync_wait_on(forward->client.rpc, fds, count, REMOTE_WAIT_MS);
        int number = fds[0].revents ? raw_terminal_signal(forward->signals) : 0;
        if (number && number != SIGWINCH)
            return number;
        for (int i = 0; i < CONNECTIONS_MAX; i++) {
            if (!forward->remotes[i])
                continue;
            remote_serve(forward->remotes[i], fds + first[i], first[i + 1] - first[i]);
            if (remote_done(forward->remotes[i]))
                end_connection(forward, i);
        }
        if (fds[1].revents)
            accept_one(forward);
    }
}

/* A token that may open no channel may use none either: it is refused before the channel is looked
 * for. There is no channel without an id, and no other answer matters here. */
static int check_token(struct forward *forward, struct error *err)
{
    Muster__ReceiveChannelRequest none = MUSTER__RECEIVE_CHANNEL_REQUEST__INIT;
    Muster__ReceiveChannelAnswer *answer = NULL;
    int rc = client_call(&forward->client, "ReceiveChannel", &none, NULL, &answer, err);
    rpc_message_free(answer);
    if (rc == E_PERMISSION_DENIED)
        return rc;
    *err = (struct error){0};
    return 0;
}

static int forward_to(struct forward *forward, uint16_t local)
{
    Muster__Job *job = NULL;
    struct error err = {0};
    int code = client_job(&forward->client, forward->job, &job);
    if (code)
        return code;
    if (job->ended_wall_ms || (job->world > 0 && job->world <= forward->rank))
        error_set(&err, E_FAILED_PRECONDITION, "job %s is %s and has no rank %u now", job->id,
                  job_word(job), forward->rank);
    if (err.code || check_token(forward, &err) || listen_here(&local, &forward->listener, &err)) {
        rpc_message_free(job);
        return client_fail(&err);
    }
    printf("forwarding 127.0.0.1:%u to port %u of rank %u of job %s; Ctrl-C ends it\n", local,
           forward->port, forward->rank, job->id);
    fflush(stdout);
    rpc_message_free(job);
    int number = serve(forward);
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        if (forward->remotes[i])
            end_connection(forward, i);
    close(forward->listener);
    return number == SIGINT ? EXIT_DONE : 128 + number;
}

static int run_forward(const struct args *args)
{
    struct forward forward = {.job = args_text(args, "job"),
                              .rank = (uint32_t)args_integer(args, "rank"),
                              .verbose = args_flag(args, "verbose")};
    struct error err = {0};
    uint16_t local = 0;
    if (read_ports(args_text(args, "port"), &local, &forward.port, &err))
        return client_fail(&err);
    if (raw_terminal_signals(&forward.signals, &err) || client_open(args, &forward.client, &err))
        return client_fail(&err);
    int code = forward_to(&forward, local);
    client_close(&forward.client);
    close(forward.signals);
    return code;
}

const struct verb verb_forward = {.name = "forward", .command = &command, .run = run_forward};
