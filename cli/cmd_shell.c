/* muster shell and exec: a terminal or a program beside a worker */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/raw_terminal.h"
#include "cli/remote.h"
#include "common/rpc/message.h"

enum { SIGNALLED = 128 };

#define RANK_OPTION                                                                                \
    {                                                                                              \
        .name = "rank", .letter = 'r', .kind = ARGS_OPTION, .type = ARGS_INTEGER,                  \
        .max = INT32_MAX, .fallback = "0", .help = "beside the worker that has this rank now"      \
    }
#define JOB_POSITIONAL                                                                             \
    {                                                                                              \
        .name = "job", .kind = ARGS_POSITIONAL, .required = true, .help = "id or name"             \
    }

static const struct args_option shell_options[] = {
    CLIENT_OPTIONS,
    RANK_OPTION,
    JOB_POSITIONAL,
    {0},
};
static const char *const shell_examples[] = {"muster shell gpt-kjv",
                                             "muster shell gpt-kjv --rank 3", NULL};
static const struct args_command shell_command = {
    .program = "muster shell",
    .summary = "open a terminal beside a worker",
    .description =
        "The shell has the worker's environment, folder, user, memory limit and devices, "
        "and ends with the worker. It needs the right to cancel the job, and is on "
        "record in `muster events` and the audit log. Enter ~ . at the start of a line "
        "leaves a shell that hangs. docs/shell.md has more.",
    .options = shell_options,
    .examples = shell_examples,
};

static const struct args_option exec_options[] = {
    CLIENT_OPTIONS,
    RANK_OPTION,
    {.name = "terminal",
     .letter = 't',
     .kind = ARGS_FLAG,
     .help = "in a terminal, as `muster shell`: for programs that edit lines or draw"},
    JOB_POSITIONAL,
    {.name = "command",
     .kind = ARGS_COMMAND,
     .required = true,
     .help = "a program in the worker's PATH, with its arguments"},
    {0},
};
static const char *const exec_examples[] = {
    "muster exec gpt-kjv -- nvidia-smi", "muster exec gpt-kjv --rank 1 -t -- top",
    "tar c data | muster exec gpt-kjv -- tar x -C /tmp", NULL};
static const struct args_command exec_command = {
    .program = "muster exec",
    .summary = "run a program beside a worker",
    .description = "Its input, output and exit code are this command's own. After a signal N the "
                   "code is 128 + N. It is 255 if the program was ended for another reason, which "
                   "is printed. Without -t Ctrl-C ends it.",
    .options = exec_options,
    .examples = exec_examples,
};

struct session { /* one shell or program, from its opening to its end */
    struct remote remote;
    struct raw_terminal raw;
    struct escape_keys keys;
    int signals; /* descriptor */
    int ended_by;
};

/* A signal that ends this process ends the remote program, too. */
static void handle_signal(struct session *session)
{
    struct remote *remote = &session->remote;
    int number = raw_terminal_signal(session->signals);
    if (number == SIGWINCH) {
        remote->resized = remote->rows && raw_terminal_size(&remote->rows, &remote->columns);
        return;
    }
    if (number == 0)
        return;
    session->ended_by = number;
    remote_give_up(remote, "");
}

static void serve(struct session *session)
{
    struct remote *remote = &session->remote;
    while (!remote_done(remote) && !session->ended_by) {
        struct pollfd fds[REMOTE_FDS + 1] = {{.fd = session->signals, .events = POLLIN}};
        remote_act(remote);
        size_t count = 1 + remote_wishes(remote, fds + 1);
        rpc_sync_wait_on(remote->client->rpc, fds, count, REMOTE_WAIT_MS);
        if (fds[0].revents)
            handle_signal(session);
        remote_serve(remote, fds + 1, count - 1);
    }
}

static int run_remote(struct client *client, Muster__OpenChannelRequest *wish, int signals)
{
    struct session session = {.signals = signals};
    struct error err = {0};
    struct remote_ends ends = {STDIN_FILENO, STDOUT_FILENO, wish->terminal ? -1 : STDERR_FILENO};
    uint32_t rows = 0, columns = 0;
    if (wish->terminal && raw_terminal_size(&rows, &columns)) {
        wish->rows = rows;
        wish->columns = columns;
    }
    int rc = remote_open(client, wish, &ends, &session.remote, &err);
    if (!rc && wish->terminal)
        rc = raw_terminal_enter(&session.raw, &err);
    if (rc) {
        remote_close(&session.remote);
        return client_fail(&err);
    }
    session.remote.rows = rows;
    session.remote.columns = columns;
    if (session.raw.raw) {
        session.remote.filter = escape_keys;
        session.remote.filter_arg = &session.keys;
    }
    serve(&session);
    raw_terminal_leave(&session.raw);
    int code = session.ended_by ? SIGNALLED + session.ended_by : remote_exit_code(&session.remote);
    remote_close(&session.remote);
    return code;
}

static int open_and_run(const struct args *args, Muster__OpenChannelRequest *wish)
{
    struct client client = {0};
    struct error err = {0};
    const char *term = getenv("TERM");
    wish->id = rpc_text(args_text(args, "job"));
    wish->rank = (uint32_t)args_integer(args, "rank");
    if (wish->terminal && term && strlen(term) < 64)
        wish->term = rpc_text(term);
    int signals;
    if (raw_terminal_signals(&signals, &err) || client_open(args, &client, &err))
        return client_fail(&err);
    int code = run_remote(&client, wish, signals);
    client_close(&client);
    close(signals);
    return code;
}

static int run_shell(const struct args *args)
{
    Muster__OpenChannelRequest wish = MUSTER__OPEN_CHANNEL_REQUEST__INIT;
    wish.terminal = true;
    return open_and_run(args, &wish);
}

static int run_exec(const struct args *args)
{
    Muster__OpenChannelRequest wish = MUSTER__OPEN_CHANNEL_REQUEST__INIT;
    wish.terminal = args_flag(args, "terminal");
    wish.argv = (char **)(uintptr_t)args->words;
    wish.n_argv = args->word_count;
    return open_and_run(args, &wish);
}

const struct verb verb_shell = {.name = "shell", .command = &shell_command, .run = run_shell};
const struct verb verb_exec = {.name = "exec", .command = &exec_command, .run = run_exec};
