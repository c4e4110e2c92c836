/* A terminal: a process beside a running worker, or a connection to a port of its node. launcher.h
 * opens one (open_terminal, open_connection). Loop thread only; a callback never runs inside a call
 * of this header.
 *
 *   pty         what a person types; one stream of output, with echo, signals and window size
 *   pipes       a program without a terminal: standard output and standard error apart
 *   connection  TCP to 127.0.0.1:PORT, where a program of the worker's user listens (port_owner.h)
 *
 * The process has what the worker was started with: user and groups, namespaces, cgroup, cores,
 * environment with secrets, working folder, no new privileges. It is started by worker_spawn.h, as
 * the worker was. A keeper process (terminal_keeper.h) is its parent, and ends all its processes.
 *
 *   open ─► starting ─► running ─► ending ─► ended      output and input flow in all but the last
 *
 * The terminal ends when its process ends, when its worker ends (at once), after terminal_hang_up
 * and terminal_free, or when the agent ends: a restarted agent finds no terminals. Processes that
 * remain are sent SIGHUP, and SIGKILL after TERMINAL_GRACE_MS.
 *
 * Memory is bounded: nothing is stored here. Output is read while it is not paused, at most
 * TERMINAL_READ_BYTES a turn; otherwise it waits in the kernel, and the program blocks. Input that
 * the kernel does not accept stays with the caller.
 *
 * Secrets are not masked here (mask.h): a person who may open a terminal may read them.
 *
 * Sources: pty(7), ioctl_tty(2), termios(3).
 */
#ifndef SUPERVISOR_TERMINAL_H
#define SUPERVISOR_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

enum {
    TERMINALS_NODE_MAX = 128,           /* with connections: twice what one tenant may have, */
    TERMINALS_WORKER_MAX = 16,          /* and those that are still ending */
    TERMINAL_ARGS_MAX = 256,            /* number of arguments */
    TERMINAL_ARGS_MAX_BYTES = 64 << 10, /* of all, with their ends */
    TERMINAL_TYPE_MAX_BYTES = 64,       /* of TERM */
    TERMINAL_SIDE_MAX = 4096,           /* rows, columns */
    TERMINAL_READ_BYTES = 16 << 10,     /* of one `output` */
    TERMINAL_GRACE_MS = 2000,
    TERMINAL_CONNECT_MS = 5000,
    TERMINAL_WHY_BYTES = 512,
};

enum terminal_stream { TERMINAL_OUTPUT, TERMINAL_ERRORS }; /* errors: pipes only */

struct terminal_wish {       /* borrowed for the call */
    const char *const *argv; /* NULL-terminated, argv[0] searched in the worker's PATH; NULL = SHELL
                                of the worker's environment, else /bin/sh */
    bool pty;
    uint16_t rows, columns; /* with pty; 0 = 24, 80 */
    const char *type;       /* TERM, with pty; NULL, "" = "dumb" */
};

enum terminal_reason {
    TERMINAL_EXITED,       /* `code` */
    TERMINAL_SIGNALED,     /* `signal`; also after terminal_hang_up */
    TERMINAL_NOT_STARTED,  /* `code` as agent_start_code, 126 or 127 for the program's own */
    TERMINAL_WORKER_ENDED, /* the worker's end ended it */
    TERMINAL_CLOSED,       /* a connection ended in order */
    TERMINAL_REFUSED,      /* a connection was not possible */
    TERMINAL_LOST,         /* its end was not observed: the keeper was killed, a connection broke */
};

struct terminal_end {
    enum terminal_reason reason;
    int code;
    int signal;
    char why[TERMINAL_WHY_BYTES]; /* a sentence for people; "" for exits and CLOSED */
};

struct terminal_events {
    void *arg;
    /* At most TERMINAL_READ_BYTES, to be copied. After terminal_pause nothing follows. */
    void (*output)(void *arg, enum terminal_stream stream, const char *bytes, size_t size);
    /* After a terminal_write that did not accept everything: there is room again. */
    void (*writable)(void *arg);
    /* Once, after the last output. The owner then calls terminal_free. */
    void (*ended)(void *arg, const struct terminal_end *end);
};

struct terminal;

/* Accept a prefix of the bytes and return its size. 0 also after the end of input and the end. A
 * connection accepts none before it is made; `writable` follows. */
size_t terminal_write(struct terminal *terminal, const char *bytes, size_t size);

/* No more input: of a pty, its end-of-file character if lines are edited there (else nothing); a
 * pipe is closed; a connection is shut down in this direction. Call it after all was accepted. */
void terminal_end_input(struct terminal *terminal);

void terminal_pause(struct terminal *terminal); /* repeated calls are allowed */
void terminal_resume(struct terminal *terminal);

/* The foreground program gets SIGWINCH. E_FAILED_PRECONDITION without a pty, E_OUT_OF_RANGE. */
int terminal_resize(struct terminal *terminal, uint16_t rows, uint16_t columns, struct error *err);

/* SIGHUP to all its processes, SIGKILL after TERMINAL_GRACE_MS; a connection is closed. `ended`
 * follows, unless it stays paused. */
void terminal_hang_up(struct terminal *terminal);

/* No callback follows. A terminal that has not ended is hung up and ends by itself. NULL does
 * nothing. */
void terminal_free(struct terminal *terminal);

#endif
