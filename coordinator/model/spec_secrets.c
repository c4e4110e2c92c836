/* The secrets that a job names, and variables of its `env` that look like secrets. */
#include <string.h>
#include <strings.h>

#include "common/base/name.h"
#include "common/base/str.h"
#include "common/settings/variable.h"
#include "coordinator/model/spec_internal.h"

enum { SECRET_NAME_MAX = 63, FIELD_MAX = 96, NAMED_MAX = 4, VALUE_MIN_BYTES = 8 };

static int refuse_variable(struct error *err, const char *variable, const char *hint)
{
    error_field(err, "secrets.%.80s", variable);
    error_hint(err, "%s", hint);
    return E_INVALID_ARGUMENT;
}

static int check_secret(const struct spec_input *in, const struct pair *pair, struct error *err)
{
    char ignored[SETTING_ENV_MAX];
    const char *key = pair->key;
    if (!spec_is_variable(key)) {
        error_set(err, E_INVALID_ARGUMENT, "'%.80s' is no variable's name", key);
        return refuse_variable(err, key, "letters, digits and '_', first no digit");
    }
    if (variable_reserved(key) || variable_setting(key) >= 0 || variable_unknown(key, ignored)) {
        error_set(err, E_INVALID_ARGUMENT,
                  "%.80s cannot be a secret: Muster sets this variable itself", key);
        return refuse_variable(err, key, "take a name that does not begin with MUSTER_");
    }
    if (!name_valid(pair->value)) {
        /* It may be the value itself, so do not repeat it. */
        error_set(err, E_INVALID_ARGUMENT, "secrets.%.80s is not the name of a secret", key);
        return refuse_variable(
            err, key,
            "lower-case letters, digits, '.' and '-', 63 at most; the value is set by "
            "`muster secret set NAME`");
    }
    for (int i = 0; i < in->env_count; i++)
        if (strcmp(in->env[i].key, key) == 0) {
            error_set(err, E_INVALID_ARGUMENT, "%.80s is in env and in secrets", key);
            return refuse_variable(err, key, "set it once, under secrets");
        }
    return 0;
}

int spec_check_secrets(const struct spec_input *in, struct error *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < in->secrets_count; i++)
        rc = check_secret(in, &in->secrets[i], err);
    return rc;
}

/* Words that names of secrets end with, as variables are written; prefixes of known tokens. */
static const char *const words[] = {"KEY",        "TOKEN",  "SECRET",      "PASSWORD", "PASSWD",
                                    "PASSPHRASE", "APIKEY", "CREDENTIALS", NULL};
static const char *const prefixes[] = {"hf_",  "ghp_", "gho_",        "github_pat_", "glpat-",
                                       "sk-",  "AKIA", "ASIA",        "xoxb-",       "xoxp-",
                                       "AIza", "mst_", "-----BEGIN ", NULL};

/* TOKENIZERS_PARALLELISM and KEYBOARD are not secrets, HF_TOKEN and wandb_api_key are. */
static bool name_looks_secret(const char *name)
{
    size_t size = strlen(name);
    for (int i = 0; words[i]; i++) {
        size_t word = strlen(words[i]);
        if (size >= word && strcasecmp(name + size - word, words[i]) == 0 &&
            (size == word || name[size - word - 1] == '_'))
            return true;
    }
    return false;
}

static bool value_looks_secret(const char *value)
{
    for (int i = 0; prefixes[i]; i++)
        if (str_starts(value, prefixes[i]) &&
            strlen(value) >= strlen(prefixes[i]) + VALUE_MIN_BYTES)
            return true;
    return false;
}

/* Many such names have a path or a number as value, which is not a secret. */
static bool looks_secret(const struct pair *pair)
{
    const char *value = pair->value ? pair->value : "";
    if (value_looks_secret(value))
        return true;
    return name_looks_secret(pair->key) && *value && *value != '/' &&
           value[strspn(value, "0123456789.")];
}

static void secret_name(const char *variable, char ret[SECRET_NAME_MAX + 1])
{
    size_t size = 0;
    for (; size < SECRET_NAME_MAX && variable[size]; size++) {
        char c = variable[size];
        ret[size] = (char)(c == '_' ? '-' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    ret[size] = 0;
    if (ret[0] == '-')
        ret[0] = 's';
}

bool spec_secret_warning(const struct spec_input *in, char ret[SPEC_WARNING_MAX])
{
    char names[FIELD_MAX * NAMED_MAX] = "", name[SECRET_NAME_MAX + 1];
    const char *first = NULL;
    int found = 0;
    for (int i = 0; i < in->env_count; i++) {
        size_t used = strlen(names);
        if (!looks_secret(&in->env[i]))
            continue;
        if (!first)
            first = in->env[i].key;
        if (found++ < NAMED_MAX)
            (void)str_printf(names + used, sizeof(names) - used, "%s%.80s", used ? ", " : "",
                             in->env[i].key);
    }
    if (!first)
        return false;
    secret_name(first, name);
    (void)str_printf(ret, SPEC_WARNING_MAX,
                     "env: %s%s look%s like %ssecret%s, and env is stored and shown in clear: "
                     "`muster secret set %s`, then `muster submit --secret %.80s=%s`",
                     names, found > NAMED_MAX ? ", ..." : "", found == 1 ? "s" : "",
                     found == 1 ? "a " : "", str_plural(found), name, first, name);
    return true;
}
