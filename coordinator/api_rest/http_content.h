/* One whole answer, ready to be sent to any number of clients without a copy. It has the bytes, the
 * compressed bytes for clients that accept them (made at the first need), and "not modified" for
 * clients that have it. Only for http.c and http_shared.c.
 *
 * http_content_new and _unref: any thread; http_content_queue: the HTTP thread.
 */
#ifndef API_REST_HTTP_CONTENT_H
#define API_REST_HTTP_CONTENT_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "coordinator/api_rest/http_answer.h"

enum { HTTP_GZIP_MIN_BYTES = 1024, HTTP_GZIP_LEVEL = 1 };

/* Memory of answers that are still to be read. */
struct http_memory {
    atomic_size_t bytes;
    size_t max_bytes;
};

struct http_content;

/* One reference, the caller's. NULL: memory is out, or slow clients use the whole limit. */
struct http_content *http_content_new(const struct http_answer *answer, struct http_memory *memory);
struct http_content *http_content_ref(struct http_content *content);
size_t http_content_size(const struct http_content *content);
bool http_content_is_success(const struct http_content *content); /* a success */

/* In the form that the request of this connection asks for. */
enum MHD_Result http_content_queue(struct http_content *content, struct MHD_Connection *connection);

#endif
