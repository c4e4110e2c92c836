/* Browser sessions: a random id in a cookie stands for a token. Kept in memory, so a restart of the
 * coordinator asks for the token again; only hashes of the ids are kept. Loop thread only.
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

int sessions_new(struct env *env, struct sessions **ret, struct error *err);
void sessions_free(struct sessions *sessions);

int session_open(struct sessions *sessions, const char *token, char ret_id[SESSION_ID_MAX],
                 struct error *err);
const char *session_token(struct sessions *sessions, const char *id); /* NULL: no such session */
void session_close(struct sessions *sessions, const char *id);

#endif
