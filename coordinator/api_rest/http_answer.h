/* An answer of the HTTP server. */
#ifndef API_REST_HTTP_ANSWER_H
#define API_REST_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

struct http_pair {
    const char *key, *value;
};

struct http_answer {
    int status;
    const char *type; /* Content-Type */
    const void *body; /* copied */
    size_t size;
    struct http_pair headers[8]; /* ended by a NULL key */
    bool tagged; /* has an ETag of its body: a client that returns the ETag gets 304 while the body
                  * is unchanged */
};

/* An answer that several requests share (http_prepare, http_content.h). */
struct http_content;
void http_content_unref(struct http_content *content); /* any thread; NULL is fine */

#endif
