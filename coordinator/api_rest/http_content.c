#include "coordinator/api_rest/http_content.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "common/base/murmur3.h"
#include "common/base/str.h"

enum { ETAG_MAX = MURMUR3_TEXT_BYTES + 4, GZIP_FORMAT = 16, GZIP_MEMORY = 8 };

struct body { /* what a response sends; freed when the last connection has sent it */
    struct http_memory *memory;
    size_t size; /* counted in the memory limit */
    char data[];
};

struct http_content {
    atomic_int references;
    struct http_memory *memory;
    int status;
    size_t size;
    char etag[ETAG_MAX]; /* "" = none */
    struct MHD_Response *plain, *packed, *unchanged;
    const char *data; /* of `plain` */
    bool packs;       /* compressing it is worth it */
};

static struct body *body_new(struct http_memory *memory, size_t size)
{
    size_t held = atomic_fetch_add(&memory->bytes, size);
    struct body *body = held + size <= memory->max_bytes ? malloc(sizeof(*body) + size + 1) : NULL;
    if (!body) {
        atomic_fetch_sub(&memory->bytes, size);
        return NULL;
    }
    body->memory = memory;
    body->size = size;
    return body;
}

static void body_free(void *data)
{
    struct body *body = (struct body *)(void *)((char *)data - offsetof(struct body, data));
    atomic_fetch_sub(&body->memory->bytes, body->size);
    free(body);
}

static struct MHD_Response *respond_with(struct body *body, size_t size)
{
    struct MHD_Response *response =
        body ? MHD_create_response_from_buffer_with_free_callback(size, body->data, body_free)
             : NULL;
    if (body && !response)
        body_free(body->data);
    return response;
}

static bool is_text(const char *type)
{
    return type && (strncmp(type, "text/", 5) == 0 || strncmp(type, "application/json", 16) == 0 ||
                    strcmp(type, "image/svg+xml") == 0);
}

