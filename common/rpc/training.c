#include "common/rpc/training.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree_build.h"
#include "common/base/tree_write.h"
#include "common/rpc/fields.h"
#include "common/rpc/widen.h"
#include "common/settings/setting.h"

enum { PATH_BYTES = 128 };

/* The map under `name`, made if it is not there; NULL without memory. */
static struct tree *map_at(const struct widen *w, struct tree *map, const char *name,
                           const struct tree *origin)
{
    struct tree *inner = tree_get(map, name);
    if (inner)
        return inner;
    inner = tree_map(w->arena);
    return widen_put(w, map, name, inner, origin) ? NULL : inner;
}

static int value_text(const struct widen *w, const struct tree *node, const char **ret)
{
    struct buf text = {0};
    int rc = 0;
    switch (node->kind) {
    case TREE_STRING:
        *ret = node->string;
        return 0;
    case TREE_BOOL:
    case TREE_INTEGER:
    case TREE_NUMBER:
        rc = tree_write_json(node, TREE_COMPACT, &text, w->err);
        *ret = rc ? NULL : arena_strdup(w->arena, buf_cstr(&text));
        buf_fini(&text);
        if (rc || *ret)
            return rc;
        return widen_no_memory(w);
    case TREE_NULL:
    case TREE_LIST:
    case TREE_MAP:
        break;
    }
    return tree_fail(node, w->err, "expected one value, found %s", tree_kind_name(node->kind));
}

/* The schema's field for this setting, NULL if there is none. */
static const ProtobufCFieldDescriptor *field_of(const char *name)
{
    const ProtobufCMessageDescriptor *type = &muster__training__descriptor;
    char part[PATH_BYTES];
    for (;;) {
        size_t size = strcspn(name, ".");
        (void)str_printf(part, sizeof(part), "%.*s", (int)size, name);
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field_by_name(type, part);
        if (!field || field_is_map(field))
            return NULL;
        if (!name[size])
            return field->type == PROTOBUF_C_TYPE_MESSAGE ? NULL : field;
        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            return NULL;
        type = field->descriptor;
        name += size + 1;
    }
}

/* 0 in a field means absent: an explicit 0 is in the map. */
static bool field_can_hold(const ProtobufCFieldDescriptor *field, enum setting setting,
                           const struct setting_parsed *parsed)
{
    if (!field)
        return false;
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return true;
    if (setting_rows[setting].kind == SETTING_NUMBER)
        return parsed->number > 0;
    return parsed->integer > 0;
}

static int refuse_use(const struct widen *w, const struct tree *node, enum setting setting)
{
    const char *name = setting_rows[setting].name;
    if (setting_rows[setting].use == SETTING_OF_CHECKPOINT) {
        tree_fail(node, w->err, "%s belongs in the job's own `checkpoint`", name);
        error_hint(w->err, "write it as checkpoint: {%s: ...}, beside training",
                   strchr(name, '.') + 1);
    } else {
        tree_fail(node, w->err, "%s is each machine's own, or counts only without an agent", name);
        error_hint(w->err, "leave it out");
    }
    return E_INVALID_ARGUMENT;
}

/* One setting into its field, or into the map. */
static int put_setting(const struct widen *w, const struct tree *node, enum setting setting)
{
    const char *name = setting_rows[setting].name, *text;
    struct setting_parsed parsed;
    if (setting_rows[setting].use != SETTING_OF_JOB)
        return refuse_use(w, node, setting);
    int rc = value_text(w, node, &text);
    if (rc || !*text) /* an empty text means absent, like an empty variable */
        return rc;
    struct error why = {0};
    if (setting_parse(setting, text, &parsed, &why)) {
        tree_fail(node, w->err, "%s: %s", name, why.text);
        if (*why.hint)
            error_hint(w->err, "%s", why.hint);
        return E_INVALID_ARGUMENT;
    }
    struct tree *map = w->training;
    const char *key = name;
    if (field_can_hold(field_of(name), setting, &parsed)) {
        const char *dot = strchr(name, '.');
        char section[PATH_BYTES];
        if (dot) {
            (void)str_printf(section, sizeof(section), "%.*s", (int)(dot - name), name);
            map = map_at(w, map, section, node);
            key = dot + 1;
        }
    } else {
        map = map_at(w, map, "settings", node);
    }
    if (!map)
        return widen_no_memory(w);
    if (tree_get(map, key))
        return tree_fail(node, w->err, "%s is set twice", name);
    return widen_put(w, map, key, tree_string(w->arena, text), node);
}

static int refuse_key(const struct widen *w, const struct tree *node, const char *path)
{
    tree_fail(node, w->err, "no setting is called \"%s\"", path);
    settings_meant(w->err, path);
    return E_INVALID_ARGUMENT;
}

/* The schema's own spelling of a key that proto3 JSON lets be written in camel case. */
static const char *schema_spelling(const ProtobufCMessageDescriptor *type, const char *key)
{
    const ProtobufCFieldDescriptor *field = type ? field_find(type, key) : NULL;
    return field ? field->name : key;
}

