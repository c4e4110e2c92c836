#include "common/env/proc_activity.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/str.h"

enum { FILE_BYTES = 4096 }; /* the lines that are looked for are among the first */

static bool read_text(pid_t pid, const char *name, char ret[FILE_BYTES])
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, ret, FILE_BYTES - 1);
    if (fd >= 0)
        close(fd);
    ret[size > 0 ? size : 0] = '\0';
    return size > 0;
}

/* The value of a line "name:\tvalue", NULL if there is none. */
static const char *value_of(const char *text, const char *name)
{
    size_t size = strlen(name);
    for (const char *line = text; *line; line += strspn(line, "\n")) {
        if (strncmp(line, name, size) == 0 && line[size] == ':')
            return line + size + 1 + strspn(line + size + 1, "\t ");
        line += strcspn(line, "\n");
    }
    return NULL;
}

int proc_activity_read(pid_t pid, struct proc_activity *ret)
{
    char text[FILE_BYTES];
    if (!read_text(pid, "status", text))
        return E_NOT_FOUND;
    const char *name = value_of(text, "Name"), *state = value_of(text, "State");
    const char *threads = value_of(text, "Threads");
    *ret = (struct proc_activity){.state = state ? *state : '?',
                                  .threads = threads ? (int)strtol(threads, NULL, 10) : 0};
    int size = name ? (int)strcspn(name, "\n") : 0;
    (void)str_printf(ret->name, sizeof(ret->name), "%.*s", size, name ? name : "");
    /* "0": it runs, or this user may not know. */
    if (read_text(pid, "wchan", text) && strcmp(text, "0") != 0)
        (void)str_printf(ret->channel, sizeof(ret->channel), "%.*s", (int)strcspn(text, "\n"),
                         text);
    return 0;
}

const char *proc_state_text(char state)
{
    switch (state) {
    case 'R':
        return "running";
    case 'S':
        return "sleeping";
    case 'D':
        return "in an uninterruptible wait";
    case 'T':
        return "stopped";
    case 't':
        return "stopped by a debugger";
    case 'Z':
    case 'X':
        return "ended";
    default:
        return "idle";
    }
}
