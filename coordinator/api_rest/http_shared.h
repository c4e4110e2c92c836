/* Answers that the HTTP thread repeats by itself for equal requests with the same credentials,
 * until something changes. The loop thread stores them here and removes all of them (http_changed)
 * before any client learns of a change.
 *
 * An answer belongs to the epoch in which its request was admitted. If a session ended or a change
 * was stored meanwhile, the epoch is a later one, and the answer is not kept.
 *
 * Any thread; the keys are digests, so no credentials are stored here.
 */
#ifndef API_REST_HTTP_SHARED_H
#define API_REST_HTTP_SHARED_H

#include <pthread.h>
#include <stdint.h>

#include "common/base/map.h"
#include "common/base/sha256.h"
#include "coordinator/api_rest/http_content.h"

enum {
    HTTP_SHARED_MAX = 1024,
    HTTP_SHARED_MAX_BYTES = 64 << 20,
};

struct http_shared {
    pthread_mutex_t mutex;
    uint64_t epoch, served;
    struct strmap answers; /* by key */
    size_t bytes;
};

void http_shared_init(struct http_shared *shared);
void http_shared_fini(struct http_shared *shared);

/* The key of a question: the method is GET. Missing headers are NULL. */
struct http_shared_question {
    const char *uri, *authorization, *cookie, *session, *host;
};
void http_shared_key(const struct http_shared_question *question, char ret[SHA256_HEX_BYTES]);

uint64_t http_shared_epoch(struct http_shared *shared);
uint64_t http_shared_served(struct http_shared *shared);

/* A reference for the caller, or NULL. */
struct http_content *http_shared_find(struct http_shared *shared, const char *key);
/* Kept if it is a success and that epoch still lasts. */
void http_shared_put(struct http_shared *shared, const char *key, uint64_t epoch,
                     struct http_content *content);
void http_shared_clear(struct http_shared *shared); /* a new epoch begins */

#endif
