/* Two tenants that know nothing of one another, and everybody who may call: red runs on the only
 * slot, blue waits for it. For tests of who may do what; one test at a time.
 */
#ifndef COORDINATOR_API_ACCESS_WORLD_H
#define COORDINATOR_API_ACCESS_WORLD_H

#include "tests/unit/coordinator_api/world.h"

struct access_made {
    char operator[TOKEN_MAX], red[TOKEN_MAX], blue[TOKEN_MAX], viewer[TOKEN_MAX];
    char revoked[TOKEN_MAX], expired[TOKEN_MAX];
    char red_job[32], blue_job[32];
};
extern struct access_made made;
extern char *words[]; /* a command */

void access_init(void);
void access_fini(void);

/* A call of the Coordinator service; its refusal's code (0 = none). */
void ask(const char *method, const void *message, const char *token, struct answer *ret);
int refusal(const char *method, const void *message, const char *token, struct error *err);

/* By the admin; each aborts the test if it fails. */
void make_tenant(const char *name);
void make_token(const char *name, const char *role, const char *tenant, char ret[TOKEN_MAX]);
void revoke(const char *id);

void submit(const char *name, const char *tenant, const char *token, struct answer *ret);
void must_submit(const char *name, const char *token, char ret[32]);

/* The very same answer for what is theirs as for what is not there, so that nobody learns which ids
 * there are. `id` is a field of the message. */
void same_as_absent(const char *method, void *message, char **id, const char *token,
                    const char *theirs);
void newest_entry(struct store_audit *ret); /* of the audit trail */

#endif
