#include "libworker/pretrained/config.h"

#include <string.h>

#include <worker/error.h>

#include "libworker/checkpoint/file.h"
#include "libworker/pretrained/config_keys.h"
#include "libworker/pretrained/config_parts.h"

static int read_root(const struct tree *root, struct model_config *ret, struct error *err)
{
    const char *type;
    char list[FAMILY_LIST_MAX];
    const struct tree *node = config_get(root, "model_type");
    if (!node || tree_read_string(node, &type, err))
        return error_set(err, WK_EIO, "it has no model_type");
    ret->family = family_of_type(type);
    if (!ret->family)
        return error_set(err, WK_EUNSUPPORTED, "a model of type %.80s; %s are known", type,
                         family_list(list));
    int rc = config_refuse_others(root, err);
    if (rc)
        return rc;
    return ret->family->is_gpt ? config_gpt_read(root, &ret->gpt, err)
                               : config_llama_read(root, ret->family, &ret->llama, err);
}

int model_config_parse(const char *text, size_t size, struct model_config *ret, struct error *err)
{
    struct arena arena = {0};
    struct tree *root;
    struct tree_input input = {.text = text, .size = size};
    struct model_config config = {0};
    int rc = tree_parse_json(&input, &arena, &root, err) ? file_unparsed(&arena, err) : 0;
    if (!rc)
        rc = read_root(root, &config, err);
    arena_fini(&arena);
    if (!rc)
        *ret = config;
    return rc;
}

static const char *torch_type(enum wk_format format)
{
    return format == WK_FORMAT_F16 ? "float16" : format == WK_FORMAT_BF16 ? "bfloat16" : "float32";
}

int model_config_write(const struct model_config *config, enum wk_format format, struct buf *out)
{
    const struct family *family = config->family;
    (void)buf_printf(out, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n",
                     family->architecture, family->type);
    if (family->is_gpt)
        (void)config_gpt_write(&config->gpt, out);
    else
        (void)config_llama_write(&config->llama, family, out);
    return buf_printf(out,
                      "  \"bos_token_id\": null,\n  \"eos_token_id\": null,\n"
                      "  \"torch_dtype\": \"%s\"\n}\n",
                      torch_type(format));
}
