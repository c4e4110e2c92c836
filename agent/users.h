/* Whom the workers of each tenant run as. An agent of root's gives every tenant a Unix user of its
 * own, so that two tenants on one node cannot read, signal or trace each other; it never gives them
 * its own. docs/adr/0012 has why. Reads the system's users and one file of its own; loop thread.
 *
 *   --worker-users FILE   a line per tenant: TENANT USER. "*" as tenant: any other. "*" as user:
 *                         the user named like the tenant, if it is not one of the system's own
 *   --worker-uids A-B     tenants that the file does not name get a uid of this range, which stays
 *                         theirs: DATA/uids remembers it
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
    USERS_TENANTS_MAX = 4096, /* that one node remembers uids of, or a file names */
    USERS_FILE_MAX_BYTES = 1 << 20,
    USERS_SYSTEM_UID_MAX = 999, /* a tenant's name does not make it one of the system's users */
    USERS_UID_MIN = 1000,
};

struct users_options { /* NULL: not given */
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
    bool change;                /* workers run as others than the agent */
    struct launch_user *common; /* of all tenants, NULL = each has its own */
    struct users_row *rows;     /* of the file, in its order */
    int rows_count;
    uid_t first, last; /* of the range; last 0 = none */
    struct users_uid *given;
    int given_count;
    const char *lacks; /* what this way of running workers does not keep apart; "" = nothing */
};

/* E_INVALID_ARGUMENT for options that contradict each other, and for root without any of them. */
int users_init(struct users *users, const struct users_options *options, const struct disk *disk,
               struct error *err);
void users_fini(struct users *users);

/* Whom to run as: texts in `arena`. *ret is NULL where it is the agent's own user. For a tenant
 * that is given a uid now, that is durable before this returns, and its home is there. */
int users_find(struct users *users, const char *tenant, struct arena *arena,
               const struct launch_user **ret, struct error *err);

#endif
