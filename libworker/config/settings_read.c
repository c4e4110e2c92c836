/* Settings from their sources: defaults, config file, environment, code. */
#include <stdlib.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "libworker/config/settings.h"

static int refuse_name(const char *name, struct error *err)
{
    error_set(err, WK_EINVAL, "no setting is called \"%s\"", name);
    settings_meant(err, name);
    return WK_EINVAL;
}

/* MUSTER_JOB_SETTINGS lists the variables set by the job itself, separated by spaces. */
static bool is_of_job(const struct environment *environment, const char *name)
{
    const char *list = environment->get(environment->arg, "MUSTER_JOB_SETTINGS");
    struct str rest = str_of(list), one;
    while (str_next(&rest, ' ', &one))
        if (str_equal(one, str_of(name)))
            return true;
    return false;
}

static int read_environment(struct settings *settings, const struct environment *environment,
                            struct error *err)
{
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        char name[SETTING_ENV_MAX];
        const char *text = environment->get(environment->arg, setting_env_name(i, name));
        /* Shells and schedulers mean "not set" by an empty variable. */
        if (!text || !*text)
            continue;
        bool job = is_of_job(environment, name);
        struct setting_source source = {job ? WK_FROM_JOB : WK_FROM_ENVIRONMENT, name};
        int rc = settings_set(settings, i, text, &source, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int read_code(struct settings *settings, const struct settings_input *input,
                     struct error *err)
{
    struct setting_source source = {WK_FROM_CODE, ""};
    for (int i = 0; i < input->n_code; i++) {
        int setting = settings_find(input->code[i].name);
        if (setting < 0)
            return refuse_name(input->code[i].name, err);
        int rc = settings_set(settings, setting, input->code[i].value, &source, err);
        if (rc)
            return rc;
    }
    return 0;
}

enum { CONFIG_FILE_MAX_BYTES = 1 << 20 };

static int read_file(struct settings *settings, const char *path, struct error *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(err, WK_ENOTFOUND, "config file %s cannot be opened", path);
    char *text = malloc(CONFIG_FILE_MAX_BYTES + 1);
    size_t size = text ? fread(text, 1, CONFIG_FILE_MAX_BYTES + 1, file) : 0;
    int rc = 0;
    if (!text)
        rc = error_set(err, WK_ENOMEM, "no memory for config file %s", path);
    else if (ferror(file))
        rc = error_set(err, WK_EIO, "config file %s cannot be read", path);
    else if (size > CONFIG_FILE_MAX_BYTES)
        rc = error_set(err, WK_EINVAL, "config file %s is larger than 1 MiB", path);
    else
        rc = settings_read_yaml(settings, path, text, size, err);
    (void)fclose(file);
    free(text);
    return rc;
}

int settings_read(const struct settings_input *input, struct settings *ret, struct error *err)
{
    struct settings settings = {0};
    struct setting_source fallback = {WK_FROM_DEFAULT, ""};
    int rc = 0;
    for (int i = 0; i < SETTINGS_COUNT && !rc; i++)
        rc = settings_set(&settings, i, setting_rows[i].fallback, &fallback, err);
    const char *file = input->file;
    if (!file)
        file = input->environment->get(input->environment->arg, "MUSTER_CONFIG");
    if (!rc && file && *file)
        rc = read_file(&settings, file, err);
    if (!rc)
        rc = read_environment(&settings, input->environment, err);
    if (!rc)
        rc = read_code(&settings, input, err);
    if (rc) {
        settings_fini(&settings);
        return rc;
    }
    *ret = settings;
    return 0;
}
