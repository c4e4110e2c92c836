#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt/options.h"

static int parse_TEXT(const char *text, gpt_TEXT *ret)
{
    *ret = text;
    return 0;
}

static int parse_INTEGER(const char *text, gpt_INTEGER *ret)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < 0)
        return -1;
    *ret = value;
    return 0;
}

static int parse_NUMBER(const char *text, gpt_NUMBER *ret)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || *end || !(value >= 0))
        return -1;
    *ret = value;
    return 0;
}

/* 1: taken; 0: no option of this name; -1: not a value of its kind. */
static int set(struct gpt_options *options, const char *name, const char *value)
{
#define X(option, member, kind, fallback, text)                                                    \
    if (strcmp(name, option) == 0)                                                                 \
        return parse_##kind(value, &options->member) ? -1 : 1;
    GPT_OPTIONS(X)
#undef X
    return 0;
}

static int refuse(const char *what, const char *name)
{
    (void)fprintf(stderr, "gpt: %s --%s (see --help)\n", what, name);
    return -1;
}

/* --name VALUE or --name=VALUE at argv[*at], which moves past it. */
static int take(struct gpt_options *options, int argc, char **argv, int *at)
{
    char name[64];
    const char *word = argv[*at] + 2, *equals = strchr(word, '=');
    size_t size = equals ? (size_t)(equals - word) : strlen(word);
    if (strncmp(argv[*at], "--", 2) != 0 || size == 0 || size >= sizeof(name)) {
        (void)fprintf(stderr, "gpt: what is \"%s\"? (see --help)\n", argv[*at]);
        return -1;
    }
    memcpy(name, word, size);
    name[size] = 0;
    if (!equals && strcmp(name, "help") == 0) {
        options->help = true;
        return 0;
    }
    if (!equals && strcmp(name, "print-config") == 0) {
        options->print_config = true;
        return 0;
    }
    const char *value = equals ? equals + 1 : argv[*at + 1];
    if (!equals && ++*at >= argc)
        return refuse("a value is missing after", name);
    int taken = set(options, name, value);
    if (taken == 0)
        return refuse("there is no option", name);
    return taken < 0 ? refuse("not a value for", name) : 0;
}

/* What would otherwise fail deep inside a model, or ask for more memory than there is. */
static int check(const struct gpt_options *options)
{
    const struct {
        const char *name;
        long long value, least, most;
    } ranges[] = {
        {"layers", options->layers, 1, 1000},
        {"heads", options->heads, 1, 1024},
        {"width", options->width, 1, 65536},
        {"context", options->context, 1, 1 << 20},
        {"vocab", options->vocab, 0, 1 << 24},
        {"batch", options->batch, 1, 1 << 20},
        {"steps", options->steps, 1, 1LL << 40},
        {"sample", options->sample, 0, 1 << 20},
        {"accumulate", options->accumulate, 0, 1 << 20},
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most) {
            (void)fprintf(stderr, "gpt: --%s is %lld; %lld to %lld are possible\n", ranges[i].name,
                          ranges[i].value, ranges[i].least, ranges[i].most);
            return -1;
        }
    if (options->width % options->heads) {
        (void)fprintf(stderr, "gpt: --width %lld is not a multiple of --heads %lld\n",
                      (long long)options->width, (long long)options->heads);
        return -1;
    }
    return 0;
}

int gpt_options_parse(int argc, char **argv, struct gpt_options *ret)
{
    struct gpt_options options = {0};
#define X(name, member, kind, fallback, text) (void)set(&options, name, fallback);
    GPT_OPTIONS(X)
#undef X
    for (int i = 1; i < argc; i++)
        if (take(&options, argc, argv, &i))
            return -1;
    if (!options.help && check(&options))
        return -1;
    *ret = options;
    return 0;
}

static void print_option(const char *name, const char *fallback, const char *text)
{
    (void)printf("  --%-17s %s", name, text);
    if (*fallback)
        (void)printf(" [%s]", fallback);
    (void)putchar('\n');
}

void gpt_options_help(const char *program)
{
    (void)printf("usage: %s [--option VALUE]...\n\n", program);
    (void)printf("Trains a byte-level GPT: alone, under torchrun-like launchers, or as a Muster "
                 "job.\n\n");
#define X(name, member, kind, fallback, text) print_option(name, fallback, text);
    GPT_OPTIONS(X)
#undef X
    print_option("print-config", "", "show every setting and where it comes from");
    print_option("help", "", "this text");
}
