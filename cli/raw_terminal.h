/* The terminal of this process while a remote one has it: raw mode, its size, and signals as a
 * descriptor. One per process; restored by raw_terminal_leave. One thread.
 *
 * Source: termios(3), ioctl_tty(2), signalfd(2). */
#ifndef CLI_RAW_TERMINAL_H
#define CLI_RAW_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

#include "common/base/error.h"

struct raw_terminal { /* zeroed memory has nothing to restore */
    bool raw;
    struct termios before;
};

/* Keys go to the remote program, also Ctrl-C. Nothing happens if standard input is no terminal. */
int raw_terminal_enter(struct raw_terminal *terminal, struct error *err);
void raw_terminal_leave(struct raw_terminal *terminal);

/* False if neither standard output nor input is a terminal of a known size. */
bool raw_terminal_size(uint32_t *ret_rows, uint32_t *ret_columns);

/* From now on SIGINT, SIGTERM, SIGHUP and SIGWINCH arrive at a descriptor, in *ret. Call it before
 * any thread is started. */
int raw_terminal_signals(int *ret, struct error *err);
int raw_terminal_signal(int fd); /* the next one, 0 = none */

/* What a person types: `~.` at the start of a line ends it, `~~` is one tilde. */
struct escape_keys {
    bool within_line, tilde;
};
/* In place; false for `~.`. A tilde that may begin an escape is kept for the next call, which may
 * then make one byte more than it was given. */
bool escape_keys(void *keys, uint8_t *bytes, size_t *size);

#endif
