#include "common/base/tree_parse.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/base/tree_write.h"

int tree_parse_fail(const struct tree_parse *parse, int line, int column, const char *fmt, ...)
{
    char sentence[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    if (parse->input->name)
        return error_set(parse->err, E_INVALID_ARGUMENT, "%.300s:%d:%d: %s", parse->input->name,
                         line, column, sentence);
    return error_set(parse->err, E_INVALID_ARGUMENT, "line %d, column %d: %s", line, column,
                     sentence);
}

int tree_parse_out_of_memory(const struct tree_parse *parse)
{
    return error_set(parse->err, E_RESOURCE_EXHAUSTED, "no memory left to read the document");
}

static const char byte_order_mark[] = "\xef\xbb\xbf";

static size_t mark_bytes(const char *text, size_t size)
{
    size_t mark = strlen(byte_order_mark);
    return size >= mark && memcmp(text, byte_order_mark, mark) == 0 ? mark : 0;
}

bool tree_looks_like_json(const char *text, size_t size)
{
    size_t at = mark_bytes(text, size);
    while (at < size && text[at] && strchr(" \t\r\n", text[at]))
        at++;
    return at < size && text[at] == '{';
}

/* Eight characters of one byte each, none of them a NUL or a line end. */
static bool plain_word(const char *text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t word;
    memcpy(&word, text, sizeof(word));
    uint64_t ends = word ^ ones * '\n';
    return (((word | (word - ones)) | (ends - ones)) & tops) == 0;
}

static int check_text(const struct tree_parse *parse)
{
    const char *text = parse->input->text;
    size_t size = parse->input->size;
    int line = 1, column = 1;
    for (size_t at = 0; at < size;) {
        if (size - at >= sizeof(uint64_t) && plain_word(text + at)) {
            at += sizeof(uint64_t);
            column += (int)sizeof(uint64_t);
            continue;
        }
        size_t length = utf8_decode(text + at, size - at, NULL);
        if (length == 0)
            return tree_parse_fail(parse, line, column, "the text is not valid UTF-8");
        if (text[at] == '\0')
            return tree_parse_fail(parse, line, column, "NUL characters are not allowed");
        column++;
        if (text[at] == '\n') {
            line++;
            column = 1;
        }
        at += length;
    }
    return 0;
}

int tree_parse_init(struct tree_parse *parse, const struct tree_input *input, struct arena *arena,
                    struct error *err)
{
    *parse =
        (struct tree_parse){.input = input, .arena = arena, .err = err, .limits = input->limits};
    struct tree_limits *limits = &parse->limits;
    if (limits->bytes == 0)
        limits->bytes = TREE_DEFAULT_BYTES;
    if (limits->depth == 0)
        limits->depth = TREE_DEFAULT_DEPTH;
    if (limits->depth > TREE_WRITE_DEPTH_MAX)
        limits->depth = TREE_WRITE_DEPTH_MAX;
    if (limits->nodes == 0)
        limits->nodes = TREE_DEFAULT_NODES;
    if (input->size > limits->bytes)
        return error_set(err, E_RESOURCE_EXHAUSTED, "%s: %zu bytes, at most %zu are read",
                         input->name ? input->name : "the document", input->size, limits->bytes);
    size_t mark = mark_bytes(input->text, input->size);
    parse->without_mark = *input;
    parse->without_mark.text += mark;
    parse->without_mark.size -= mark;
    parse->input = &parse->without_mark;
    return check_text(parse);
}

int tree_parse_add(struct tree_parse *parse, const struct tree *value)
{
    bool container = value->kind == TREE_LIST || value->kind == TREE_MAP;
    if (++parse->nodes > parse->limits.nodes)
        return error_set(parse->err, E_RESOURCE_EXHAUSTED, "line %d: more than %zu values",
                         value->line, parse->limits.nodes);
    if (container && ++parse->depth > parse->limits.depth)
        return error_set(parse->err, E_RESOURCE_EXHAUSTED,
                         "line %d, column %d: nested deeper than %d levels", value->line,
                         value->column, parse->limits.depth);
    struct tree *node = arena_copy(parse->arena, value, sizeof(*value));
    if (!node)
        return tree_parse_out_of_memory(parse);
    struct tree *parent = node->parent = parse->in;
    if (!parent) {
        parse->root = node;
    } else {
        if (parent->last)
            parent->last->next = node;
        else
            parent->first = node;
        parent->last = node;
        parent->count++;
    }
    if (container)
        parse->in = node;
    return 0;
}

static int by_key_then_place(const void *a, const void *b)
{
    const struct tree *x = *(struct tree *const *)a, *y = *(struct tree *const *)b;
    int order = strcmp(x->key, y->key);
    if (order)
        return order;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return (x->column > y->column) - (x->column < y->column);
}

static uint32_t hash_of(const char *key)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 16777619u;
    return hash ^ hash >> 15;
}

/* Whether no two keys are the same; only of small maps, which need no memory for it. */
static bool all_differ(const struct tree *map)
{
    enum { SLOTS = 256 };
    const struct tree *slots[SLOTS] = {NULL};
    const struct tree *child;
    if (map->count > SLOTS / 2)
        return false;
    tree_each(child, map) {
        uint32_t slot = hash_of(child->key) % SLOTS;
        for (; slots[slot]; slot = (slot + 1) % SLOTS)
            if (strcmp(slots[slot]->key, child->key) == 0)
                return false;
        slots[slot] = child;
    }
    return true;
}

/* Sorting keeps a map of a hundred thousand keys from costing their square. */
static int refuse_duplicates(const struct tree_parse *parse, const struct tree *map)
{
    if (map->count < 2 || all_differ(map))
        return 0;
    const struct tree **sorted = calloc(map->count, sizeof(struct tree *));
    struct tree *child;
    size_t n = 0;
    int rc = 0;
    if (!sorted) {
        parse->arena->out_of_memory = true;
        return tree_parse_out_of_memory(parse);
    }
    tree_each(child, map)
        sorted[n++] = child;
    qsort(sorted, n, sizeof(struct tree *), by_key_then_place);
    for (size_t i = 1; i < n && !rc; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0)
            rc = tree_parse_fail(parse, sorted[i]->line, sorted[i]->column,
                                 "the key '%.80s' was already given on line %d", sorted[i]->key,
                                 sorted[i - 1]->line);
    free(sorted);
    return rc;
}

int tree_parse_close(struct tree_parse *parse)
{
    struct tree *closed = parse->in;
    parse->in = closed->parent;
    parse->depth--;
    return closed->kind == TREE_MAP ? refuse_duplicates(parse, closed) : 0;
}
