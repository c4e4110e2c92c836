#include "cli/top_screen.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { ROWS_UNKNOWN = 24, COLUMNS_UNKNOWN = 80 };

void top_screen_enter(struct top_screen *screen)
{
    screen->terminal = isatty(STDOUT_FILENO);
    screen->open = screen->terminal;
    if (screen->open)
        fputs("\033[?1049h\033[?25l\033[2J", stdout);
}

void top_screen_leave(struct top_screen *screen)
{
    if (screen->open)
        fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    screen->open = false;
}

/* One line, at most `columns` wide; colours take no room. Returns what follows it. */
static const char *fit_line(const char *text, int columns, struct buf *out)
{
    int column = 0;
    while (*text && *text != '\n') {
        size_t size = 1;
        if (*text == '\033') {
            size = strcspn(text, "m\n");
            if (text[size] == 'm')
                size++;
            (void)buf_append(out, text, size);
        } else {
            while ((text[size] & 0xc0) == 0x80) /* the rest of a code point */
                size++;
            if (column++ < columns)
                (void)buf_append(out, text, size);
        }
        text += size;
    }
    return *text ? text + 1 : text;
}

void top_screen_fit(const char *text, int rows, int columns, struct buf *out)
{
    (void)buf_str(out, "\033[H");
    for (int row = 0; *text && row < rows; row++) {
        (void)buf_str(out, row ? "\n" : "");
        text = fit_line(text, columns, out);
        (void)buf_str(out, "\033[0m\033[K");
    }
    (void)buf_str(out, "\033[J");
}

void top_screen_draw(const struct top_screen *screen, const char *text)
{
    struct winsize size = {0};
    struct buf out = {0};
    if (!screen->open) {
        fputs(text, stdout);
    } else {
        (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        top_screen_fit(text, size.ws_row ? size.ws_row : ROWS_UNKNOWN,
                       size.ws_col ? size.ws_col : COLUMNS_UNKNOWN, &out);
        fputs(buf_cstr(&out), stdout);
    }
    fflush(stdout);
    buf_fini(&out);
}
