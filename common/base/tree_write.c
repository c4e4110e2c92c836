#include "common/base/tree_write.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree_yaml.h"

static bool is_container(const struct tree *node)
{
    return node->kind == TREE_LIST || node->kind == TREE_MAP;
}

/* A node that a writer cannot express is refused before anything is written. */
static int check_node(const struct tree *node, const struct tree *root, struct error *err)
{
    if (node->kind == TREE_STRING && !utf8_valid(node->string, strlen(node->string)))
        return tree_fail(node, err, "the text is not valid UTF-8");
    if (node != root && node->key && !utf8_valid(node->key, strlen(node->key)))
        return tree_fail(node->parent, err, "a key is not valid UTF-8");
    return 0;
}

/* A walk over a tree in writing order: enter each node, leave each container that has children. */
struct writer {
    struct buf *out;
    enum tree_style style;
    const struct tree *root;
    int depth;
    void (*enter)(struct writer *writer, const struct tree *node);
    void (*leave)(struct writer *writer, const struct tree *node);
};

static int walk(struct writer *writer, struct error *err)
{
    const struct tree *at = writer->root;
    for (;;) {
        int rc = check_node(at, writer->root, err);
        if (rc)
            return rc;
        writer->enter(writer, at);
        if (tree_first(at)) {
            if (++writer->depth > TREE_WRITE_DEPTH_MAX)
                return tree_fail(at, err, "nested deeper than %d levels", TREE_WRITE_DEPTH_MAX);
            at = at->first;
            continue;
        }
        while (at != writer->root && !at->next) {
            at = at->parent;
            writer->depth--;
            writer->leave(writer, at);
        }
        if (at == writer->root)
            break;
        at = at->next;
    }
    if (buf_failed(writer->out))
        return error_set(err, E_RESOURCE_EXHAUSTED, "the document is too large to write");
    return 0;
}

static void json_scalar(const struct tree *node, struct buf *out)
{
    char space[FORMAT_MAX];
    switch (node->kind) {
    case TREE_NULL:
        buf_str(out, "null");
        break;
    case TREE_BOOL:
        buf_str(out, node->boolean ? "true" : "false");
        break;
    case TREE_INTEGER:
        buf_printf(out, "%" PRId64, node->integer);
        break;
    case TREE_NUMBER:
        format_f64(node->number, space);
        if (isfinite(node->number))
            buf_str(out, space);
        else
            buf_json_string(out, space, strlen(space));
        break;
    case TREE_STRING:
        buf_json_string(out, node->string, strlen(node->string));
        break;
    case TREE_LIST:
        buf_str(out, node->count ? "[" : "[]");
        break;
    case TREE_MAP:
        buf_str(out, node->count ? "{" : "{}");
        break;
    }
}

static void json_line(struct writer *writer)
{
    if (writer->style == TREE_PRETTY) {
        buf_char(writer->out, '\n');
        buf_fill(writer->out, ' ', 2 * (size_t)writer->depth);
    }
}

static void json_enter(struct writer *writer, const struct tree *node)
{
    if (node != writer->root) {
        if (node != node->parent->first)
            buf_char(writer->out, ',');
        json_line(writer);
        if (node->key) {
            buf_json_string(writer->out, node->key, strlen(node->key));
            buf_str(writer->out, writer->style == TREE_PRETTY ? ": " : ":");
        }
    }
    json_scalar(node, writer->out);
}

static void json_leave(struct writer *writer, const struct tree *node)
{
    json_line(writer);
    buf_char(writer->out, node->kind == TREE_MAP ? '}' : ']');
}

int tree_write_json(const struct tree *node, enum tree_style style, struct buf *out,
                    struct error *err)
{
    struct writer writer = {
        .out = out, .style = style, .root = node, .enter = json_enter, .leave = json_leave};
    return walk(&writer, err);
}

/* May the text stand without quotes? Narrower than YAML allows, and wary of what YAML 1.1 readers
 * take for booleans, times and numbers. */
