#include "cli/progress_bar.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/table.h"
#include "common/base/str.h"

enum {
    CELLS_MIN = 8,
    CELLS_MAX = 24,
    SILENCES = 4, /* times the usual one, after which no rate is known any more */
    FACTS_MAX = 6,
};

void progress_bar_init(struct progress_bar *bar, FILE *out)
{
    const char *kind = getenv("TERM");
    bool obeys = !kind || strcmp(kind, "dumb") != 0;
    *bar = (struct progress_bar){.out = isatty(fileno(out)) && obeys ? out : NULL};
    if (bar->out)
        bar->columns = terminal_columns(bar->out);
}

/* The rate */

static void mark_step(struct progress_bar *bar, uint64_t step, int64_t now_ms)
{
    if (bar->count && bar->marks[bar->count - 1].step == step)
        return;
    if (bar->count && bar->marks[bar->count - 1].step > step)
        bar->count = 0;
    if (bar->count == PROGRESS_MARKS)
        memmove(bar->marks, bar->marks + 1, (size_t)--bar->count * sizeof(bar->marks[0]));
    bar->marks[bar->count++] = (struct progress_mark){now_ms, step};
}

/* Of one step; 0 = not known. */
static double step_ms_of(const struct progress_bar *bar, int64_t now_ms)
{
    if (!bar->now.runs || bar->count < 2)
        return 0;
    const struct progress_mark *first = &bar->marks[0], *last = &bar->marks[bar->count - 1];
    int64_t took_ms = last->at_ms - first->at_ms, silent_ms = now_ms - last->at_ms;
    if (took_ms <= 0 || silent_ms / SILENCES > took_ms / (bar->count - 1))
        return 0;
    return (double)took_ms / (double)(last->step - first->step);
}

int64_t progress_bar_left_ms(const struct progress_bar *bar, int64_t now_ms)
{
    const struct progress *now = &bar->now;
    double step_ms = step_ms_of(bar, now_ms);
    if (now->total_steps == 0 || step_ms <= 0)
        return -1;
    if (now->step >= now->total_steps)
        return 0;
    int64_t silent_ms = now_ms - bar->marks[bar->count - 1].at_ms;
    double left_ms = (double)(now->total_steps - now->step) * step_ms - (double)silent_ms;
    return left_ms < 0 ? 0 : left_ms > (double)INT64_MAX / 2 ? -1 : (int64_t)left_ms;
}

void progress_bar_hear(struct progress_bar *bar, const struct progress *progress, int64_t now_ms)
{
    if (progress->generation != bar->now.generation || !progress->runs)
        bar->count = 0;
    bar->now = *progress;
    bar->heard = true;
    if (progress->runs && progress->step_known)
        mark_step(bar, progress->step, now_ms);
    progress_bar_draw(bar, now_ms);
}

/* The line */

struct facts { /* each with two spaces before it, most important first */
    char text[FACTS_MAX][FORMAT_MAX + 16];
    int count, columns;
};

/* What does not fit is left out, and so is all after it. */
static void add_fact(struct facts *facts, int columns, const char *before, const char *fact,
                     const char *after)
{
    if (!*fact || facts->count == FACTS_MAX)
        return;
    char *text = facts->text[facts->count];
    (void)snprintf(text, sizeof(facts->text[0]), "%s%s%s%s", facts->count ? "  " : "", before, fact,
                   after);
    int wide = (int)utf8_columns(text);
    if (facts->columns + wide > columns) {
        *text = '\0';
        facts->count = FACTS_MAX;
        return;
    }
    facts->columns += wide;
    facts->count++;
}

/* "15.2 steps/s", "3.4 s/step"; "" if no rate is known. */
static void step_rate(const struct progress_bar *bar, int64_t now_ms, char ret[FORMAT_MAX])
{
    double step_ms = step_ms_of(bar, now_ms);
    ret[0] = '\0';
    if (step_ms > 1000)
        (void)snprintf(ret, FORMAT_MAX, "%.3g s/step", step_ms / 1000);
    else if (step_ms > 0)
        (void)snprintf(ret, FORMAT_MAX, "%.3g steps/s", 1000 / step_ms);
}

