/* The content of a submitted specification. */
#include "coordinator/model/spec_input.h"

#include <string.h>

#include "common/settings/variable.h"
#include "coordinator/model/spec_internal.h"

bool spec_given(const char *text)
{
    return text && text[0];
}

const char *spec_training(const struct spec_input *in, const char *name)
{
    for (int i = 0; i < in->training_count; i++)
        if (strcmp(in->training[i].key, name) == 0)
            return in->training[i].value;
    return NULL;
}

void spec_settings(const struct spec_input *in, const char *ret[SETTINGS_COUNT])
{
    for (int i = 0; i < SETTINGS_COUNT; i++)
        ret[i] = spec_training(in, setting_rows[i].name);
    for (int i = 0; i < in->env_count; i++) {
        int setting = variable_setting(in->env[i].key);
        if (setting >= 0 && spec_given(in->env[i].value))
            ret[setting] = in->env[i].value;
    }
    if (spec_given(in->checkpoint_dir))
        ret[SETTING_CHECKPOINT_DIR] = in->checkpoint_dir;
}

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool spec_is_variable(const char *name)
{
    bool ok = spec_given(name) && !(name[0] >= '0' && name[0] <= '9');
    for (const char *c = name; ok && *c; c++)
        ok = is_lower_or_digit(*c) || (*c >= 'A' && *c <= 'Z') || *c == '_';
    return ok;
}

int spec_refuse(struct error *err, const char *field, const char *hint, const char *text)
{
    error_set(err, E_INVALID_ARGUMENT, "%s", text);
    error_field(err, "%s", field);
    error_hint(err, "%s", hint);
    return E_INVALID_ARGUMENT;
}
