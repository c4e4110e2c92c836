/* The key that a program shows: a key file (tls_file.h), read again after it was replaced. Shared
 * between threads. */
#ifndef ENV_TLS_IDENTITY_H
#define ENV_TLS_IDENTITY_H

#include "common/base/error.h"

struct tls_identity;

/* `path` NULL: without a key, for clients. If the file is later replaced by an unreadable one, the
 * old content stays in use. */
int tls_identity_new(const char *path, struct tls_identity **ret, struct error *err);
void tls_identity_free(struct tls_identity *identity); /* sessions may outlive it; NULL allowed */

#endif
