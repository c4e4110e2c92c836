#include "libworker/config/remark.h"

#include <string.h>

#include "common/base/str.h"
#include "common/settings/rules.h"
#include "common/settings/variable.h"

enum { REMARK_MAX = FINDING_TEXT_MAX + 64 };

static void collect_given(const struct settings *settings, const char *ret[SETTINGS_COUNT])
{
    for (int i = 0; i < SETTINGS_COUNT; i++)
        ret[i] = settings->values[i].origin == WK_FROM_DEFAULT ? NULL : settings->values[i].text;
}

/* wk_prepare reports refusals. */
static void remark_idle(const struct settings *settings, void (*tell)(void *arg, const char *text),
                        void *arg)
{
    const char *given[SETTINGS_COUNT];
    struct finding found[FINDINGS_MAX];
    collect_given(settings, given);
    int count = settings_check_rules(given, RULES_FOR_WORKER, found);
    for (int i = 0; i < count; i++) {
        const struct setting_value *value = &settings->values[found[i].setting];
        char text[REMARK_MAX];
        if (found[i].refused)
            continue;
        (void)str_printf(text, sizeof(text), "%s (%s%s%s)", found[i].text,
                         setting_origin_name(value->origin), *value->where ? ", " : "",
                         value->where);
        tell(arg, text);
    }
}

int settings_agree(const struct settings *settings, struct error *err)
{
    const char *given[SETTINGS_COUNT];
    collect_given(settings, given);
    return settings_refused(given, RULES_FOR_WORKER, NULL, err);
}

/* A program that always sets a setting in code overrides the job, which should know that. */
static void remark_overruled(const struct settings *settings, const struct environment *environment,
                             void (*tell)(void *arg, const char *text), void *arg)
{
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting_value *value = &settings->values[i];
        char name[SETTING_ENV_MAX], text[REMARK_MAX];
        const char *said = environment->get(environment->arg, setting_env_name(i, name));
        if (value->origin != WK_FROM_CODE || !said || !*said || strcmp(said, value->text) == 0)
            continue;
        (void)str_printf(text, sizeof(text),
                         "%s is %.100s in the program's code, which counts; %s=%.100s does not",
                         setting_rows[i].name, *value->text ? value->text : "empty", name, said);
        tell(arg, text);
    }
}

/* A variable with nearly a setting's name is a mistake that would otherwise go unnoticed. */
static void remark_slips(const struct environment *environment,
                         void (*tell)(void *arg, const char *text), void *arg)
{
    const char *const *entry = environment->all ? environment->all(environment->arg) : NULL;
    for (; entry && *entry; entry++) {
        char name[SETTING_ENV_MAX], meant[SETTING_ENV_MAX], text[REMARK_MAX];
        size_t size = strcspn(*entry, "=");
        if (size >= sizeof(name))
            continue;
        memcpy(name, *entry, size);
        name[size] = 0;
        if (!variable_unknown(name, meant) || !*meant)
            continue;
        (void)str_printf(text, sizeof(text),
                         "%s in the environment is no setting; did you mean %s?", name, meant);
        tell(arg, text);
    }
}

void settings_remark(const struct settings *settings, const struct environment *environment,
                     void (*tell)(void *arg, const char *text), void *arg)
{
    remark_idle(settings, tell, arg);
    remark_overruled(settings, environment, tell, arg);
    remark_slips(environment, tell, arg);
}
