/* The Unix users of workers. Under an agent that runs as root every tenant has a user of its own:
 * two tenants on one node cannot read, signal or trace each other. The agent's own user is never a
 * tenant's. docs/adr/0012 has the reasons. Reads the system's users and one file of its own; loop
 * thread.
 *
 *   --worker-users FILE   a line per tenant: TENANT USER. "*" as tenant: any other. "*" as user:
 *                         the user named like the tenant, except system users
 *   --worker-uids A-B     a tenant missing in the file gets a uid of this range for ever:
 *                         DATA/uids stores it
 *   --worker-user USER    all tenants share one user
 *   --allow-root-workers  all run as root
 *
 * An agent that is not root runs all workers as itself.
 */
#ifndef AGENT_USERS_H
#define AGENT_USERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/core/launch.h"
#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/env/env.h"

enum {
    USERS_TENANTS_MAX = 4096, /* limit on stored uids of one node, and on lines of the file */
    USERS_FILE_MAX_BYTES = 1 << 20,
    USERS_SYSTEM_UID_MAX = 999, /* a tenant's name never selects a system user */
    USERS_UID_MIN = 1000,
};

struct users_options { /* NULL: not set */
    const char *user;  /* --worker-user */
    const char *table; /* --worker-users */
    const char *uids;  /* --worker-uids */
    bool allow_root;
    const char *dir; /* DATA: absolute */
};

struct users {
    struct arena arena;
    const struct disk *disk; /* borrowed */
    const char *dir;
    bool change;                /* workers run as other users than the agent */
    struct launch_user *common; /* of all tenants; NULL = each has its own */
    struct users_row *rows;     /* of the file, in order */
    int rows_count;
    uid_t first, last; /* of the range; last 0 = none */
    struct users_uid *given;
    int given_count;
    const char *lacks; /* isolation that this way of running workers lacks; "" = none */
};

/* E_INVALID_ARGUMENT for contradicting options, and for root without any of them. */
int users_init(struct users *users, const struct users_options *options, const struct disk *disk,
               struct error *err);
void users_fini(struct users *users);

/* The user for a tenant: texts in `arena`. *ret is NULL for the agent's own user. If the tenant
 * gets a new uid, that is durable before this returns, and its home exists. */
int users_find(struct users *users, const char *tenant, struct arena *arena,
               const struct launch_user **ret, struct error *err);

#endif
