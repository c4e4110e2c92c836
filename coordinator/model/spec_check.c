/* Node labels, variables and training settings of a job's specification. */
#include <string.h>

#include "common/base/str.h"
#include "common/settings/rules.h"
#include "common/settings/variable.h"
#include "coordinator/model/spec_internal.h"

enum { SPEC_FIELD_MAX = 96 };

int spec_check_constraints(const struct spec_input *in, struct error *err)
{
    for (int i = 0; i < in->constraints_count; i++) {
        const struct pair *pair = &in->constraints[i];
        if (!spec_given(pair->key) || strlen(pair->key) > LABEL_MAX ||
            strlen(pair->value) > LABEL_MAX) {
            error_set(err, E_INVALID_ARGUMENT, "'%.80s' is not a label and its value", pair->key);
            error_field(err, "constraints.%.80s", pair->key);
            error_hint(err, "1 to 63 bytes each; `muster nodes -o yaml` shows the nodes' labels");
            return E_INVALID_ARGUMENT;
        }
    }
    return 0;
}

/* Check the value of a setting in `field`. */
static int check_setting(enum setting setting, const char *text, const char *field,
                         struct error *err)
{
    struct setting_parsed ignored;
    if (!setting_parse(setting, text, &ignored, err))
        return 0;
    error_field(err, "%s", field);
    return E_INVALID_ARGUMENT;
}

/* Names that begin with MUSTER_ are reserved. Those that each worker gets cannot be set, and one
 * that nothing reads is a mistake. */
static int check_variable(const struct spec_input *in, const struct pair *pair, struct error *err)
{
    char field[SPEC_FIELD_MAX], meant[SETTING_ENV_MAX];
    (void)str_printf(field, sizeof(field), "env.%.80s", pair->key);
    if (variable_reserved(pair->key)) {
        error_set(err, E_INVALID_ARGUMENT, "%.80s is set by Muster for each worker", pair->key);
        error_field(err, "%s", field);
        error_hint(err, strcmp(pair->key, "MUSTER_RESUME_FROM") == 0 ||
                                strcmp(pair->key, "MUSTER_CHECKPOINT_DIR") == 0
                            ? "set checkpoint.dir and training.resume_from instead"
                            : "leave it out");
        return E_INVALID_ARGUMENT;
    }
    if (variable_unknown(pair->key, meant)) {
        error_set(err, E_INVALID_ARGUMENT,
                  "%.80s is no variable that Muster knows: nothing reads it", pair->key);
        error_field(err, "%s", field);
        if (*meant)
            error_hint(err, "did you mean %s?", meant);
        else
            error_hint(err, "`muster env` lists the settings; names of your own begin otherwise");
        return E_INVALID_ARGUMENT;
    }
    int setting = variable_setting(pair->key);
    if (setting < 0 || !spec_given(pair->value))
        return 0;
    const char *name = setting_rows[setting].name, *said = spec_training(in, name);
    if (said && strcmp(said, pair->value) != 0) {
        error_set(err, E_INVALID_ARGUMENT, "%s is '%.80s', but training has %s: %.80s", pair->key,
                  pair->value, name, said);
        error_field(err, "%s", field);
        error_hint(err, "set it once, under training");
        return E_INVALID_ARGUMENT;
    }
    return check_setting((enum setting)setting, pair->value, field, err);
}

int spec_check_env(const struct spec_input *in, struct error *err)
{
    for (int i = 0; i < in->env_count; i++) {
        const char *key = in->env[i].key;
        if (!spec_is_variable(key)) {
            error_set(err, E_INVALID_ARGUMENT, "'%.80s' is no variable's name", key);
            error_field(err, "env.%.80s", key);
            error_hint(err, "letters, digits and '_', first no digit");
            return E_INVALID_ARGUMENT;
        }
        int rc = in->stored ? 0 : check_variable(in, &in->env[i], err);
        if (rc)
            return rc;
    }
    return 0;
}

static int check_named_setting(const struct pair *pair, struct error *err)
{
    char field[SPEC_FIELD_MAX];
    int setting = settings_find(pair->key);
    (void)str_printf(field, sizeof(field), "training.%.80s", pair->key);
    if (setting >= 0 && setting_rows[setting].use == SETTING_OF_JOB) {
        int rc = check_setting((enum setting)setting, pair->value, field, err);
        if (rc)
            return rc;
        return 0;
    }
    error_set(err, E_INVALID_ARGUMENT,
              setting < 0 ? "no setting is called '%.80s'" : "%.80s may not be set under training",
              pair->key);
    error_field(err, "%s", field);
    if (setting >= 0)
        error_hint(err, "a job sets checkpoint.dir, every and keep under checkpoint");
    else
        settings_meant(err, pair->key);
    return E_INVALID_ARGUMENT;
}

/* Refuse what every worker would refuse. */
static int check_contradictions(const struct spec_input *in, struct error *err)
{
    const char *said[SETTINGS_COUNT];
    enum setting setting;
    spec_settings(in, said);
    int rc = settings_refused(said, RULES_FOR_JOB, &setting, err);
    if (!rc)
        return 0;
    err->code = E_INVALID_ARGUMENT;
    error_field(err, "training.%s", setting_rows[setting].name);
    error_hint(err, rc == E_UNIMPLEMENTED
                        ? "leave it out; a program of another library may set it itself"
                        : "every worker would end with this: change one of the two");
    return E_INVALID_ARGUMENT;
}

int spec_check_training(const struct spec_input *in, struct error *err)
{
    for (int i = 0; i < in->training_count && !in->stored; i++) {
        int rc = check_named_setting(&in->training[i], err);
        if (rc)
            return rc;
    }
    return in->stored ? 0 : check_contradictions(in, err);
}
