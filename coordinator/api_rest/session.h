/* Browser sessions. Two random halves replace a token, one in a cookie, one with the page
 * (visitor.h explains why); together they are the id of the session. Sessions outlive the
 * coordinator in DATA/sessions.json, which reveals no token. It contains the id's hash, and the
 * token sealed with the id, which only the browser has. A session is valid as long as its token,
 * which is checked in every request. Loop thread only. */
#ifndef API_REST_SESSION_H
#define API_REST_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/token.h"
#include "common/env/env.h"

enum {
    SESSIONS_MAX = 1000,
    SESSIONS_OF_TOKEN_MAX = 32, /* the one that ends soonest makes room */
    SESSION_LIFE_MS = 12 * 3600 * 1000,
    SESSION_HALF_MAX = 48, /* buffers with their NUL */
    SESSION_ID_MAX = 2 * SESSION_HALF_MAX,
};

struct session_owner {
    const char *token, *token_id; /* copied */
    bool admin;
};

struct session_keys {
    char cookie[SESSION_HALF_MAX], half[SESSION_HALF_MAX];
};

struct sessions;

/* An unreadable file has no sessions: people sign in again. `data_dir` NULL stores none. */
int sessions_new(struct env *env, const char *data_dir, struct sessions **ret, struct error *err);
void sessions_free(struct sessions *sessions);

/* While the file cannot be written a new session works until the coordinator ends. When there are
 * SESSIONS_MAX, the token with the most of them loses one, and administrators only to their own:
 * E_RESOURCE_EXHAUSTED if all are theirs. */
int session_open(struct sessions *sessions, const struct session_owner *owner,
                 struct session_keys *ret, struct error *err);
const char *session_token(struct sessions *sessions, const char *id); /* NULL: no such session */
/* It is removed from the file too. If that cannot be written the file is emptied, so the other
 * sessions would be lost in a restart, until a later call can write it. */
void session_close(struct sessions *sessions, const char *id);

#endif
