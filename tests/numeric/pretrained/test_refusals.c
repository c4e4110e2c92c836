/* Files that are damaged or of another model: each is refused with what is wrong. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libworker/pretrained/pretrained.h"
#include "tests/lib/tmpdir.h"

/* wte, wpe, one layer, ln_f */
static const struct wk_gpt_config gpt = {1, 1, 4, 4, 6};

static void write_text(const struct tmpdir *dir, const char *name, const char *text)
{
    FILE *file = fopen(tmpdir_path(dir, name), "wb");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

/* A safetensors file of this header and `bytes` of zeros. */
static void write_file(const struct tmpdir *dir, const char *name, const char *header, size_t bytes)
{
    FILE *file = fopen(tmpdir_path(dir, name), "wb");
    cr_assert_not_null(file);
    size_t size = strlen(header);
    for (int i = 0; i < 8; i++)
        fputc((int)(size >> 8 * i & 255), file);
    fputs(header, file);
    for (size_t i = 0; i < bytes; i++)
        fputc(0, file);
    fclose(file);
}

/* Load into a model, expecting `code` and a sentence with `words`. */
static void expect(const struct tmpdir *dir, struct wk_model *model, int code, const char *words)
{
    struct error err = {0};
    int rc = pretrained_load(model, dir->path, &err);
    cr_assert_eq(rc, code, "%d instead of %d: %s", rc, code, err.text);
    cr_assert_eq(err.code, rc, "%d, but the error says %d: %s", rc, err.code, err.text);
    cr_assert(strstr(err.text, words), "\"%s\" is not in: %s", words, err.text);
}

static struct wk_model *one_tensor_model(void)
{
    struct wk_mlp_config shape = {1, 1, 2, 2, 4, 3};
    struct wk_model *model;
    cr_assert_eq(wk_mlp_new(&shape, &model), 0);
    model->n_params = 1; /* embed.weight [3, 2] alone */
    return model;
}

Test(refusals, damaged_files)
{
    static const struct {
        const char *header;
        size_t bytes;
        int code;
        const char *words;
    } bad[] = {
        {"{\"embed.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}}", 20,
         WK_EIO, "embed.weight"},
        {"{\"embed.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[12,24]}}",
         24, WK_EIO, "does not follow"},
        {"{\"embed.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24,
         WK_EMISMATCH, "is [2, 3], the model's is [3, 2]"},
        {"{\"embed.weight\":{\"dtype\":\"I32\",\"shape\":[3,2],\"data_offsets\":[0,24]}}", 24,
         WK_EUNSUPPORTED, "type i32"},
        {"{\"other\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}}", 24,
         WK_EMISMATCH, "no tensor embed.weight"},
        {"{\"embed.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
         "\"one\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[24,24]},"
         "\"two\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}",
         28, WK_EMISMATCH, "2 tensors are none of this model: one, two"},
        {"{\"embed.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],", 24, WK_EIO, "model.safetensors"},
    };
    struct tmpdir dir = tmpdir_make();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct wk_model *model = one_tensor_model();
        write_file(&dir, "model.safetensors", bad[i].header, bad[i].bytes);
        expect(&dir, model, bad[i].code, bad[i].words);
        wk_model_free(model);
    }
    tmpdir_remove(&dir);
}

Test(refusals, headers_that_cannot_be)
{
    struct tmpdir dir = tmpdir_make();
    struct wk_model *model = one_tensor_model();
    expect(&dir, model, WK_ENOTFOUND, "neither model.safetensors nor");
    write_text(&dir, "model.safetensors", "short");
    expect(&dir, model, WK_EIO, "5 bytes");
    write_text(&dir, "model.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}");
    expect(&dir, model, WK_EIO, "a header of");
    write_text(&dir, "model.safetensors", "\x20\x01\x01\x01\x01\x01\x01\x01{}");
    expect(&dir, model, WK_EIO, "a header of");
    wk_model_free(model);
    tmpdir_remove(&dir);
}

