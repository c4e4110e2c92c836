#include "cli/model_input.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <worker/nn.h>

#include "common/base/kept.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "libworker/pretrained/pretrained.h"

enum { WORDS_MAX = 8, WORD_BYTES = 64, PATH_BYTES = 4096, HEAD_WIDTH = 64, INNER_STEP = 256 };

struct shape_word {
    const char *name;
    int value; /* what it is without the word; 0: it is necessary */
};

static int nearest_word(const struct shape_word *words, const char *option, const char *text,
                        struct error *err)
{
    const char *names[WORDS_MAX + 1] = {0};
    for (int i = 0; words[i].name; i++)
        names[i] = words[i].name;
    const char *nearest = str_nearest(text, names);
    (void)error_set(err, E_INVALID_ARGUMENT, "--%s: there is no '%s'", option, text);
    if (nearest)
        error_hint(err, "did you mean '%s'?", nearest);
    return err->code;
}

static int read_word(struct shape_word *words, const char *option, struct str part,
                     struct error *err)
{
    char text[WORD_BYTES];
    int64_t value;
    if (part.size >= sizeof(text))
        return error_set(err, E_INVALID_ARGUMENT, "--%s: '%.20s...' is too long", option,
                         part.data);
    memcpy(text, part.data, part.size);
    text[part.size] = '\0';
    char *equals = strchr(text, '=');
    if (!equals)
        return error_set(err, E_INVALID_ARGUMENT,
                         "--%s: expected NAME=NUMBER instead of '%s', as in layers=12,width=768",
                         option, text);
    *equals = '\0';
    for (; words->name; words++)
        if (strcmp(words->name, text) == 0)
            break;
    if (!words->name)
        return -1;
    if (parse_i64(equals + 1, 0, INT_MAX, &value, err))
        return error_wrap(err, "--%s %s", option, text);
    words->value = (int)value;
    return 0;
}

/* layers=6,width=384 into the words' values. */
static int read_shape(struct shape_word *words, const char *option, const char *shape,
                      struct error *err)
{
    struct str rest = str_of(shape), part;
    while (str_next(&rest, ',', &part)) {
        int rc = read_word(words, option, part, err);
        if (rc == -1 && !err->code) {
            char text[WORD_BYTES];
            snprintf(text, sizeof(text), "%.*s", (int)strcspn(part.data, "="), part.data);
            return nearest_word(words, option, text, err);
        }
        if (rc)
            return rc;
    }
    for (int i = 0; i < 2; i++)
        if (!words[i].value)
            return error_set(err, E_INVALID_ARGUMENT,
                             "--%s needs layers and width, as in layers=12,width=768", option);
    return 0;
}

static int heads_of(int width)
{
    return width < HEAD_WIDTH ? 1 : width / HEAD_WIDTH;
}

static int make_gpt(const char *shape, struct wk_model **ret, struct error *err)
{
    enum { LAYERS, WIDTH, HEADS, CONTEXT, VOCAB };
    struct shape_word w[] = {{"layers", 0},     {"width", 0},     {"heads", -1},
                             {"context", 1024}, {"vocab", 50257}, {0}};
    if (read_shape(w, "gpt", shape, err))
        return err->code;
    struct wk_gpt_config config = {
        .layers = w[LAYERS].value,
        .heads = w[HEADS].value < 0 ? heads_of(w[WIDTH].value) : w[HEADS].value,
        .width = w[WIDTH].value,
        .context = w[CONTEXT].value,
        .vocab = w[VOCAB].value,
    };
    return wk_gpt_new(&config, ret) ? error_set(err, E_INVALID_ARGUMENT, "--gpt: %s", error_kept())
                                    : 0;
}

