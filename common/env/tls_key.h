/* Makes keys and certificates as files (tls_file.h). Files have mode 0600 and are replaced by
 * rename: readers see the old one or the new one. Any thread. */
#ifndef ENV_TLS_KEY_H
#define ENV_TLS_KEY_H

#include "common/base/error.h"
#include "common/env/tls_file.h"

/* Make a cluster key at `path`. `old` is the file of the key it replaces: the old key also signs
 * the new certificate, so that clients that know the old pin accept it. */
int tls_make_cluster_key(const char *path, const char *old, struct error *err);

/* Make a server key at `path`, signed by the cluster key and valid for TLS_SERVER_DAYS from now.
 * `names`: host names and addresses for browsers, ended by NULL. NULL: those of the present
 * certificate at `path`, if there is one. */
int tls_make_server_key(const char *path, const char *cluster_path, const char *const *names,
                        struct error *err);

/* Make a key for one node at `path`; its certificate has `name` for people to read. */
int tls_make_node_key(const char *path, const char *name, struct error *err);

#endif
