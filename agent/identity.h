/* An agent's credentials and its cluster, in its data folder:
 *
 *       DIR/node.pem      the node's key, made at the first start (common/env/tls_key.h)
 *       DIR/cluster.pin   the pin of the cluster's key, from the token it joined with
 *
 * The token is needed only to join. After that the coordinator identifies the node by its key.
 */
#ifndef AGENT_IDENTITY_H
#define AGENT_IDENTITY_H

#include "common/base/error.h"
#include "common/base/token.h"
#include "common/env/net_url.h"

enum { IDENTITY_TOKEN_MAX = 512 };

struct identity {
    char key[NET_KEY_PATH_MAX];
    char pin[TOKEN_PIN_LENGTH + 1];
    char token[TOKEN_TEXT_MAX]; /* "" = none */
};

/* Read the token: given directly, in a file, or in MUSTER_TOKEN; "" if there is none. */
int identity_read_token(const char *token, const char *path, char ret[IDENTITY_TOKEN_MAX],
                        struct error *err);

/* `token` "" = none: the stored pin is used. Makes and stores what is new. */
int identity_open(const char *dir, const char *name, const char *token, struct identity *ret,
                  struct error *err);

#endif
