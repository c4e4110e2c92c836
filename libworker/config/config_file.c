/* YAML to settings. */
#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "common/base/tree.h"
#include "libworker/config/settings.h"

/* Keys of a job spec that are not about training: such a file is also a config file. */
static const char *const job_keys[] = {"name",      "tenant",           "command",     "nodes",
                                       "resources", "priority",         "max_runtime", "restart",
                                       "elastic",   "constraints",      "topology",    "env",
                                       "workdir",   "workers_per_node", NULL};

static bool is_job_key(const char *key)
{
    for (int i = 0; job_keys[i]; i++)
        if (strcmp(job_keys[i], key) == 0)
            return true;
    return false;
}

static int scalar_text(const struct tree *node, struct buf *out, struct error *err)
{
    switch (node->kind) {
    case TREE_STRING:
        return buf_str(out, node->string);
    case TREE_BOOL:
    case TREE_INTEGER:
    case TREE_NUMBER:
        return tree_write_json(node, TREE_COMPACT, out, err);
    case TREE_NULL:
        return 0;
    case TREE_LIST:
    case TREE_MAP:
        break;
    }
    return tree_fail(node, err, "expected one value, found %s", tree_kind_name(node->kind));
}

static int unknown_key(const struct tree *node, const char *path, struct error *err)
{
    tree_fail(node, err, "no setting is called \"%s\"", path);
    settings_meant(err, path);
    return WK_EINVAL;
}

static int take_value(struct settings *settings, const char *file, const struct tree *node,
                      enum setting setting, struct error *err)
{
    struct buf text = {0};
    char where[512];
    (void)str_printf(where, sizeof(where), "%s:%d", file, node->line);
    struct setting_source source = {WK_FROM_FILE, where};
    int rc = scalar_text(node, &text, err);
    if (!rc && node->kind == TREE_INTEGER && setting_rows[setting].kind == SETTING_INTERVAL)
        rc = buf_str(&text, " steps"); /* in the form of a job */
    if (!rc)
        rc = settings_set(settings, setting, buf_cstr(&text), &source, err);
    buf_fini(&text);
    return rc ? error_recode(err, WK_EINVAL) : 0;
}

/* `prefix` NULL: the document itself, where a job's keys and `training` may stand. */
static int take_section(struct settings *settings, const char *file, const struct tree *map,
                        const char *prefix, struct error *err)
{
    const char *above = prefix ? prefix : "";
    struct tree *node;
    if (map->kind != TREE_MAP)
        return tree_fail(map, err, "expected a map of settings, found %s",
                         tree_kind_name(map->kind));
    tree_each(node, map) {
        char path[128];
        if (str_printf(path, sizeof(path), "%s%s%s", above, *above ? "." : "", node->key))
            return tree_fail(node, err, "this key is too long");
        int setting = settings_find(path), rc = 0;
        if (setting >= 0)
            rc = take_value(settings, file, node, setting, err);
        else if (strcmp(path, prefix ? "settings" : "training") == 0) /* as a job has them */
            rc = take_section(settings, file, node, "", err);
        else if (!prefix && strcmp(path, "checkpoint") == 0 && node->kind == TREE_STRING)
            rc = take_value(settings, file, node, SETTING_CHECKPOINT_DIR, err);
        else if (settings_section(path))
            rc = take_section(settings, file, node, path, err);
        else if (prefix || !is_job_key(path))
            rc = unknown_key(node, path, err);
        if (rc)
            return rc;
    }
    return 0;
}

int settings_read_yaml(struct settings *settings, const char *name, const char *text, size_t size,
                       struct error *err)
{
    struct arena arena = {0};
    struct tree_input input = {.name = name, .text = text, .size = size};
    struct tree *root = NULL;
    int rc = tree_parse_yaml(&input, &arena, &root, err);
    if (!rc && root->kind != TREE_NULL)
        rc = take_section(settings, name, root, NULL, err);
    if (rc)
        error_wrap(err, "config file %s", name);
    arena_fini(&arena);
    return rc;
}
