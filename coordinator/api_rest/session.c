#include "coordinator/api_rest/session.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hex.h"
#include "common/base/map.h"
#include "common/base/sha256.h"
#include "common/base/str.h"

enum { ID_BYTES = 32 };

struct session {
    char token[TOKEN_MAX];
    int64_t until_ms;
};

struct sessions {
    struct env *env;
    struct strmap all; /* by hash of the id, in hex */
};

int sessions_new(struct env *env, struct sessions **ret, struct error *err)
{
    *ret = calloc(1, sizeof **ret);
    if (!*ret)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    (*ret)->env = env;
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

static void make_room(struct sessions *sessions)
{
    while (strmap_count(&sessions->all) >= SESSIONS_MAX) {
        struct map_entry *first = strmap_first(&sessions->all);
        for (struct map_entry *e = first; e; e = map_next(e))
            if (((struct session *)e->value)->until_ms < ((struct session *)first->value)->until_ms)
                first = e;
        free(strmap_remove(&sessions->all, first->name));
    }
}

int session_open(struct sessions *sessions, const char *token, char ret_id[SESSION_ID_MAX],
                 struct error *err)
{
    uint8_t id[ID_BYTES];
    char name[SHA256_HEX_BYTES];
    struct session *session = calloc(1, sizeof *session);
    sessions->env->rng.fill(sessions->env->rng.self, id, sizeof id);
    base64url_encode(id, sizeof id, ret_id);
    name_of(ret_id, name);
    make_room(sessions);
    if (!session || str_copy(session->token, sizeof session->token, token) < 0 ||
        strmap_set(&sessions->all, name, session, NULL) < 0) {
        free(session);
        return error_set(err, E_RESOURCE_EXHAUSTED, "no session could be opened");
    }
    session->until_ms = now_ms(sessions) + SESSION_LIFE_MS;
    return 0;
}

const char *session_token(struct sessions *sessions, const char *id)
{
    char name[SHA256_HEX_BYTES];
    name_of(id, name);
    const struct session *session = strmap_get(&sessions->all, name);
    if (session && session->until_ms < now_ms(sessions)) {
        session_close(sessions, id);
        session = NULL;
    }
    return session ? session->token : NULL;
}

void session_close(struct sessions *sessions, const char *id)
{
    char name[SHA256_HEX_BYTES];
    name_of(id, name);
    free(strmap_remove(&sessions->all, name));
}
