#include "agent/supervisor/mask.h"

#include <stdlib.h>
#include <string.h>

static const char stars[] = "***";

static bool add_line(struct mask *mask, const char *text, size_t size)
{
    if (size < MASK_MIN_BYTES)
        return true;
    struct mask_pattern *patterns = realloc(mask->patterns, sizeof(*patterns) * (mask->count + 1));
    if (!patterns)
        return false;
    mask->patterns = patterns;
    char *copy = malloc(size);
    if (!copy)
        return false;
    memcpy(copy, text, size);
    size_t at = mask->count++;
    for (; at > 0 && patterns[at - 1].size < size; at--)
        patterns[at] = patterns[at - 1];
    patterns[at] = (struct mask_pattern){copy, size};
    mask->first[(unsigned char)text[0]] = true;
    return true;
}

bool mask_add(struct mask *mask, const char *value)
{
    bool whole = true;
    while (*value) {
        size_t size = strcspn(value, "\r\n");
        whole = add_line(mask, value, size) && whole;
        value += size;
        value += strspn(value, "\r\n");
    }
    return whole;
}

void mask_fini(struct mask *mask)
{
    for (size_t i = 0; i < mask->count; i++) {
        explicit_bzero(mask->patterns[i].text, mask->patterns[i].size);
        free(mask->patterns[i].text);
    }
    free(mask->patterns);
    *mask = (struct mask){0};
}

void mask_stream_fini(struct mask_stream *stream)
{
    buf_fini(&stream->held);
}

/* The longest pattern at the start of `text`, 0 if there is none. *ret_open: the text ends within a
 * longer one, which may follow. */
static size_t match_pattern(const struct mask *mask, const char *text, size_t size, bool *ret_open)
{
    *ret_open = false;
    for (size_t i = 0; i < mask->count; i++) {
        const struct mask_pattern *pattern = &mask->patterns[i];
        size_t common = size < pattern->size ? size : pattern->size;
        if (memcmp(text, pattern->text, common) != 0)
            continue;
        if (common == pattern->size)
            return common;
        *ret_open = true;
    }
    return 0;
}

/* Everything that is certain; the rest is left in `stream`. */
static void write_certain(const struct mask *mask, struct mask_stream *stream, bool ended,
                          struct buf *out)
{
    const char *text = buf_cstr(&stream->held);
    size_t size = stream->held.size, at = 0, plain = 0;
    while (at < size) {
        bool open = false;
        size_t found = mask->first[(unsigned char)text[at]]
                           ? match_pattern(mask, text + at, size - at, &open)
                           : 0;
        if (open && !ended)
            break;
        if (!found) {
            at++;
            continue;
        }
        buf_append(out, text + plain, at - plain);
        buf_str(out, stars);
        at += found;
        plain = at;
    }
    buf_append(out, text + plain, at - plain);
    memmove(stream->held.data, stream->held.data + at, size - at);
    stream->held.size = size - at;
}

void mask_append(const struct mask *mask, struct mask_stream *stream, const char *bytes,
                 size_t size, struct buf *out)
{
    if (mask->count == 0) {
        buf_append(out, bytes, size);
        return;
    }
    buf_append(&stream->held, bytes, size);
    if (stream->held.size > 0)
        write_certain(mask, stream, false, out);
}

void mask_flush(const struct mask *mask, struct mask_stream *stream, struct buf *out)
{
    if (stream->held.size > 0)
        write_certain(mask, stream, true, out);
}