static int make_llama(const char *shape, struct wk_model **ret, struct error *err)
{
    enum { LAYERS, WIDTH, HEADS, KV_HEADS, INNER, CONTEXT, VOCAB, TIED };
    struct shape_word w[] = {{"layers", 0},    {"width", 0},  {"heads", -1},
                             {"kv_heads", -1}, {"inner", -1}, {"context", 2048},
                             {"vocab", 32000}, {"tied", 0},   {0}};
    if (read_shape(w, "llama", shape, err))
        return err->code;
    int64_t width = w[WIDTH].value;
    int64_t inner = (8 * width / 3 + INNER_STEP - 1) / INNER_STEP * INNER_STEP;
    int heads = w[HEADS].value < 0 ? heads_of(w[WIDTH].value) : w[HEADS].value;
    struct wk_llama_config config = {
        .layers = w[LAYERS].value,
        .heads = heads,
        .kv_heads = w[KV_HEADS].value < 0 ? heads : w[KV_HEADS].value,
        .width = w[WIDTH].value,
        .inner = w[INNER].value < 0 ? (int)(inner < INT_MAX ? inner : INT_MAX) : w[INNER].value,
        .context = w[CONTEXT].value,
        .vocab = w[VOCAB].value,
        .rope_theta = 10000,
        .norm_epsilon = 1e-5,
        .tied = w[TIED].value != 0,
    };
    return wk_llama_new(&config, ret)
               ? error_set(err, E_INVALID_ARGUMENT, "--llama: %s", error_kept())
               : 0;
}

static int make_mlp(const char *shape, struct wk_model **ret, struct error *err)
{
    enum { LAYERS, WIDTH, WINDOW, EMBEDDING, CONTEXT, VOCAB };
    struct shape_word w[] = {
        {"layers", 0},  {"width", 0}, {"window", 8}, {"embedding", 64}, {"context", 256},
        {"vocab", 256}, {0}};
    if (read_shape(w, "mlp", shape, err))
        return err->code;
    struct wk_mlp_config config = {
        .layers = w[LAYERS].value,
        .window = w[WINDOW].value,
        .embedding = w[EMBEDDING].value,
        .width = w[WIDTH].value,
        .context = w[CONTEXT].value,
        .vocab = w[VOCAB].value,
    };
    return wk_mlp_new(&config, ret) ? error_set(err, E_INVALID_ARGUMENT, "--mlp: %s", error_kept())
                                    : 0;
}

/* The folder, or the folder of its config.json. */
static int make_pretrained(const char *given, struct wk_model **ret, struct error *err)
{
    static const char name[] = "config.json";
    char path[PATH_BYTES];
    if (str_copy(path, sizeof(path), given))
        return error_set(err, E_INVALID_ARGUMENT, "a path of %zu bytes is too long", strlen(given));
    size_t size = strlen(path), tail = sizeof(name) - 1;
    bool names_file = size >= tail && strcmp(path + size - tail, name) == 0 &&
                      (size == tail || path[size - tail - 1] == '/');
    if (names_file)
        (void)str_copy(path + size - tail, tail, ".");
    return pretrained_model(path, ret, err);
}

int model_input(const struct args *args, struct wk_model **ret, struct error *err)
{
    static const struct {
        const char *option;
        int (*make)(const char *text, struct wk_model **ret, struct error *err);
    } ways[] = {
        {"gpt", make_gpt}, {"llama", make_llama}, {"mlp", make_mlp}, {"folder", make_pretrained}};
    int chosen = -1;
    for (int i = 0; i < (int)(sizeof(ways) / sizeof(ways[0])); i++) {
        if (!args_text(args, ways[i].option))
            continue;
        if (chosen >= 0)
            return error_set(err, E_INVALID_ARGUMENT, "one model at a time: %s or %s",
                             ways[chosen].option, ways[i].option);
        chosen = i;
    }
    if (chosen < 0) {
        (void)error_set(err, E_INVALID_ARGUMENT, "which model?");
        error_hint(err, "--gpt layers=12,width=768, --llama, --mlp, or a folder with config.json");
        return err->code;
    }
    return ways[chosen].make(args_text(args, ways[chosen].option), ret, err);
}
