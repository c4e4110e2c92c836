/* Names and addresses of this machine for a certificate: localhost, the machine's name, the
 * administrator's additions, and the address REST listens on. If that is any address, those of the
 * machine's interfaces. */
#ifndef DAEMON_OWN_NAMES_H
#define DAEMON_OWN_NAMES_H

#include "common/env/tls_file.h"

struct own_names {
    char texts[TLS_NAMES_MAX][TLS_NAME_MAX];
    const char *all[TLS_NAMES_MAX]; /* ended by NULL */
    int count;
};

/* `host` is the listening address; `more` is ended by NULL. Names beyond TLS_NAMES_MAX - 2 are left
 * out. */
void own_names_collect(const char *host, const char *const *more, struct own_names *ret);

#endif
