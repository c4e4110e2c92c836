/* YAML to settings. */
#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "common/base/tree.h"
#include "common/base/tree_write.h"
#include "common/settings/job_field.h"
#include "libworker/config/settings.h"

static int put_scalar(const struct tree *node, struct buf *out, struct error *err)
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

static int refuse_key(const struct tree *node, const char *path, struct error *err)
{
    tree_fail(node, err, "no setting is called \"%s\"", path);
    settings_meant(err, path);
    return WK_EINVAL;
}

static int set_value(struct settings *settings, const char *file, const struct tree *node,
                     enum setting setting, struct error *err)
{
    struct buf text = {0};
    char where[512];
    (void)str_printf(where, sizeof(where), "%s:%d", file, node->line);
    struct setting_source source = {WK_FROM_FILE, where};
    int rc = put_scalar(node, &text, err);
    if (!rc && node->kind == TREE_INTEGER && setting_rows[setting].kind == SETTING_INTERVAL)
        rc = buf_str(&text, " steps"); /* in the form of a job */
    if (!rc)
        rc = settings_set(settings, setting, buf_cstr(&text), &source, err);
    buf_fini(&text);
    if (rc)
        return error_recode(err, WK_EINVAL);
    return 0;
}

/* `prefix` NULL: the document itself, where a job's keys and `training` may stand. */
static int read_section(struct settings *settings, const char *file, const struct tree *map,
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
            rc = set_value(settings, file, node, setting, err);
        else if (strcmp(path, prefix ? "settings" : "training") == 0) /* as a job has them */
            rc = read_section(settings, file, node, "", err);
        else if (!prefix && strcmp(path, "checkpoint") == 0 && node->kind == TREE_STRING)
            rc = set_value(settings, file, node, SETTING_CHECKPOINT_DIR, err);
        else if (settings_section(path))
            rc = read_section(settings, file, node, path, err);
        else if (prefix || !job_field_top(path)) /* the rest of a job's file is not for libworker */
            rc = refuse_key(node, path, err);
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
        rc = read_section(settings, name, root, NULL, err);
    if (rc)
        error_wrap(err, "config file %s", name);
    arena_fini(&arena);
    return rc;
}
