#include "common/settings/rules.h"

#include <string.h>

#include "common/base/str.h"

enum verdict {
    IDLE,        /* counts for nothing */
    CONTRADICTS, /* workers refuse both together */
    LACKING,     /* libworker does not have it */
};

struct rule {
    enum verdict verdict;
    enum setting setting;
    const char *when; /* the value it is about; NULL: any but the default */
    enum setting needs;
    const char *values; /* of which that must have one; NULL: any text at all */
    const char *but;    /* a value that does no harm, beside the default */
};

#define SHARDED "zero1|zero2|fsdp"

static const struct rule rules[] = {
    {LACKING, SETTING_MIXED_PRECISION, "fp8", SETTING_MIXED_PRECISION, "bf16|fp16", NULL},
    {LACKING, SETTING_MESH_CP, NULL, SETTING_MESH_CP, "1", "1"},
    {LACKING, SETTING_MESH_TP, NULL, SETTING_MESH_TP, "1", "1"},
    {LACKING, SETTING_MESH_PP, NULL, SETTING_MESH_PP, "1", "1"},
    {CONTRADICTS, SETTING_STOCHASTIC_ROUNDING, NULL, SETTING_MIXED_PRECISION, "bf16", NULL},
    {CONTRADICTS, SETTING_LOW_GRADIENTS, NULL, SETTING_STRATEGY, SHARDED, NULL},
    {CONTRADICTS, SETTING_LOW_GRADIENTS, NULL, SETTING_MIXED_PRECISION, "bf16|fp16", NULL},
    {CONTRADICTS, SETTING_LOSS_SCALE_INITIAL, NULL, SETTING_MIXED_PRECISION, "fp16", NULL},
    {CONTRADICTS, SETTING_LOSS_SCALE_GROWTH, NULL, SETTING_MIXED_PRECISION, "fp16", NULL},
    {CONTRADICTS, SETTING_LOSS_SCALE_BACKOFF, NULL, SETTING_MIXED_PRECISION, "fp16", NULL},
    {CONTRADICTS, SETTING_LOSS_SCALE_INTERVAL, NULL, SETTING_MIXED_PRECISION, "fp16", NULL},
    {CONTRADICTS, SETTING_MESH_DP_SHARD, NULL, SETTING_STRATEGY, SHARDED, "1"},
    {CONTRADICTS, SETTING_OPTIMIZER, "muon", SETTING_STRATEGY, "ddp", NULL},
    {CONTRADICTS, SETTING_OPTIMIZER, "adafactor", SETTING_STRATEGY, "ddp", NULL},
    {CONTRADICTS, SETTING_STATIC_GRAPH, NULL, SETTING_STRATEGY, "ddp", NULL},
    {CONTRADICTS, SETTING_DDP_HOOK, NULL, SETTING_STRATEGY, "ddp", NULL},
    {IDLE, SETTING_POWERSGD_RANK, NULL, SETTING_DDP_HOOK, "powersgd", NULL},
    {IDLE, SETTING_POWERSGD_WARM_UP, NULL, SETTING_DDP_HOOK, "powersgd", NULL},
    {IDLE, SETTING_PREFETCH, NULL, SETTING_STRATEGY, "fsdp", NULL},
    {IDLE, SETTING_RESHARD, NULL, SETTING_STRATEGY, "fsdp", NULL},
    {CONTRADICTS, SETTING_OFFLOAD_PARAMETERS, NULL, SETTING_OFFLOAD_DIR, NULL, NULL},
    {CONTRADICTS, SETTING_OFFLOAD_PARAMETERS, NULL, SETTING_STRATEGY, "fsdp", NULL},
    {IDLE, SETTING_OFFLOAD_STATE, NULL, SETTING_DEVICE, "auto|cuda", NULL},
    {CONTRADICTS, SETTING_OFFLOAD_MASTERS, NULL, SETTING_MIXED_PRECISION, "bf16|fp16", NULL},
    {IDLE, SETTING_OFFLOAD_MASTERS, NULL, SETTING_DEVICE, "auto|cuda", NULL},
    {IDLE, SETTING_OFFLOAD_ACTIVATIONS, NULL, SETTING_DEVICE, "auto|cuda", NULL},
    {IDLE, SETTING_CHECKPOINT_EVERY, NULL, SETTING_CHECKPOINT_DIR, NULL, NULL},
    {IDLE, SETTING_CHECKPOINT_KEEP, NULL, SETTING_CHECKPOINT_DIR, NULL, NULL},
    {IDLE, SETTING_CHECKPOINT_PATIENCE, NULL, SETTING_CHECKPOINT_DIR, NULL, NULL},
    {IDLE, SETTING_RESUME_FROM, "latest", SETTING_CHECKPOINT_DIR, NULL, NULL},
};

