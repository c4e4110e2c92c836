#include "coordinator/model/reason.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"

const char *reason_name(enum reason_kind kind)
{
    static const char *const names[] = {
#define X(upper, lower, text) #lower,
        REASONS(X)
#undef X
    };
    return names[kind];
}

void reason_set(struct reason *ret, enum reason_kind kind, const char *fmt, ...)
{
    memset(ret, 0, sizeof *ret);
    ret->rank = -1;
    (void)str_copy(ret->kind, sizeof ret->kind, reason_name(kind));
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(ret->text, sizeof ret->text, fmt, ap);
    va_end(ap);
}

void reason_output(struct reason *ret, const char *output)
{
    size_t size = strlen(output), room = sizeof ret->output - 1;
    if (size > room) {
        const char *cut = output + size - room;
        const char *line = cut[-1] == '\n' ? cut : strchr(cut, '\n');
        if (line && *line == '\n')
            line++;
        while (((unsigned char)*cut & 0xc0) == 0x80) /* in the middle of a character */
            cut++;
        output = line && *line ? line : cut;
    }
    (void)str_copy(ret->output, sizeof ret->output, output);
}

void reason_hint(struct reason *ret, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(ret->hint, sizeof ret->hint, fmt, ap);
    va_end(ap);
}
