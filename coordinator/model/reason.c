#include "coordinator/model/reason.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"
#include "coordinator/model/job.h"

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
    memset(ret, 0, sizeof(*ret));
    ret->rank = -1;
    (void)str_copy(ret->kind, sizeof(ret->kind), reason_name(kind));
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(ret->text, sizeof(ret->text), fmt, ap);
    va_end(ap);
}

enum { MARK_TENANT = 0x1e, MARK_NAME = 0x1f, MARK_END = 0x1d };

const char *reason_name_job(const struct job *job, const char *name, char ret[REASON_NAME_MAX])
{
    (void)str_printf(ret, REASON_NAME_MAX, "%c%s%c%s%c", MARK_TENANT, job ? job->spec->tenant : "",
                     MARK_NAME, name, MARK_END);
    return ret;
}

static size_t name_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-");
}

void reason_show(const char *text, const char *tenant, const char *others, struct buf *out)
{
    while (*text) {
        size_t plain = strcspn(text, "\x1d\x1e\x1f");
        (void)buf_append(out, text, plain);
        text += plain;
        if (*text != MARK_TENANT) {
            if (*text != '\0')
                text++;
            continue;
        }
        const char *of = ++text, *name = text += name_length(text);
        size_t of_length = (size_t)(text - of), length = 0;
        if (*text == MARK_NAME) {
            name = ++text;
            length = name_length(name);
            text += length;
        }
        bool own = !tenant || (strlen(tenant) == of_length && memcmp(of, tenant, of_length) == 0);
        (void)(own ? buf_append(out, name, length) : buf_str(out, others));
        if (*text == MARK_END)
            text++;
    }
}

void reason_output(struct reason *ret, const char *output)
{
    size_t size = strlen(output), room = sizeof(ret->output) - 1;
    if (size > room) {
        const char *cut = output + size - room;
        const char *line = cut[-1] == '\n' ? cut : strchr(cut, '\n');
        if (line && *line == '\n')
            line++;
        while (((unsigned char)*cut & 0xc0) == 0x80) /* in the middle of a character */
            cut++;
        output = line && *line ? line : cut;
    }
    (void)str_copy(ret->output, sizeof(ret->output), output);
}

void reason_hint(struct reason *ret, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(ret->hint, sizeof(ret->hint), fmt, ap);
    va_end(ap);
}