enum { RULES = sizeof(rules) / sizeof(rules[0]) };
_Static_assert((int)RULES <= (int)FINDINGS_MAX, "each rule may speak once");

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
           !setting_parse(setting, one, &a, NULL) && !setting_parse(setting, other, &b, NULL) &&
           a.integer == b.integer && !(a.number < b.number) && !(a.number > b.number);
}

static bool applies(const struct rule *rule, const char *const given[SETTINGS_COUNT])
{
    const char *text = given[rule->setting];
    if (!text)
        return false;
    if (rule->when)
        return strcmp(text, rule->when) == 0;
    return !same_value(rule->setting, text, setting_rows[rule->setting].fallback) &&
           !(rule->but && same_value(rule->setting, text, rule->but));
}

static bool holds(const struct rule *rule, const char *const given[SETTINGS_COUNT])
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

/* "fp16", "zero1, zero2 or fsdp" of "zero1|zero2|fsdp". */
static const char *listed(const char *values, char *ret, size_t size)
{
    struct str rest = str_of(values), one;
    size_t used = 0;
    ret[0] = 0;
    while (str_next(&rest, '|', &one) && used < size) {
        const char *joint = !used ? "" : rest.size ? ", " : " or ";
        (void)str_printf(ret + used, size - used, "%s%.*s", joint, (int)one.size, one.data);
        used = strlen(ret);
    }
    return ret;
}

static void describe_idle(const struct rule *rule, const char *has, struct finding *ret)
{
    const char *name = setting_rows[rule->setting].name, *needs = setting_rows[rule->needs].name;
    if (rule->values)
        (void)str_printf(ret->text, sizeof(ret->text),
                         "%s counts only with %s=%s, and it is %s: set that, or leave %s out", name,
                         needs, rule->values, has, name);
    else
        (void)str_printf(ret->text, sizeof(ret->text),
                         "%s counts only with a %s, and there is none: set that, or leave %s out",
                         name, needs, name);
}

/* `sure`: the caller knows that the other setting does not change. */
static void describe_contradiction(const struct rule *rule, const char *const given[SETTINGS_COUNT],
                                   bool sure, struct finding *ret)
{
    enum { LIST_MAX = 64 };
    char list[LIST_MAX];
    const char *name = setting_rows[rule->setting].name, *needs = setting_rows[rule->needs].name;
    const char *unless = sure ? "" : "; workers refuse it, unless their program sets that itself";
    ret->refused = sure ? E_INVALID_ARGUMENT : 0;
    if (rule->values)
        (void)str_printf(ret->text, sizeof(ret->text), "%s %s contradicts %s %s: it needs %s%s",
                         name, given[rule->setting], needs, value(given, rule->needs),
                         listed(rule->values, list, sizeof(list)), unless);
    else
        (void)str_printf(ret->text, sizeof(ret->text), "%s needs %s %s, and there is none%s", name,
                         strchr("aeiou", *needs) ? "an" : "a", needs, unless);
}

static void describe_lack(const struct rule *rule, const char *has, struct finding *ret)
{
    enum { LIST_MAX = 64 };
    char list[LIST_MAX];
    ret->refused = E_UNIMPLEMENTED;
    (void)str_printf(
        ret->text, sizeof(ret->text), "%s %s is not in this build of libworker, which has %s",
        setting_rows[rule->setting].name, has, listed(rule->values, list, sizeof(list)));
}

static void describe_finding(const struct rule *rule, const char *const given[SETTINGS_COUNT],
                             enum rules_for whom, struct finding *ret)
{
    bool worker = whom == RULES_FOR_WORKER;
    *ret = (struct finding){.setting = rule->setting};
    switch (rule->verdict) {
    case IDLE:
        describe_idle(rule, value(given, rule->needs), ret);
        return;
    case CONTRADICTS:
        describe_contradiction(rule, given, worker || given[rule->needs], ret);
        return;
    case LACKING:
        describe_lack(rule, given[rule->setting], ret);
        return;
    }
}

int settings_check_rules(const char *const given[SETTINGS_COUNT], enum rules_for whom,
                         struct finding ret[FINDINGS_MAX])
{
    int count = 0;
    for (int i = 0; i < RULES; i++) {
        if (!applies(&rules[i], given) || holds(&rules[i], given))
            continue;
        struct finding next;
        describe_finding(&rules[i], given, whom, &next);
        bool told = count > 0 && ret[count - 1].setting == next.setting;
        if (told && (ret[count - 1].refused || !next.refused))
            continue;
        ret[told ? count - 1 : count] = next;
        if (!told)
            count++;
    }
    return count;
}

int settings_refused(const char *const given[SETTINGS_COUNT], enum rules_for whom,
                     enum setting *ret_setting, struct error *err)
{
    struct finding found[FINDINGS_MAX];
    int count = settings_check_rules(given, whom, found);
    for (int i = 0; i < count; i++) {
        if (!found[i].refused)
            continue;
        if (ret_setting)
            *ret_setting = found[i].setting;
        return error_set(err, found[i].refused, "%s", found[i].text);
    }
    return 0;
}