static void add_headers(struct http_content *content, const struct http_answer *answer)
{
    if (answer->type)
        MHD_add_response_header(content->plain, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
    for (const struct http_pair *pair = answer->headers; pair->key; pair++)
        MHD_add_response_header(content->plain, pair->key, pair->value);
    if (content->etag[0])
        MHD_add_response_header(content->plain, MHD_HTTP_HEADER_ETAG, content->etag);
    if (content->packs)
        MHD_add_response_header(content->plain, MHD_HTTP_HEADER_VARY, "Accept-Encoding");
}

struct http_content *http_content_new(const struct http_answer *answer, struct http_memory *memory)
{
    struct http_content *content = calloc(1, sizeof(*content));
    struct body *body = content ? body_new(memory, answer->size) : NULL;
    if (body && answer->size > 0)
        memcpy(body->data, answer->body, answer->size);
    if (!body || !(content->plain = respond_with(body, answer->size))) {
        free(content);
        return NULL;
    }
    atomic_init(&content->references, 1);
    content->memory = memory;
    content->status = answer->status;
    content->size = answer->size;
    content->data = body->data;
    content->packs = answer->size >= HTTP_GZIP_MIN_BYTES && is_text(answer->type);
    if (answer->tagged) {
        char digest[MURMUR3_TEXT_BYTES];
        murmur3_text(answer->body, answer->size, digest);
        (void)str_printf(content->etag, sizeof(content->etag), "W/\"%s\"", digest);
    }
    add_headers(content, answer);
    return content;
}

struct http_content *http_content_ref(struct http_content *content)
{
    atomic_fetch_add(&content->references, 1);
    return content;
}

static void drop_response(struct MHD_Response *response)
{
    if (response)
        MHD_destroy_response(response);
}

void http_content_unref(struct http_content *content)
{
    if (!content || atomic_fetch_sub(&content->references, 1) > 1)
        return;
    drop_response(content->plain);
    drop_response(content->packed);
    drop_response(content->unchanged);
    free(content);
}

size_t http_content_size(const struct http_content *content)
{
    return content->size;
}

bool http_content_is_success(const struct http_content *content)
{
    return content->status == MHD_HTTP_OK;
}

/* HTTP thread */

static enum MHD_Result copy_header(void *arg, enum MHD_ValueKind kind, const char *key,
                                   const char *value)
{
    (void)kind;
    return MHD_add_response_header(arg, key, value);
}

static struct body *compress_body(struct http_content *content, size_t *ret_size)
{
    z_stream stream = {0};
    if (content->size > UINT32_MAX ||
        deflateInit2(&stream, HTTP_GZIP_LEVEL, Z_DEFLATED, MAX_WBITS + GZIP_FORMAT, GZIP_MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return NULL;
    size_t bound = deflateBound(&stream, content->size);
    struct body *body = body_new(content->memory, bound);
    int done = Z_MEM_ERROR;
    if (body) {
        stream.next_in = (z_const Bytef *)content->data;
        stream.avail_in = (uInt)content->size;
        stream.next_out = (Bytef *)body->data;
        stream.avail_out = (uInt)bound;
        done = deflate(&stream, Z_FINISH);
        *ret_size = stream.total_out;
    }
    (void)deflateEnd(&stream);
    if (done == Z_STREAM_END)
        return body;
    if (body)
        body_free(body->data);
    return NULL;
}

static void make_packed(struct http_content *content)
{
    size_t size = 0;
    struct body *body = compress_body(content, &size);
    content->packed = respond_with(body, size);
    if (!content->packed)
        return;
    MHD_get_response_headers(content->plain, copy_header, content->packed);
    MHD_add_response_header(content->packed, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
}

static void make_unchanged(struct http_content *content)
{
    static char nothing[1];
    content->unchanged = MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    if (content->unchanged)
        MHD_get_response_headers(content->plain, copy_header, content->unchanged);
}

/* RFC 9110, 12.5.3: a list of codings, each with a quality; 0 refuses it. */
static bool takes_gzip(const char *accepted)
{
    struct str rest = str_of(accepted), part;
    while (str_next(&rest, ',', &part)) {
        struct str coding;
        (void)str_next(&part, ';', &coding);
        coding = str_trim(coding);
        bool gzip = (coding.size == 4 && strncasecmp(coding.data, "gzip", 4) == 0) ||
                    (coding.size == 1 && coding.data[0] == '*');
        if (!gzip)
            continue;
        struct str quality = str_trim(part);
        return quality.size < 3 || strncasecmp(quality.data, "q=0", 3) != 0 ||
               strspn(quality.data + 2, "0.") < quality.size - 2;
    }
    return false;
}

/* RFC 9110, 13.1.2: "*", or a list that is compared weakly. */
static bool has_it(const char *known, const char *etag)
{
    struct str rest = str_of(known), part;
    size_t size = strlen(etag) - 2; /* without W/ */
    while (str_next(&rest, ',', &part)) {
        part = str_trim(part);
        if (part.size == 1 && part.data[0] == '*')
            return true;
        if (part.size > 2 && strncmp(part.data, "W/", 2) == 0)
            part = (struct str){part.data + 2, part.size - 2};
        if (part.size == size && memcmp(part.data, etag + 2, size) == 0)
            return true;
    }
    return false;
}

enum MHD_Result http_content_queue(struct http_content *content, struct MHD_Connection *connection)
{
    const char *known = NULL, *accepted = NULL;
    if (content->etag[0])
        known =
            MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    if (content->status == MHD_HTTP_OK && known && has_it(known, content->etag)) {
        if (!content->unchanged)
            make_unchanged(content);
        if (content->unchanged)
            return MHD_queue_response(connection, MHD_HTTP_NOT_MODIFIED, content->unchanged);
    }
    if (content->packs)
        accepted = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                               MHD_HTTP_HEADER_ACCEPT_ENCODING);
    if (accepted && takes_gzip(accepted) && !content->packed)
        make_packed(content);
    struct MHD_Response *response =
        accepted && content->packed && takes_gzip(accepted) ? content->packed : content->plain;
    return MHD_queue_response(connection, (unsigned)content->status, response);
}
