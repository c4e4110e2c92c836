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
    HALF_BYTES = 32,
    OWNER_MAX = 16,
    FILE_MAX_BYTES = 1 << 20,
    FILE_ARENA_BYTES = 4 << 20,
    WRITE_AGAIN_MS = 5000, /* after a write that failed */
};

struct session {
    char token[TOKEN_MAX]; /* "" until its id is seen in this life of the coordinator */
    uint8_t sealed[TOKEN_MAX];
    char owner[OWNER_MAX]; /* id of the token, no secret */
    bool admin;
    int64_t until_wall_ms;
    uint64_t number; /* in the order of their opening, in this life of the coordinator */
};

struct sessions {
    struct env *env;
    char path[PATH_MAX]; /* "" = kept in memory only */
    struct strmap all;   /* by hash of the id, in hex */
    uint64_t last_number;
    int64_t write_due_ms; /* the file is not as it should be; 0 = it is */
};

static int64_t wall_ms(const struct sessions *sessions)
{
    return sessions->env->clock.wall_ms(sessions->env->clock.self);
}

static int64_t now_ms(const struct sessions *sessions)
{
    return sessions->env->clock.now_ms(sessions->env->clock.self);
}

static void name_of(const char *id, char ret[SHA256_HEX_BYTES])
{
    uint8_t digest[SHA256_BYTES];
    sha256(id, strlen(id), digest);
    sha256_hex(digest, ret);
}

/* XOR with a stream derived only from the id: HMAC-SHA-256 of a counter, under the id as key. An id
 * has 256 random bits and seals one token, so no part of the stream is used twice. The same
 * function opens. */
static void seal(const char *id, const uint8_t from[TOKEN_MAX], uint8_t ret[TOKEN_MAX])
{
    static const char purpose[] = "muster session token";
    uint8_t stream[SHA256_BYTES] = {0};
    for (size_t i = 0; i < TOKEN_MAX; i++) {
        uint8_t block = (uint8_t)(i / SHA256_BYTES);
        if (i % SHA256_BYTES == 0) {
            struct hmac_sha256 hmac;
            hmac_sha256_init(&hmac, id, strlen(id));
            hmac_sha256_update(&hmac, purpose, sizeof(purpose));
            hmac_sha256_update(&hmac, &block, 1);
            hmac_sha256_final(&hmac, stream);
        }
        ret[i] = from[i] ^ stream[i % SHA256_BYTES];
    }
}

/* The file */

static int put_session(struct sessions *sessions, const char *name, const struct session *session)
{
    struct session *copy = malloc(sizeof(*copy));
    if (!copy || strmap_set(&sessions->all, name, copy, NULL)) {
        free(copy);
        return E_RESOURCE_EXHAUSTED;
    }
    *copy = *session;
    return 0;
}

