/* A job's name from its command. */
#include <string.h>

#include "common/base/str.h"
#include "common/rpc/spec.h"

enum { NAME_MAX_BYTES = 32 };

struct part { /* of a word */
    const char *text;
    size_t length;
};

/* The last component of the path that `text` is up to the first of `ends`. */
static struct part base_of(const char *text, const char *ends)
{
    size_t start = 0, end = strcspn(text, ends);
    for (size_t i = 0; i < end; i++)
        if (text[i] == '/' && i + 1 < end)
            start = i + 1;
    return (struct part){text + start, end - start};
}

static bool is_one_of(struct part part, const char *const *names)
{
    for (; *names; names++)
        if (strlen(*names) == part.length && memcmp(*names, part.text, part.length) == 0)
            return true;
    return false;
}

static bool is_shell(struct part program)
{
    static const char *const shells[] = {"sh", "bash", "dash", "zsh", "ksh", NULL};
    return is_one_of(program, shells);
}

static bool is_python(struct part program)
{
    return program.length >= 6 && memcmp(program.text, "python", 6) == 0;
}

static struct part stem_of(struct part script)
{
    static const char *const endings[] = {".py", ".sh", NULL};
    for (int i = 0; endings[i]; i++)
        if (script.length > 3 && memcmp(script.text + script.length - 3, endings[i], 3) == 0)
            script.length -= 3;
    return script;
}

static struct part named_by(char *const *words, size_t count)
{
    struct part program = base_of(words[0], "");
    if (!is_shell(program) && !is_python(program))
        return program;
    for (size_t i = 1; i < count; i++) {
        bool text = is_shell(program) && strcmp(words[i], "-c") == 0 && i + 1 < count;
        if (text) /* the program it begins with */
            return base_of(words[i + 1] + strspn(words[i + 1], " \t\n"), " \t\n;|&");
        if (words[i][0] && words[i][0] != '-')
            return stem_of(base_of(words[i], ""));
        if (is_python(program) && strcmp(words[i], "-c") == 0)
            break;
    }
    return program;
}

void spec_name_of(const Muster__JobSpec *spec, char *ret, size_t size)
{
    struct part part =
        spec->n_command ? named_by(spec->command, spec->n_command) : (struct part){"", 0};
    size_t limit = size - 1 < NAME_MAX_BYTES ? size - 1 : NAME_MAX_BYTES, i = 0;
    for (; i < limit && i < part.length; i++) {
        char c = part.text[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (i && c == '.');
        ret[i] = fine ? c : (i ? '-' : 'j');
    }
    ret[i] = 0;
}
