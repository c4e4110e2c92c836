/* Browser sessions: a random id in a cookie stands for a token. They outlive the coordinator in
 * DATA/sessions.json, from which no token can be read: it holds the id's hash, and the token sealed
 * with the id, which only the browser has. A session is as good as its token, which is looked at in
 * every request. Loop thread only.
 */
#ifndef API_REST_SESSION_H
#define API_REST_SESSION_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/base/token.h"
#include "common/env/env.h"

enum {
    SESSIONS_MAX = 1000, /* the one that ends soonest makes room */
    SESSION_LIFE_MS = 12 * 3600 * 1000,
    SESSION_ID_MAX = 48, /* buffer with its NUL */
};

struct sessions;

/* A file that cannot be read holds no sessions: people sign in again. `data_dir` NULL keeps none.
 */
int sessions_new(struct env *env, const char *data_dir, struct sessions **ret, struct error *err);
void sessions_free(struct sessions *sessions);

/* A session that cannot be written works until the coordinator ends. */
int session_open(struct sessions *sessions, const char *token, char ret_id[SESSION_ID_MAX],
                 struct error *err);
const char *session_token(struct sessions *sessions, const char *id); /* NULL: no such session */
void session_close(struct sessions *sessions, const char *id);

#endif
