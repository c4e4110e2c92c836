/* A picture that is drawn again and again on standard output. On a terminal it has the alternate
 * screen: each picture is written over the one before, cut to the window, and what was there before
 * is shown again at the end. Elsewhere pictures follow each other. One per process; one thread.
 *
 * Source: console_codes(4); xterm's control sequences. */
#ifndef CLI_TOP_SCREEN_H
#define CLI_TOP_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

#include "common/base/buf.h"

struct top_screen { /* zeroed memory is none */
    bool terminal, open;
};

/* Nothing happens unless standard output is a terminal. */
void top_screen_enter(struct top_screen *screen);
/* Put back what was there before; allowed again and again. */
void top_screen_leave(struct top_screen *screen);

/* `text` is lines; colours as in table.h. */
void top_screen_draw(const struct top_screen *screen, const char *text);

/* The picture for a window of `rows` lines of `columns` columns, over the one before. */
void top_screen_fit(const char *text, int rows, int columns, struct buf *out);

#endif