static struct facts facts_of(const struct progress_bar *bar, int columns, int64_t now_ms)
{
    struct facts facts = {.count = 0};
    const struct progress *now = &bar->now;
    char left[FORMAT_MAX] = "", world[FORMAT_MAX] = "", steps[FORMAT_MAX];
    int64_t left_ms = progress_bar_left_ms(bar, now_ms);
    if (left_ms >= 0)
        format_duration(left_ms / 1000 * 1000, left);
    if (left_ms >= 0 && left_ms < 1000)
        (void)str_copy(left, sizeof(left), "0s");
    if (now->world)
        (void)snprintf(world, sizeof(world), "%" PRIu32, now->world);
    add_fact(&facts, columns, "", now->word, "");
    add_fact(&facts, columns, "step ", now->steps, "");
    add_fact(&facts, columns, "", left, " left");
    add_fact(&facts, columns, "loss ", now->loss, "");
    step_rate(bar, now_ms, steps);
    if (now->rate[0])
        add_fact(&facts, columns, "", now->rate, " tok/s");
    else
        add_fact(&facts, columns, "", steps, "");
    add_fact(&facts, columns, "world ", world, "");
    return facts;
}

void progress_bar_text(const struct progress_bar *bar, int columns, int64_t now_ms,
                       char ret[PROGRESS_LINE_MAX])
{
    const struct progress *now = &bar->now;
    int room = columns - 1, cells = 0;
    double part = 0;
    struct facts facts = facts_of(bar, room, now_ms);
    if (now->total_steps) {
        struct facts beside = facts_of(bar, room - CELLS_MIN - 1, now_ms);
        int needed = facts.text[1][0] ? 1 : 0; /* state and step go before the bar */
        if (beside.text[needed][0]) {
            facts = beside;
            cells = room - facts.columns - 1;
        }
        part = (double)now->step / (double)now->total_steps;
    }
    cells = cells > CELLS_MAX ? CELLS_MAX : cells < CELLS_MIN ? 0 : cells;
    ret[0] = '\0';
    for (int i = 0; i < cells; i++)
        strncat(ret, (i + 0.5) / cells < part ? "█" : "░", PROGRESS_LINE_MAX - strlen(ret) - 1);
    if (cells)
        strncat(ret, " ", PROGRESS_LINE_MAX - strlen(ret) - 1);
    for (int i = 0; i < FACTS_MAX; i++)
        strncat(ret, facts.text[i], PROGRESS_LINE_MAX - strlen(ret) - 1);
}

/* The terminal */

void progress_bar_hide(struct progress_bar *bar)
{
    if (bar->shown) {
        fputs("\r\033[K", bar->out);
        fflush(bar->out);
    }
    bar->shown = false;
}

/* True at a new width of the window: a bar of the old one would wrap. */
static bool resized(struct progress_bar *bar, int64_t now_ms)
{
    int columns = terminal_columns(bar->out);
    if (columns == bar->columns)
        return false;
    progress_bar_hide(bar);
    bar->columns = columns;
    bar->resized_ms = now_ms;
    return true;
}

/* The new line is written over the old one: one that is erased first flickers. */
void progress_bar_draw(struct progress_bar *bar, int64_t now_ms)
{
    char line[PROGRESS_LINE_MAX];
    if (!bar->out || !bar->heard || bar->resized_ms || resized(bar, now_ms))
        return;
    progress_bar_text(bar, bar->columns, now_ms, line);
    fprintf(bar->out, "\r%s\033[K", line);
    fflush(bar->out);
    bar->shown = true;
}

void progress_bar_end(struct progress_bar *bar)
{
    progress_bar_hide(bar);
    bar->out = NULL;
}

void progress_bar_turn(struct progress_bar *bar, int64_t now_ms)
{
    if (!bar->out || resized(bar, now_ms))
        return;
    if (bar->resized_ms && now_ms - bar->resized_ms >= PROGRESS_SETTLE_MS) {
        bar->resized_ms = 0;
        progress_bar_draw(bar, now_ms);
    }
}