Test(refusals, an_index_that_does_not_match_its_files)
{
    static const char good[] =
        "{\"embed.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}}";
    static const struct {
        const char *index;
        int code;
        const char *words;
    } bad[] = {
        {"{\"weight_map\":{\"embed.weight\":\"../secret\"}}", WK_EIO, "../secret"},
        {"{\"weight_map\":{\"embed.weight\":\"absent.safetensors\"}}", WK_ENOTFOUND, "absent"},
        {"{\"weight_map\":{\"else\":\"a.safetensors\"}}", WK_EIO, "else is not in file a"},
        {"{\"weight_map\":{\"embed.weight\":7}}", WK_EIO, "index.json"},
        {"{\"metadata\":{}}", WK_EIO, "no weight_map"},
        {"{\"weight_map\":{\"embed.weight\":\"a.safetensors\",\"e\":\"a.safetensors\"}}", WK_EIO,
         "e is not in file"},
    };
    struct tmpdir dir = tmpdir_make();
    struct wk_model *model = one_tensor_model();
    write_file(&dir, "a.safetensors", good, 24);
    write_file(&dir, "b.safetensors", good, 24);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_text(&dir, "model.safetensors.index.json", bad[i].index);
        expect(&dir, model, bad[i].code, bad[i].words);
    }
    write_text(&dir, "model.safetensors.index.json",
               "{\"weight_map\":{\"embed.weight\":\"a.safetensors\"}}");
    struct error err = {0};
    cr_assert_eq(pretrained_load(model, dir.path, &err), 0, "%s", err.text);
    wk_model_free(model);
    tmpdir_remove(&dir);
}

static void save_gpt(const char *path)
{
    struct wk_model *model;
    struct error err = {0};
    cr_assert_eq(wk_gpt_new(&gpt, &model), 0);
    float *params = calloc(model->count, sizeof(*params));
    wk_model_init(model, 5);
    cr_assert_eq(model_bind(model, params, NULL), 0);
    cr_assert_eq(pretrained_save(model, path, NULL, &err), 0, "%s", err.text);
    wk_model_free(model);
    free(params);
}

/* A config with every size, and more keys. */
#define SIZED(type, heads, more)                                                                   \
    "{\"model_type\":\"" type "\",\"num_hidden_layers\":1,\"num_attention_heads\":" heads          \
    ",\"hidden_size\":8,\"intermediate_size\":8,\"max_position_embeddings\":8,"                    \
    "\"vocab_size\":6," more "}"
#define LLAMA(type, more) SIZED(type, "2", more)
#define ROPE(more)        LLAMA("llama", "\"rope_scaling\":{" more "}")

Test(refusals, configs_of_other_models)
{
    static const struct {
        const char *text;
        int code;
        const char *words;
    } bad[] = {
        {"{\"model_type\":\"bert\"}", WK_EUNSUPPORTED, "bert"},
        {"{}", WK_EIO, "no model_type"},
        {"{\"model_type\":\"gpt2\",\"n_layer\":1}", WK_EIO, "n_head is missing"},
        {"{\"model_type\":\"gpt2\",\"n_layer\":-1}", WK_EIO, "n_layer is no size"},
        {"{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_head\":1,\"n_embd\":4,\"n_positions\":4,"
         "\"vocab_size\":6,\"activation_function\":\"relu\"}",
         WK_EUNSUPPORTED, "activation_function is relu"},
        {"{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_head\":1,\"n_embd\":4,\"n_positions\":4,"
         "\"vocab_size\":6,\"n_inner\":20}",
         WK_EUNSUPPORTED, "n_inner is 20"},
        {"{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_head\":1,\"n_embd\":4,\"n_positions\":4,"
         "\"vocab_size\":6,\"layer_norm_epsilon\":1e-6}",
         WK_EUNSUPPORTED, "layer_norm_epsilon"},
        {"{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_head\":3,\"n_embd\":4,\"n_positions\":4,"
         "\"vocab_size\":6}",
         WK_EINVAL, "make no model: 3 heads do not divide a width of 4"},
        {LLAMA("llama", "\"attention_multiplier\":0.5"), WK_EUNSUPPORTED,
         "attention_multiplier is"},
        {LLAMA("llama", "\"embedding_multiplier\":12"), WK_EUNSUPPORTED, "embedding_multiplier is"},
        {LLAMA("llama", "\"num_local_experts\":8"), WK_EUNSUPPORTED, "num_local_experts is set"},
        {LLAMA("llama", "\"quantization_config\":{\"bits\":4}"), WK_EUNSUPPORTED,
         "quantization_config is set"},
        {LLAMA("llama", "\"hidden_act\":\"gelu\""), WK_EUNSUPPORTED, "hidden_act is gelu"},
        {LLAMA("llama", "\"partial_rotary_factor\":0.5"), WK_EUNSUPPORTED,
         "partial_rotary_factor is 0.5"},
        {LLAMA("llama", "\"head_dim\":7"), WK_EINVAL, "make no model: a head of 7 is not even"},
        {SIZED("llama", "3", "\"head_dim\":4"), WK_EIO, "do not divide"},
        {LLAMA("llama", "\"layer_types\":[\"sliding_attention\"]"), WK_EUNSUPPORTED,
         "layer_types: layer 0 is sliding_attention"},
        {LLAMA("mistral", "\"attention_bias\":true"), WK_EUNSUPPORTED, "attention_bias is true"},
        {LLAMA("mistral", "\"mlp_bias\":true"), WK_EUNSUPPORTED, "mlp_bias is true"},
        {LLAMA("mistral", "\"sliding_window\":0"), WK_EIO, "sliding_window is no size"},
        {LLAMA("qwen2", "\"attention_bias\":false"), WK_EUNSUPPORTED, "attention_bias is false"},
        {LLAMA("qwen2", "\"layer_types\":[\"sliding_attention\"]"), WK_EUNSUPPORTED,
         "layer_types: layer 0 is sliding_attention"},
        {LLAMA("qwen3", "\"layer_types\":[]"), WK_EIO, "layer_types is no list of 1"},
        {LLAMA("qwen3", "\"max_window_layers\":-1,\"use_sliding_window\":true"), WK_EIO,
         "max_window_layers is no number"},
        {ROPE("\"rope_type\":\"longrope\",\"factor\":2"), WK_EUNSUPPORTED, "rope_type is longrope"},
        {ROPE("\"type\":\"linear\""), WK_EIO, "factor of the rotary positions is missing"},
        {ROPE("\"type\":\"linear\",\"factor\":0.5"), WK_EINVAL, "make no model: rope: the scaling"},
        {ROPE("\"type\":\"llama3\",\"factor\":2"), WK_EIO, "low_freq_factor"},
        {ROPE("\"type\":\"default\",\"mrope_section\":[1,1]"), WK_EUNSUPPORTED, "mrope_section"},
        {ROPE("\"full_attention\":{}"), WK_EUNSUPPORTED, "full_attention of the rotary positions"},
    };
    struct tmpdir dir = tmpdir_make();
    struct wk_model *model = NULL;
    struct error err = {0};
    cr_assert_eq(pretrained_model(dir.path, &model, &err), WK_ENOTFOUND);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_text(&dir, "config.json", bad[i].text);
        int rc = pretrained_model(dir.path, &model, &err);
        cr_assert_eq(rc, bad[i].code, "%zu: %d: %s", i, rc, err.text);
        cr_assert(strstr(err.text, bad[i].words), "%s", err.text);
    }
    tmpdir_remove(&dir);
}