static void read_session(struct sessions *sessions, const struct tree *node)
{
    struct session session = {0};
    const char *name, *sealed, *owner;
    bool whole = !tree_read_string(tree_get(node, "id"), &name, NULL) &&
                 !tree_read_string(tree_get(node, "token"), &sealed, NULL) &&
                 !tree_read_string(tree_get(node, "owner"), &owner, NULL) &&
                 !tree_read_bool(tree_get(node, "admin"), &session.admin, NULL) &&
                 !tree_read_i64(tree_get(node, "until_wall_ms"), &session.until_wall_ms, NULL);
    if (whole && !str_copy(session.owner, sizeof(session.owner), owner) &&
        strlen(name) == SHA256_HEX_BYTES - 1 &&
        !hex_decode(sealed, session.sealed, sizeof(session.sealed)) &&
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
    if (!tree_parse_json(&input, &arena, &root, NULL) && root->kind == TREE_LIST)
        tree_each(node, root)
            read_session(sessions, node);
    arena_fini(&arena);
    free(text);
}

static int write_file(struct sessions *sessions)
{
    struct disk *disk = &sessions->env->disk;
    char sealed[2 * TOKEN_MAX + 1];
    const char *comma = "";
    struct buf out;
    int rc = E_RESOURCE_EXHAUSTED;
    if (!sessions->path[0])
        return 0;
    buf_init(&out, FILE_MAX_BYTES);
    (void)buf_str(&out, "[");
    for (struct map_entry *e = strmap_first(&sessions->all); e; e = map_next(e), comma = ",") {
        const struct session *session = e->value;
        hex_encode(session->sealed, sizeof(session->sealed), sealed);
        (void)buf_printf(&out,
                         "%s\n{\"id\":\"%s\",\"token\":\"%s\",\"owner\":\"%s\",\"admin\":%s,"
                         "\"until_wall_ms\":%lld}",
                         comma, e->name, sealed, session->owner, session->admin ? "true" : "false",
                         (long long)session->until_wall_ms);
    }
    (void)buf_str(&out, "\n]\n");
    if (!buf_failed(&out))
        rc = disk->write_file(disk->self, sessions->path, buf_cstr(&out), out.size, 0600, NULL);
    buf_fini(&out);
    sessions->write_due_ms = rc ? now_ms(sessions) + WRITE_AGAIN_MS : 0;
    return rc;
}

/* An ended session must not return from the file. If it cannot be written it is emptied, for which
 * a full disk has space, and stays empty until it can be written. */
static void write_without_ended(struct sessions *sessions)
{
    struct disk *disk = &sessions->env->disk;
    if (write_file(sessions))
        (void)disk->remove_tree(disk->self, sessions->path, NULL);
}

int sessions_new(struct env *env, const char *data_dir, struct sessions **ret, struct error *err)
{
    struct sessions *sessions = calloc(1, sizeof(*sessions));
    if (!sessions)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    sessions->env = env;
    if (data_dir &&
        str_printf(sessions->path, sizeof(sessions->path), "%s/sessions.json", data_dir))
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
    strmap_free_values(&sessions->all);
    free(sessions);
}

static int count_of(const struct sessions *sessions, const char *owner)
{
    int count = 0;
    for (struct map_entry *e = strmap_first(&sessions->all); e; e = map_next(e)) {
        if (strcmp(((struct session *)e->value)->owner, owner) == 0)
            count++;
    }
    return count;
}

static bool ends_before(const struct session *a, const struct session *b)
{
    if (a->until_wall_ms != b->until_wall_ms)
        return a->until_wall_ms < b->until_wall_ms;
    return a->number < b->number;
}

/* Of this token, the one that ends soonest. */
static void drop_one(struct sessions *sessions, const char *owner)
{
    const struct map_entry *first = NULL;
    for (struct map_entry *e = strmap_first(&sessions->all); e; e = map_next(e)) {
        const struct session *session = e->value;
        if (strcmp(session->owner, owner) == 0 && (!first || ends_before(session, first->value)))
            first = e;
    }
    if (first)
        free(strmap_remove(&sessions->all, first->name));
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The token with the most sessions among those that may lose one; NULL = none may. */
static const char *most_open(const struct sessions *sessions, bool of_admins)
{
    const char *owners[SESSIONS_MAX] = {NULL}, *most = NULL;
    size_t count = 0, longest = 0, run = 0;
    for (struct map_entry *e = strmap_first(&sessions->all); e; e = map_next(e)) {
        const struct session *session = e->value;
        if ((of_admins || !session->admin) && count < SESSIONS_MAX)
            owners[count++] = session->owner;
    }
    qsort(owners, count, sizeof(*owners), by_name);
    for (size_t i = 0; i < count; i++) {
        run = i > 0 && strcmp(owners[i], owners[i - 1]) == 0 ? run + 1 : 1;
        if (run > longest) {
            longest = run;
            most = owners[i];
        }
    }
    return most;
}

static int make_room(struct sessions *sessions, const struct session_owner *owner,
                     struct error *err)
{
    while (count_of(sessions, owner->token_id) >= SESSIONS_OF_TOKEN_MAX)
        drop_one(sessions, owner->token_id);
    while (strmap_count(&sessions->all) >= SESSIONS_MAX) {
        char from[OWNER_MAX];
        const char *most = most_open(sessions, owner->admin);
        if (!most)
            return error_set(err, E_RESOURCE_EXHAUSTED,
                             "administrators have all of the %d sessions", SESSIONS_MAX);
        (void)str_copy(from, sizeof(from), most);
        drop_one(sessions, from);
    }
    return 0;
}

static void new_half(const struct sessions *sessions, char ret[SESSION_HALF_MAX])
{
    uint8_t bytes[HALF_BYTES];
    sessions->env->rng.fill(sessions->env->rng.self, bytes, sizeof(bytes));
    base64url_encode(bytes, sizeof(bytes), ret);
}

int session_open(struct sessions *sessions, const struct session_owner *owner,
                 struct session_keys *ret, struct error *err)
{
    char id[SESSION_ID_MAX], name[SHA256_HEX_BYTES];
    struct session session = {.until_wall_ms = wall_ms(sessions) + SESSION_LIFE_MS,
                              .number = ++sessions->last_number,
                              .admin = owner->admin};
    if (make_room(sessions, owner, err) < 0)
        return err->code;
    new_half(sessions, ret->cookie);
    new_half(sessions, ret->half);
    (void)str_printf(id, sizeof(id), "%s.%s", ret->cookie, ret->half);
    name_of(id, name);
    int rc = token_plain(owner->token, session.token);
    if (!rc)
        rc = str_copy(session.owner, sizeof(session.owner), owner->token_id);
    seal(id, (const uint8_t *)session.token, session.sealed);
    if (rc || put_session(sessions, name, &session))
        return error_set(err, E_RESOURCE_EXHAUSTED, "no session could be opened");
    (void)write_file(sessions);
    return 0;
}

const char *session_token(struct sessions *sessions, const char *id)
{
    char name[SHA256_HEX_BYTES];
    if (sessions->write_due_ms && now_ms(sessions) >= sessions->write_due_ms)
        (void)write_file(sessions);
    name_of(id, name);
    struct session *session = strmap_get(&sessions->all, name);
    if (session && session->until_wall_ms < wall_ms(sessions)) {
        session_close(sessions, id);
        session = NULL;
    }
    if (session && !session->token[0]) {
        seal(id, session->sealed, (uint8_t *)session->token);
        session->token[sizeof(session->token) - 1] = 0;
    }
    return session ? session->token : NULL;
}

void session_close(struct sessions *sessions, const char *id)
{
    char name[SHA256_HEX_BYTES];
    name_of(id, name);
    struct session *session = strmap_remove(&sessions->all, name);
    if (session)
        write_without_ended(sessions);
    free(session);
}
