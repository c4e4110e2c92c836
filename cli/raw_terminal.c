#include "cli/raw_terminal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

int raw_terminal_enter(struct raw_terminal *terminal, struct error *err)
{
    *terminal = (struct raw_terminal){0};
    if (!isatty(STDIN_FILENO))
        return 0;
    if (tcgetattr(STDIN_FILENO, &terminal->before) < 0)
        return error_errno(err, errno, "the terminal's mode cannot be read");
    struct termios raw = terminal->before;
    cfmakeraw(&raw);
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
        return error_errno(err, errno, "the terminal's mode cannot be set");
    terminal->raw = true;
    return 0;
}

void raw_terminal_leave(struct raw_terminal *terminal)
{
    if (terminal->raw)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal->before);
    terminal->raw = false;
}

bool raw_terminal_size(uint32_t *ret_rows, uint32_t *ret_columns)
{
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
        return false;
    if (size.ws_row == 0 || size.ws_col == 0)
        return false;
    *ret_rows = size.ws_row;
    *ret_columns = size.ws_col;
    return true;
}

int raw_terminal_signals(int *ret, struct error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGWINCH);
    (void)signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 ||
        (*ret = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return error_errno(err, errno, "signals cannot be awaited");
    return 0;
}

int raw_terminal_signal(int fd)
{
    struct signalfd_siginfo info;
    return read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

/* A tilde kept from the last call is first here, unless it began an escape. */
static bool put_kept_back(struct escape_keys *keys, uint8_t *bytes, size_t *size)
{
    if (!keys->tilde || *size == 0)
        return true;
    keys->tilde = false;
    keys->within_line = true;
    if (bytes[0] == '.')
        return false;
    if (bytes[0] != '~') {
        memmove(bytes + 1, bytes, *size);
        bytes[0] = '~';
        (*size)++;
    }
    return true;
}

bool escape_keys(void *arg, uint8_t *bytes, size_t *size)
{
    struct escape_keys *keys = arg;
    size_t kept = 0;
    if (!put_kept_back(keys, bytes, size))
        return false;
    for (size_t i = 0; i < *size; i++) {
        bool first = bytes[i] == '~' && !keys->within_line;
        keys->within_line = bytes[i] != '\r' && bytes[i] != '\n';
        keys->tilde = first && i + 1 == *size;
        if (first && i + 1 < *size && bytes[i + 1] == '.')
            return false;
        if (first && i + 1 < *size && bytes[i + 1] == '~')
            i++;
        if (!keys->tilde)
            bytes[kept++] = bytes[i];
    }
    *size = kept;
    return true;
}