/* The other things that real files hold: masks, a head that is the embedding. */
Test(refusals, a_tied_head_must_be_the_embedding)
{
    static const char entry[] = "{\"transformer.wte.weight\":{\"dtype\":\"F32\",";
    struct tmpdir dir = tmpdir_make();
    save_gpt(tmpdir_path(&dir, "saved"));
    FILE *file = fopen(tmpdir_path(&dir, "saved/model.safetensors"), "rb");
    static char bytes[1 << 16];
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    size_t header = (unsigned char)bytes[0] | (size_t)(unsigned char)bytes[1] << 8;
    char *json = bytes + 8, *brace = memchr(json, '}', header); /* of __metadata__ */
    cr_assert(brace && strstr(json, entry + 2));
    size_t data = size - 8 - header;
    for (int same = 0; same < 2; same++) {
        mkdir(tmpdir_path(&dir, "head"), 0777);
        file = fopen(tmpdir_path(&dir, "head/model.safetensors"), "wb");
        char *text = calloc(1, header + 512), *end = json + header;
        while (*--end != '}')
            ;
        size_t used = (size_t)(end - json);
        memcpy(text, json, used);
        snprintf(text + used, 512,
                 ",\"h.0.attn.bias\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[%zu,%zu]},"
                 "\"lm_head.weight\":{\"dtype\":\"F32\",\"shape\":[6,4],"
                 "\"data_offsets\":[%zu,%zu]}}",
                 data, data + 2, data + 2, data + 98);
        size_t length = strlen(text);
        for (int i = 0; i < 8; i++)
            fputc((int)(length >> 8 * i & 255), file);
        fwrite(text, 1, length, file);
        fwrite(bytes + 8 + header, 1, data, file);
        fputs("xx", file);
        char first[96]; /* wte.weight lies first */
        memcpy(first, bytes + 8 + header, sizeof(first));
        if (!same)
            first[5] ^= 1;
        fwrite(first, 1, sizeof(first), file);
        fclose(file);
        free(text);
        struct wk_model *model;
        struct error err = {0};
        cr_assert_eq(wk_gpt_new(&gpt, &model), 0);
        int rc = pretrained_load(model, tmpdir_path(&dir, "head"), &err);
        cr_assert_eq(rc, same ? 0 : WK_EMISMATCH, "%s", err.text);
        cr_assert(same || strstr(err.text, "lm_head.weight differs"), "%s", err.text);
        wk_model_free(model);
    }
    tmpdir_remove(&dir);
}
