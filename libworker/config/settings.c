#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "libworker/config/settings.h"

const char *setting_origin_name(enum wk_origin origin)
{
    switch (origin) {
    case WK_FROM_DEFAULT:
        return "default";
    case WK_FROM_FILE:
        return "config file";
    case WK_FROM_ENVIRONMENT:
        return "environment";
    case WK_FROM_CODE:
        return "code";
    case WK_FROM_JOB:
        return "job";
    }
    return "?";
}

/* A job's settings arrive in the environment and are as strong. */
static int origin_strength(enum wk_origin origin)
{
    return origin == WK_FROM_JOB ? WK_FROM_ENVIRONMENT : (int)origin;
}

int settings_set(struct settings *settings, enum setting setting, const char *text,
                 const struct setting_source *source, struct error *err)
{
    struct setting_value *value = &settings->values[setting];
    if (origin_strength(source->origin) < origin_strength(value->origin))
        return 0;
    struct setting_value next = {.origin = source->origin};
    struct setting_parsed parsed;
    if (setting_parse(setting, text, &parsed, err)) {
        error_wrap(err, "%s%s%s", setting_rows[setting].name, *source->where ? " from " : "",
                   source->where);
        error_field(err, "%s", setting_rows[setting].name);
        return error_recode(err, WK_EINVAL);
    }
    next.integer = parsed.integer;
    next.number = parsed.number;
    next.text = arena_strdup(&settings->arena, text);
    next.where = arena_strdup(&settings->arena, source->where);
    if (!next.text || !next.where)
        return error_set(err, WK_ENOMEM, "no memory for settings");
    *value = next;
    return 0;
}

void settings_fini(struct settings *settings)
{
    arena_fini(&settings->arena);
    *settings = (struct settings){0};
}

int settings_print(const struct settings *settings, FILE *out)
{
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting_value *value = &settings->values[i];
        if (fprintf(out, "%-28s %-20s # %s%s%s\n", setting_rows[i].name,
                    *value->text ? value->text : "\"\"", setting_origin_name(value->origin),
                    *value->where ? ": " : "", value->where) < 0)
            return WK_EIO;
    }
    return 0;
}
