#include "common/base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/str.h"

void buf_init(struct buf *buf, size_t max_bytes)
{
    *buf = (struct buf){.max_bytes = max_bytes};
}

void buf_fini(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){.max_bytes = buf->max_bytes};
}

void buf_clear(struct buf *buf)
{
    buf->size = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

static int fail_append(struct buf *buf)
{
    buf->failed = true;
    return E_RESOURCE_EXHAUSTED;
}

/* Room for `more` bytes and the NUL. */
static int reserve_bytes(struct buf *buf, size_t more)
{
    size_t max = buf->max_bytes ? buf->max_bytes : (size_t)BUF_DEFAULT_MAX_BYTES;
    if (buf->failed || more > max || buf->size > max - more)
        return fail_append(buf);
    size_t need = buf->size + more + 1;
    if (need <= buf->capacity)
        return 0;
    size_t capacity = buf->capacity ? buf->capacity * 2 : 64;
    if (capacity < need)
        capacity = need;
    if (capacity > max + 1)
        capacity = max + 1;
    char *data = realloc(buf->data, capacity);
    if (!data)
        return fail_append(buf);
    buf->data = data;
    buf->capacity = capacity;
    return 0;
}

int buf_append(struct buf *buf, const void *data, size_t size)
{
    int rc = reserve_bytes(buf, size);
    if (rc)
        return rc;
    if (size)
        memcpy(buf->data + buf->size, data, size);
    buf->size += size;
    buf->data[buf->size] = '\0';
    return 0;
}

int buf_str(struct buf *buf, const char *text)
{
    return buf_append(buf, text, strlen(text));
}

int buf_char(struct buf *buf, char c)
{
    return buf_append(buf, &c, 1);
}

int buf_fill(struct buf *buf, char c, size_t count)
{
    int rc = reserve_bytes(buf, count);
    if (rc)
        return rc;
    memset(buf->data + buf->size, c, count);
    buf->size += count;
    buf->data[buf->size] = '\0';
    return 0;
}

int buf_vprintf(struct buf *buf, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int length = vsnprintf(NULL, 0, fmt, ap);
    int rc = length < 0 ? fail_append(buf) : reserve_bytes(buf, (size_t)length);
    if (!rc) {
        vsnprintf(buf->data + buf->size, (size_t)length + 1, fmt, again);
        buf->size += (size_t)length;
    }
    va_end(again);
    return rc;
}

int buf_printf(struct buf *buf, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = buf_vprintf(buf, fmt, ap);
    va_end(ap);
    return rc;
}

/* The JSON escape of a character that must not stand for itself, "" if it may. */
static const char *json_escape(unsigned char c, char ret[8])
{
    ret[0] = '\0';
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    default:
        if (c < 0x20 || c == 0x7f)
            snprintf(ret, 8, "\\u%04x", c);
        return ret;
    }
}

int buf_json_string(struct buf *buf, const char *text, size_t size)
{
    size_t before = buf->size;
    size_t plain = 0; /* start of the bytes not copied yet */
    size_t at = 0;
    buf_char(buf, '"');
    while (at < size) {
        char space[8];
        const char *escape = json_escape((unsigned char)text[at], space);
        size_t length = utf8_decode(text + at, size - at, NULL);
        if (!length)
            escape = "\xef\xbf\xbd"; /* U+FFFD */
        if (escape[0]) {
            buf_append(buf, text + plain, at - plain);
            buf_str(buf, escape);
            plain = at + 1;
        }
        at += length ? length : 1;
    }
    buf_append(buf, text + plain, at - plain);
    int rc = buf_char(buf, '"');
    if (rc && buf->data && before <= buf->size) { /* half a string is worse than none */
        buf->size = before;
        buf->data[before] = '\0';
    }
    return rc;
}

int buf_printable(struct buf *buf, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i],
                      next = i + 1 < size ? (unsigned char)text[i + 1] : 0;
        bool c1 = c == 0xc2 && next >= 0x80 && next < 0xa0;
        bool control = (c < ' ' && c != '\t') || c == 0x7f || c1;
        (void)buf_char(buf, control ? '?' : (char)c);
        i += c1;
    }
    return buf->failed ? E_RESOURCE_EXHAUSTED : 0;
}

int buf_printable_lines(struct buf *buf, const char *text, size_t size)
{
    for (const char *end; size > 0 && (end = memchr(text, '\n', size)); text = end + 1) {
        (void)buf_printable(buf, text, (size_t)(end - text));
        (void)buf_char(buf, '\n');
        size -= (size_t)(end - text) + 1;
    }
    return buf_printable(buf, text, size);
}

bool buf_failed(const struct buf *buf)
{
    return buf->failed;
}

const char *buf_cstr(const struct buf *buf)
{
    return buf->data ? buf->data : "";
}

char *buf_take(struct buf *buf, size_t *ret_size)
{
    if (buf->failed || reserve_bytes(buf, 0))
        return NULL;
    char *data = buf->data;
    data[buf->size] = '\0';
    if (ret_size)
        *ret_size = buf->size;
    *buf = (struct buf){.max_bytes = buf->max_bytes};
    return data;
}