static bool yaml_plain(const char *text)
{
    static const char *const old_words[] = {"y", "n", "yes", "no", "on", "off", NULL};
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_/.@+-:=,%()";
    struct tree value;
    size_t length = strlen(text);
    if (length == 0 || tree_yaml_resolve(text, &value) || value.kind != TREE_STRING)
        return false;
    for (const char *const *word = old_words; *word; word++)
        if (strcasecmp(text, *word) == 0)
            return false;
    bool like_a_number =
        strspn(text, "0123456789+-.:_eExXoO") == length && strpbrk(text, "0123456789");
    if (like_a_number || !strchr(allowed, text[0]) || strchr("-:=,%@.()", text[0]) ||
        text[length - 1] == ':' || text[length - 1] == ' ')
        return false;
    for (const char *p = text; *p; p++) {
        if (*p != ' ' && !strchr(allowed, *p))
            return false;
        if (p[0] == ':' && p[1] == ' ')
            return false;
    }
    return true;
}

/* Characters that a YAML reader refuses or reads as a line break; and those that change the
 * direction of text, because people read it. */
static bool yaml_needs_escape(uint32_t c)
{
    return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c < 0x20 ||
           (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe ||
           c == 0xffff;
}

static void yaml_string(const char *text, struct buf *out)
{
    if (yaml_plain(text)) {
        buf_str(out, text);
        return;
    }
    size_t left = strlen(text);
    buf_char(out, '"');
    while (left) {
        uint32_t code_point = 0;
        size_t length = utf8_decode(text, left, &code_point);
        if (code_point == '"' || code_point == '\\')
            buf_printf(out, "\\%c", (char)code_point);
        else if (code_point == '\n')
            buf_str(out, "\\n");
        else if (code_point == '\t')
            buf_str(out, "\\t");
        else if (yaml_needs_escape(code_point))
            buf_printf(out, "\\u%04x", code_point);
        else
            buf_append(out, text, length);
        text += length;
        left -= length;
    }
    buf_char(out, '"');
}

static void yaml_scalar(const struct tree *node, struct buf *out)
{
    if (node->kind == TREE_STRING)
        yaml_string(node->string, out);
    else if (node->kind == TREE_NUMBER && isnan(node->number))
        buf_str(out, ".nan");
    else if (node->kind == TREE_NUMBER && isinf(node->number))
        buf_str(out, node->number < 0 ? "-.inf" : ".inf");
    else
        json_scalar(node, out);
}

/* Lists are two deeper than their key, and the first line of a list item follows its dash. The
 * indent of a line is therefore always twice its depth. */
static void yaml_enter(struct writer *writer, const struct tree *node)
{
    struct buf *out = writer->out;
    bool has_children = is_container(node) && node->count;
    if (node != writer->root) {
        bool after_dash = node == node->parent->first && node->parent != writer->root &&
                          node->parent->parent->kind == TREE_LIST;
        if (!after_dash)
            buf_fill(out, ' ', 2 * (size_t)(writer->depth - 1));
        if (node->key) {
            yaml_string(node->key, out);
            buf_str(out, has_children ? ":\n" : ": ");
        } else {
            buf_str(out, "- ");
        }
    }
    if (!has_children) {
        yaml_scalar(node, out);
        buf_char(out, '\n');
    }
}

static void yaml_leave(struct writer *writer, const struct tree *node)
{
    (void)writer;
    (void)node;
}

/* Characters of a key as yaml_string writes it, at most. */
static size_t yaml_key_length(const char *key)
{
    size_t written = 2, left = strlen(key);
    while (left) {
        uint32_t code_point = 0;
        size_t length = utf8_decode(key, left, &code_point);
        if (length == 0) /* refused by the walk */
            return 0;
        written += yaml_needs_escape(code_point) ? 6 : code_point < 0x80 ? 2 : length;
        key += length;
        left -= length;
    }
    return written;
}

static int check_yaml_keys(const struct tree *root, struct error *err)
{
    const struct tree *at = root;
    for (;;) {
        if (at != root && at->key && yaml_key_length(at->key) > TREE_YAML_KEY_MAX)
            return tree_fail(at->parent, err, "the key '%.40s...' is too long for YAML", at->key);
        const struct tree *next = tree_first(at);
        while (!next && at != root) {
            next = at->next;
            at = next ? at : at->parent;
        }
        if (!next)
            return 0;
        at = next;
    }
}

int tree_write_yaml(const struct tree *node, struct buf *out, struct error *err)
{
    struct writer writer = {.out = out, .root = node, .enter = yaml_enter, .leave = yaml_leave};
    int rc = check_yaml_keys(node, err);
    if (rc)
        return rc;
    return walk(&writer, err);
}