static int put_settings(const struct widen *w, const struct tree *map, const char *prefix,
                        const ProtobufCMessageDescriptor *type)
{
    const struct tree *node;
    if (map->kind != TREE_MAP)
        return tree_fail(map, w->err, "expected a map of settings, found %s",
                         tree_kind_name(map->kind));
    tree_each(node, map) {
        char path[PATH_BYTES];
        const char *key = schema_spelling(type, node->key);
        if (str_printf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", key))
            return tree_fail(node, w->err, "this key is too long");
        int setting = settings_find(path), rc = 0;
        if (node->kind == TREE_NULL)
            continue;
        if (setting >= 0)
            rc = put_setting(w, node, (enum setting)setting);
        else if (strcmp(path, "settings") == 0) /* as the schema shows it */
            rc = put_settings(w, node, "", NULL);
        else if (settings_section(path))
            rc = put_settings(w, node, path,
                              strcmp(path, "mesh") == 0 ? &muster__training__mesh__descriptor
                                                        : NULL);
        else
            rc = refuse_key(w, node, path);
        if (rc)
            return rc;
    }
    return 0;
}

/* checkpoint: {patience: 5m}, which no one but libworker reads. */
static int move_checkpoint(const struct widen *w, struct tree *checkpoint)
{
    const struct tree *node = tree_first(checkpoint), *next;
    for (; node; node = next) {
        char path[PATH_BYTES];
        next = node->next;
        if (field_find(&muster__job_spec__checkpoint__descriptor, node->key) ||
            str_printf(path, sizeof(path), "checkpoint.%s", node->key))
            continue;
        int setting = settings_find(path);
        int rc = setting < 0 ? 0 : put_setting(w, node, (enum setting)setting);
        if (rc)
            return rc;
        if (setting >= 0)
            (void)tree_map_remove(checkpoint, node->key);
    }
    return 0;
}

static struct tree *section_of(const struct tree *spec, const char *name)
{
    struct tree *node = tree_get(spec, name);
    return node && node->kind != TREE_NULL ? node : NULL;
}

int training_widen(struct arena *arena, struct tree *spec, struct error *err)
{
    struct tree *training = section_of(spec, "training"),
                *checkpoint = section_of(spec, "checkpoint");
    struct widen w = {.arena = arena, .training = tree_map(arena), .err = err};
    if (!w.training)
        return widen_no_memory(&w);
    int rc = training ? put_settings(&w, training, "", &muster__training__descriptor) : 0;
    if (!rc && checkpoint && checkpoint->kind == TREE_MAP)
        rc = move_checkpoint(&w, checkpoint);
    if (!rc && (training || tree_first(w.training)))
        rc = widen_put(&w, spec, "training", w.training, training ? training : spec);
    return rc;
}

/* ---- from a message ---- */

struct list {
    struct arena *arena;
    struct training_setting *items;
    int count;
    struct error *err;
};

static int add_setting(struct list *list, const char *name, const char *value)
{
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, name) != 0)
            continue;
        error_set(list->err, E_INVALID_ARGUMENT, "%s is set twice", name);
        error_field(list->err, "training.%s", name);
        return E_INVALID_ARGUMENT;
    }
    if (list->count == TRAINING_SETTINGS_MAX) {
        error_set(list->err, E_INVALID_ARGUMENT, "more than %d settings", TRAINING_SETTINGS_MAX);
        error_field(list->err, "training");
        return E_INVALID_ARGUMENT;
    }
    struct training_setting one = {arena_strdup(list->arena, name),
                                   arena_strdup(list->arena, value)};
    if (!one.name || !one.value)
        return error_set(list->err, E_RESOURCE_EXHAUSTED, "no memory for the training settings");
    list->items[list->count++] = one;
    return 0;
}

/* The text of a field that is set, "" of one that is not. */
static const char *field_text(const ProtobufCFieldDescriptor *field, const void *at,
                              char ret[FORMAT_MAX])
{
    ret[0] = '\0';
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        const char *value = *(char *const *)at;
        return value ? value : "";
    }
    if (field->type == PROTOBUF_C_TYPE_UINT32 && *(const uint32_t *)at)
        (void)str_printf(ret, FORMAT_MAX, "%" PRIu32, *(const uint32_t *)at);
    else if (field->type == PROTOBUF_C_TYPE_UINT64 && *(const uint64_t *)at)
        (void)str_printf(ret, FORMAT_MAX, "%" PRIu64, *(const uint64_t *)at);
    else if (field->type == PROTOBUF_C_TYPE_DOUBLE &&
             (*(const double *)at < 0 || *(const double *)at > 0))
        (void)format_f64(*(const double *)at, ret);
    return ret;
}

/* Every field of the schema's Training, also future ones. */
static int list_fields(struct list *list, const char *prefix, const ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const void *at = field_member(message, field);
        char name[PATH_BYTES], text[FORMAT_MAX];
        int rc = 0;
        (void)str_printf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "." : "", field->name);
        if (field_is_map(field))
            continue;
        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            const ProtobufCMessage *inner = *(ProtobufCMessage *const *)at;
            rc = inner ? list_fields(list, name, inner) : 0;
        } else if (*field_text(field, at, text)) {
            rc = add_setting(list, name, field_text(field, at, text));
        }
        if (rc)
            return rc;
    }
    return 0;
}

int training_list(const Muster__Training *training, struct arena *arena,
                  struct training_setting **ret, int *ret_count, struct error *err)
{
    struct list list = {.arena = arena, .err = err};
    list.items = arena_array(arena, TRAINING_SETTINGS_MAX, sizeof(*list.items));
    int rc = list.items ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the settings");
    if (!rc && training)
        rc = list_fields(&list, "", &training->base);
    for (size_t i = 0; !rc && training && i < training->n_settings; i++)
        rc = add_setting(&list, training->settings[i]->key, training->settings[i]->value);
    if (rc)
        return rc;
    *ret = list.items;
    *ret_count = list.count;
    return 0;
}
