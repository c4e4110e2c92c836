/* The line below a followed job's output: how far it is, at what rate, and how long it will take.
 *
 *     ███████░░░░░░░░░ running  step 120/1000  44s left  loss 2.1000  12.3k tok/s  world 2
 *
 * The line never reaches the last column, so no terminal wraps it. On a narrow one the last facts
 * are left out first, then the bar. Nothing is drawn while a window changes its size: terminals
 * move what is there.
 *
 * One thread; owned by follow.c, which hides the line before other output and draws it again.
 */
#ifndef CLI_PROGRESS_BAR_H
#define CLI_PROGRESS_BAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/parse.h"

enum {
    PROGRESS_MARKS = 16, /* newest steps that the rate is computed from */
    PROGRESS_LINE_MAX = 512,
    PROGRESS_SETTLE_MS = 300, /* a window has its size when it has kept it for this long */
};

struct progress {  /* of a job, as last reported */
    char word[24]; /* its state */
    bool runs, step_known;
    uint64_t generation, step, total_steps;                     /* total 0 = not known */
    char steps[FORMAT_MAX], loss[FORMAT_MAX], rate[FORMAT_MAX]; /* "" = not known */
    uint32_t world;
};

struct progress_bar {
    FILE *out; /* a terminal; NULL: nothing is ever drawn */
    struct progress now;
    bool heard, shown;
    int columns;
    int64_t resized_ms; /* 0 = the window has its size */
    struct progress_mark {
        int64_t at_ms;
        uint64_t step;
    } marks[PROGRESS_MARKS]; /* each of another step, oldest first */
    int count;
};

/* `out`: drawn on if it is a terminal that obeys. */
void progress_bar_init(struct progress_bar *bar, FILE *out);
void progress_bar_hear(struct progress_bar *bar, const struct progress *progress, int64_t now_ms);
void progress_bar_hide(struct progress_bar *bar);
void progress_bar_draw(struct progress_bar *bar, int64_t now_ms);

/* Hides it for good. */
void progress_bar_end(struct progress_bar *bar);

/* Several times a second: follows the window's size. */
void progress_bar_turn(struct progress_bar *bar, int64_t now_ms);

/* Milliseconds until the last step, or -1: there is no total, or no rate yet. The rate is of the
 * newest PROGRESS_MARKS reported steps; it ends where steps go back, with the generation, and after
 * four times the usual silence. */
int64_t progress_bar_left_ms(const struct progress_bar *bar, int64_t now_ms);

/* The line for a terminal of this width, without control characters. A job that reports no tokens a
 * second has the rate of its steps there. */
void progress_bar_text(const struct progress_bar *bar, int columns, int64_t now_ms,
                       char ret[PROGRESS_LINE_MAX]);

#endif
