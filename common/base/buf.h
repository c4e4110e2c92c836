/* A growable byte buffer with a maximum. Appends return 0 or E_RESOURCE_EXHAUSTED; on failure the
 * content stays. The failure is remembered, so a writer may append a whole document and check
 * buf_failed once. `data` is always NUL-terminated after buf_init (size does not count it). Owned
 * by the caller of buf_init; one thread at a time. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buf {    /* zeroed memory is an empty buffer limited to BUF_DEFAULT_MAX_BYTES */
    char *data; /* NULL until something was appended; buf_cstr is never NULL */
    size_t size;
    size_t capacity;
    size_t max_bytes;
    bool failed;
};

enum { BUF_DEFAULT_MAX_BYTES = 64 << 20 };

void buf_init(struct buf *buf, size_t max_bytes);
void buf_fini(struct buf *buf);
void buf_clear(struct buf *buf); /* keeps the memory, forgets the failure */

int buf_append(struct buf *buf, const void *data, size_t size);
int buf_str(struct buf *buf, const char *text);
int buf_char(struct buf *buf, char c);
int buf_fill(struct buf *buf, char c, size_t count);
int buf_printf(struct buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *buf, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* `text` as a JSON string with its quotes. Control characters are escaped; invalid UTF-8 becomes
 * U+FFFD, one per bad byte, so the output is always valid. */
int buf_json_string(struct buf *buf, const char *text, size_t size);

/* `text` for a terminal: control characters but the tab become '?', those of two bytes in UTF-8
 * (U+0080 to U+009F) too. */
int buf_printable(struct buf *buf, const char *text, size_t size);
/* The same for each of its lines; line ends stay. */
int buf_printable_lines(struct buf *buf, const char *text, size_t size);

bool buf_failed(const struct buf *buf);
const char *buf_cstr(const struct buf *buf);

/* The content as malloced, NUL-terminated memory that the caller frees; the buffer is empty
 * afterwards. NULL if any append had failed. */
char *buf_take(struct buf *buf, size_t *ret_size);

#endif
