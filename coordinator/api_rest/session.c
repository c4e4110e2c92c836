#include "coordinator/api_rest/session.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/hex.h"
#include "common/base/map.h"
#include "common/base/sha256.h"
#include "common/base/str.h"
#include "common/base/tree.h"

enum {
    ID_BYTES = 32,
    FILE_MAX_BYTES = 1 << 20,
    FILE_ARENA_BYTES = 4 << 20,
};

struct session {
    char token[TOKEN_MAX]; /* "" until its id is seen in this life of the coordinator */
    uint8_t sealed[TOKEN_MAX];
    int64_t until_wall_ms;
};

struct sessions {
    struct env *env;
    char path[PATH_MAX]; /* "" = kept in memory only */
    struct strmap all;   /* by hash of the id, in hex */
};

static int64_t wall_ms(const struct sessions *sessions)
{
    return sessions->env->clock.wall_ms(sessions->env->clock.self);
}

static void name_of(const char *id, char ret[SHA256_HEX_BYTES])
{
    uint8_t digest[SHA256_BYTES];
    sha256(id, strlen(id), digest);
    sha256_hex(digest, ret);
}

/* XOR with a stream that only the id gives: HMAC-SHA-256 of a counter, under the id as key. An id
 * has 256 random bits and seals one token, so no part of the stream is used twice. Opens what it
 * sealed. */
static void seal(const char *id, const uint8_t from[TOKEN_MAX], uint8_t ret[TOKEN_MAX])
{
    static const char purpose[] = "muster session token";
    uint8_t stream[SHA256_BYTES] = {0};
    for (size_t i = 0; i < TOKEN_MAX; i++) {
        uint8_t block = (uint8_t)(i / SHA256_BYTES);
        if (i % SHA256_BYTES == 0) {
            struct hmac_sha256 hmac;
            hmac_sha256_init(&hmac, id, strlen(id));
            hmac_sha256_update(&hmac, purpose, sizeof purpose);
            hmac_sha256_update(&hmac, &block, 1);
            hmac_sha256_final(&hmac, stream);
        }
        ret[i] = from[i] ^ stream[i % SHA256_BYTES];
    }
}

/* The file */

static int put_session(struct sessions *sessions, const char *name, const struct session *session)
{
    struct session *copy = malloc(sizeof *copy);
    if (!copy || strmap_set(&sessions->all, name, copy, NULL) < 0) {
        free(copy);
        return E_RESOURCE_EXHAUSTED;
    }
    *copy = *session;
    return 0;
}

static void read_session(struct sessions *sessions, const struct tree *node)
{
    struct session session = {0};
    const char *name, *sealed;
    bool whole = tree_read_string(tree_get(node, "id"), &name, NULL) == 0 &&
                 tree_read_string(tree_get(node, "token"), &sealed, NULL) == 0 &&
                 tree_read_i64(tree_get(node, "until_wall_ms"), &session.until_wall_ms, NULL) == 0;
    if (whole && strlen(name) == SHA256_HEX_BYTES - 1 &&
        hex_decode(sealed, session.sealed, sizeof session.sealed) == 0 &&
        session.until_wall_ms > wall_ms(sessions) && strmap_count(&sessions->all) < SESSIONS_MAX)
        (void)put_session(sessions, name, &session);
}

static void read_file(struct sessions *sessions)
{
    struct disk *disk = &sessions->env->disk;
    struct arena arena;
    struct tree *root, *node;
    char *text;
    struct tree_input input = {.name = sessions->path};
    if (disk->read_file(disk->self, sessions->path, FILE_MAX_BYTES, &text, &input.size, NULL) < 0)
        return;
    input.text = text;
    arena_init(&arena, FILE_ARENA_BYTES);
    if (tree_parse_json(&input, &arena, &root, NULL) == 0 && root->kind == TREE_LIST)
        tree_each(node, root)
            read_session(sessions, node);
    arena_fini(&arena);
    free(text);
}

static void write_file(const struct sessions *sessions)
{
    struct disk *disk = &sessions->env->disk;
    char sealed[2 * TOKEN_MAX + 1];
    const char *comma = "";
    struct buf out;
    if (!sessions->path[0])
        return;
    buf_init(&out, FILE_MAX_BYTES);
    (void)buf_str(&out, "[");
    for (struct map_entry *e = strmap_first(&sessions->all); e; e = map_next(e), comma = ",") {
        const struct session *session = e->value;
        hex_encode(session->sealed, sizeof session->sealed, sealed);
        (void)buf_printf(&out, "%s\n{\"id\":\"%s\",\"token\":\"%s\",\"until_wall_ms\":%lld}", comma,
                         e->name, sealed, (long long)session->until_wall_ms);
    }
    (void)buf_str(&out, "\n]\n");
    if (!buf_failed(&out))
        (void)disk->write_file(disk->self, sessions->path, buf_cstr(&out), out.size, 0600, NULL);
    buf_fini(&out);
}

int sessions_new(struct env *env, const char *data_dir, struct sessions **ret, struct error *err)
{
    struct sessions *sessions = calloc(1, sizeof *sessions);
    if (!sessions)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    sessions->env = env;
    if (data_dir &&
        str_printf(sessions->path, sizeof sessions->path, "%s/sessions.json", data_dir) < 0)
        sessions->path[0] = 0;
    if (sessions->path[0])
        read_file(sessions);
    *ret = sessions;
    return 0;
}

void sessions_free(struct sessions *sessions)
{
    if (!sessions)
        return;
    for (struct map_entry *e = strmap_first(&sessions->all); e; e = map_next(e))
        free(e->value);
    strmap_fini(&sessions->all);
    free(sessions);
}

static void make_room(struct sessions *sessions)
{
    while (strmap_count(&sessions->all) >= SESSIONS_MAX) {
        struct map_entry *first = strmap_first(&sessions->all);
        for (struct map_entry *e = first; e; e = map_next(e))
            if (((struct session *)e->value)->until_wall_ms <
                ((struct session *)first->value)->until_wall_ms)
                first = e;
        free(strmap_remove(&sessions->all, first->name));
    }
}

int session_open(struct sessions *sessions, const char *token, char ret_id[SESSION_ID_MAX],
                 struct error *err)
{
    uint8_t id[ID_BYTES];
    char name[SHA256_HEX_BYTES];
    struct session session = {.until_wall_ms = wall_ms(sessions) + SESSION_LIFE_MS};
    sessions->env->rng.fill(sessions->env->rng.self, id, sizeof id);
    base64url_encode(id, sizeof id, ret_id);
    name_of(ret_id, name);
    make_room(sessions);
    int rc = str_copy(session.token, sizeof session.token, token);
    seal(ret_id, (const uint8_t *)session.token, session.sealed);
    if (rc < 0 || put_session(sessions, name, &session) < 0)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no session could be opened");
    write_file(sessions);
    return 0;
}

const char *session_token(struct sessions *sessions, const char *id)
{
    char name[SHA256_HEX_BYTES];
    name_of(id, name);
    struct session *session = strmap_get(&sessions->all, name);
    if (session && session->until_wall_ms < wall_ms(sessions)) {
        session_close(sessions, id);
        session = NULL;
    }
    if (session && !session->token[0]) {
        seal(id, session->sealed, (uint8_t *)session->token);
        session->token[sizeof session->token - 1] = 0;
    }
    return session ? session->token : NULL;
}

void session_close(struct sessions *sessions, const char *id)
{
    char name[SHA256_HEX_BYTES];
    name_of(id, name);
    struct session *session = strmap_remove(&sessions->all, name);
    if (session)
        write_file(sessions);
    free(session);
}
