#include "common/settings/idle.h"

#include <string.h>

#include "common/base/str.h"

struct rule {
    enum setting setting;
    const char *when; /* the value it is about; NULL: any but the default */
    enum setting needs;
    const char *values; /* of which that must have one; NULL: any text at all */
};

static const struct rule rules[] = {
    {SETTING_STOCHASTIC_ROUNDING, NULL, SETTING_MIXED_PRECISION, "bf16"},
    {SETTING_LOW_GRADIENTS, NULL, SETTING_STRATEGY, "zero1|zero2|fsdp"},
    {SETTING_LOW_GRADIENTS, NULL, SETTING_MIXED_PRECISION, "bf16|fp16"},
    {SETTING_LOSS_SCALE_INITIAL, NULL, SETTING_MIXED_PRECISION, "fp16"},
    {SETTING_LOSS_SCALE_GROWTH, NULL, SETTING_MIXED_PRECISION, "fp16"},
    {SETTING_LOSS_SCALE_BACKOFF, NULL, SETTING_MIXED_PRECISION, "fp16"},
    {SETTING_LOSS_SCALE_INTERVAL, NULL, SETTING_MIXED_PRECISION, "fp16"},
    {SETTING_MESH_DP_SHARD, NULL, SETTING_STRATEGY, "zero1|zero2|fsdp"},
    {SETTING_STATIC_GRAPH, NULL, SETTING_STRATEGY, "ddp"},
    {SETTING_DDP_HOOK, NULL, SETTING_STRATEGY, "ddp"},
    {SETTING_POWERSGD_RANK, NULL, SETTING_DDP_HOOK, "powersgd"},
    {SETTING_POWERSGD_WARM_UP, NULL, SETTING_DDP_HOOK, "powersgd"},
    {SETTING_PREFETCH, NULL, SETTING_STRATEGY, "fsdp"},
    {SETTING_RESHARD, NULL, SETTING_STRATEGY, "fsdp"},
    {SETTING_OFFLOAD_PARAMETERS, NULL, SETTING_STRATEGY, "fsdp"},
    {SETTING_OFFLOAD_PARAMETERS, NULL, SETTING_OFFLOAD_DIR, NULL},
    {SETTING_CHECKPOINT_EVERY, NULL, SETTING_CHECKPOINT_DIR, NULL},
    {SETTING_CHECKPOINT_KEEP, NULL, SETTING_CHECKPOINT_DIR, NULL},
    {SETTING_CHECKPOINT_PATIENCE, NULL, SETTING_CHECKPOINT_DIR, NULL},
    {SETTING_RESUME_FROM, "latest", SETTING_CHECKPOINT_DIR, NULL},
};

enum { RULES = sizeof(rules) / sizeof(rules[0]) };
_Static_assert((int)RULES <= (int)IDLE_MAX, "each rule may speak once");

static const char *value(const char *const given[SETTINGS_COUNT], enum setting setting)
{
    return given[setting] ? given[setting] : setting_rows[setting].fallback;
}

/* "off" and "false", "1.0" and "1" are the same value. */
static bool same_value(enum setting setting, const char *one, const char *other)
{
    struct setting_parsed a, b;
    enum setting_kind kind = setting_rows[setting].kind;
    if (strcmp(one, other) == 0)
        return true;
    return kind != SETTING_TEXT && kind != SETTING_CHOICE &&
           setting_parse(setting, one, &a, NULL) == 0 &&
           setting_parse(setting, other, &b, NULL) == 0 && a.integer == b.integer &&
           !(a.number < b.number) && !(a.number > b.number);
}

static bool speaks(const struct rule *rule, const char *const given[SETTINGS_COUNT])
{
    const char *text = given[rule->setting];
    if (!text)
        return false;
    return rule->when ? strcmp(text, rule->when) == 0
                      : !same_value(rule->setting, text, setting_rows[rule->setting].fallback);
}

static bool met(const struct rule *rule, const char *const given[SETTINGS_COUNT])
{
    const char *has = value(given, rule->needs);
    struct str rest = str_of(rule->values), one;
    if (!rule->values)
        return *has;
    while (str_next(&rest, '|', &one))
        if (str_equal(one, str_of(has)))
            return true;
    return false;
}

static void tell(const struct rule *rule, const char *const given[SETTINGS_COUNT],
                 struct idle_setting *ret)
{
    const char *name = setting_rows[rule->setting].name, *needs = setting_rows[rule->needs].name;
    ret->setting = rule->setting;
    if (rule->values)
        (void)str_printf(ret->text, sizeof(ret->text),
                         "%s counts only with %s=%s, and it is %s: set that, or leave %s out", name,
                         needs, rule->values, value(given, rule->needs), name);
    else
        (void)str_printf(ret->text, sizeof(ret->text),
                         "%s counts only with a %s, and there is none: set that, or leave %s out",
                         name, needs, name);
}

int settings_idle(const char *const given[SETTINGS_COUNT], struct idle_setting ret[IDLE_MAX])
{
    int count = 0;
    for (int i = 0; i < RULES; i++) {
        bool told = count > 0 && ret[count - 1].setting == rules[i].setting;
        if (!told && speaks(&rules[i], given) && !met(&rules[i], given))
            tell(&rules[i], given, &ret[count++]);
    }
    return count;
}
