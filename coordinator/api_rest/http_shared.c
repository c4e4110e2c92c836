#include "coordinator/api_rest/http_shared.h"

#include <string.h>

void http_shared_init(struct http_shared *shared)
{
    *shared = (struct http_shared){.epoch = 1};
    pthread_mutex_init(&shared->mutex, NULL);
}

static void forget_all(struct http_shared *shared)
{
    for (struct map_entry *e = strmap_first(&shared->answers); e; e = map_next(e))
        http_content_unref(e->value);
    strmap_fini(&shared->answers);
    shared->bytes = 0;
}

void http_shared_fini(struct http_shared *shared)
{
    forget_all(shared);
    pthread_mutex_destroy(&shared->mutex);
}

/* Each part with its end, so that no two questions have the same bytes. */
static void hash_part(struct sha256 *sha, const char *text)
{
    sha256_update(sha, text ? text : "", text ? strlen(text) + 1 : 0);
    sha256_update(sha, text ? "+" : "-", 1);
}

void http_shared_key(const struct http_shared_question *question, char ret[SHA256_HEX_BYTES])
{
    struct sha256 sha;
    uint8_t digest[SHA256_BYTES];
    sha256_init(&sha);
    hash_part(&sha, question->uri);
    hash_part(&sha, question->authorization);
    hash_part(&sha, question->cookie);
    hash_part(&sha, question->session);
    hash_part(&sha, question->host);
    sha256_final(&sha, digest);
    sha256_hex(digest, ret);
}

uint64_t http_shared_epoch(struct http_shared *shared)
{
    pthread_mutex_lock(&shared->mutex);
    uint64_t epoch = shared->epoch;
    pthread_mutex_unlock(&shared->mutex);
    return epoch;
}

uint64_t http_shared_served(struct http_shared *shared)
{
    pthread_mutex_lock(&shared->mutex);
    uint64_t served = shared->served;
    pthread_mutex_unlock(&shared->mutex);
    return served;
}

struct http_content *http_shared_find(struct http_shared *shared, const char *key)
{
    pthread_mutex_lock(&shared->mutex);
    struct http_content *content = strmap_get(&shared->answers, key);
    if (content) {
        http_content_ref(content);
        shared->served++;
    }
    pthread_mutex_unlock(&shared->mutex);
    return content;
}

void http_shared_put(struct http_shared *shared, const char *key, uint64_t epoch,
                     struct http_content *content)
{
    size_t size = http_content_size(content);
    pthread_mutex_lock(&shared->mutex);
    if (strmap_count(&shared->answers) >= HTTP_SHARED_MAX ||
        shared->bytes + size > HTTP_SHARED_MAX_BYTES)
        forget_all(shared);
    void *old = NULL;
    if (epoch == shared->epoch && http_content_is_success(content) &&
        size <= HTTP_SHARED_MAX_BYTES && !strmap_set(&shared->answers, key, content, &old)) {
        http_content_ref(content);
        shared->bytes += size;
    }
    if (old) {
        shared->bytes -= http_content_size(old);
        http_content_unref(old);
    }
    pthread_mutex_unlock(&shared->mutex);
}

void http_shared_clear(struct http_shared *shared)
{
    pthread_mutex_lock(&shared->mutex);
    shared->epoch++;
    forget_all(shared);
    pthread_mutex_unlock(&shared->mutex);
}
