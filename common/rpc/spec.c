#include "common/rpc/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/message.h"
#include "common/rpc/transcode.h"

/* What other systems call a slot; the nearest of our own names, cpus, would mislead. */
static void hint_gpus(struct error *err)
{
    const char *dot = err ? strrchr(err->field, '.') : NULL;
    const char *key = dot ? dot + 1 : err ? err->field : "";
    if (strcmp(key, "gpu") == 0 || strcmp(key, "gpus") == 0)
        error_hint(err, "a slot is a GPU, on a node that has some: resources: {slots: N}");
}

int spec_from_tree(struct arena *arena, struct tree *tree, Muster__JobSpec **ret, struct error *err)
{
    int rc = spec_widen(arena, tree, err);
    if (rc)
        return rc;
    ProtobufCMessage *message;
    const struct transcode_input_options options = {.lenient = true};
    rc = transcode_from_tree(tree, &muster__job_spec__descriptor, &options, &message, err);
    if (!rc)
        *ret = (Muster__JobSpec *)message;
    else
        hint_gpus(err);
    return rc;
}

int spec_parse(const char *name, const char *text, size_t size, Muster__JobSpec **ret,
               struct error *err)
{
    struct arena arena;
    arena_init(&arena, ARENA_DEFAULT_MAX_BYTES);
    struct tree *tree;
    struct tree_input input = {.text = text, .size = size, .limits = {.bytes = SPEC_MAX_BYTES}};
    int rc = tree_looks_like_json(text, size) ? tree_parse_json(&input, &arena, &tree, err)
                                              : tree_parse_yaml(&input, &arena, &tree, err);
    if (!rc)
        rc = spec_from_tree(&arena, tree, ret, err);
    if (rc && name)
        error_wrap(err, "%s", name);
    arena_fini(&arena);
    return rc;
}

static int read_limited(FILE *file, const char *name, char *ret_text, size_t *ret_size,
                        struct error *err)
{
    errno = 0;
    *ret_size = fread(ret_text, 1, SPEC_MAX_BYTES + 1, file);
    if (ferror(file))
        return error_errno(err, errno, "cannot read %s", name);
    if (*ret_size > SPEC_MAX_BYTES)
        return error_set(err, E_RESOURCE_EXHAUSTED, "%s is larger than the %d bytes of a spec",
                         name, SPEC_MAX_BYTES);
    return 0;
}

int spec_read_file(const char *path, Muster__JobSpec **ret, struct error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    if (!file)
        return error_errno(err, errno, "cannot read %s", name);
    char *text = malloc(SPEC_MAX_BYTES + 1);
    size_t size = 0;
    int rc = text ? read_limited(file, name, text, &size, err)
                  : error_set(err, E_RESOURCE_EXHAUSTED, "no memory for %s", name);
    if (!rc)
        rc = spec_parse(name, text, size, ret, err);
    free(text);
    if (!is_stdin)
        fclose(file);
    return rc;
}
