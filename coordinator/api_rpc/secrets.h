/* Secrets of tenants as the coordinator has them: sealed, as the store does. A value is opened only
 * to be handed to an agent that starts a worker (docs/secrets.md).
 *
 * The keys come from the environment, else from a file that is made with the first secret. The file
 * is read again whenever a secret's key is missing, so a file that is put back counts at once.
 * While a stored secret's key is missing no value is set: a new key must not be mixed with a lost
 * one by mistake.
 *
 * Who owns: the service. Loop thread only.
 */
#ifndef API_RPC_SECRETS_H
#define API_RPC_SECRETS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "coordinator/store/store.h"

struct env;
struct secrets;

struct secrets_options {
    struct env *env;
    const char *key_path; /* absolute */
    const char *key_text; /* keys from the environment in place of the file; NULL, "" = none */
};

struct secret_input { /* what is to be set */
    const char *tenant, *name, *value;
    const char *by; /* name of a token */
    int64_t wall_ms;
};

int secrets_new(const struct secrets_options *options, struct secrets **ret, struct error *err);
void secrets_free(struct secrets *secrets); /* NULL is fine */

/* Forget what is here and take what is stored. */
int secrets_load(struct secrets *secrets, struct store *store, struct error *err);

/* By tenant, then name. Pointers are good until the secret is changed. */
const struct store_secret *secrets_find(const struct secrets *secrets, const char *tenant,
                                        const char *name);
const struct store_secret *secrets_first(const struct secrets *secrets);
const struct store_secret *secrets_next(const struct secrets *secrets,
                                        const struct store_secret *secret);
int secrets_count(const struct secrets *secrets, const char *tenant);

/* The key that it was sealed with is not here. */
bool secrets_lost(const struct secrets *secrets, const struct store_secret *secret);
int secrets_lost_count(const struct secrets *secrets);
/* Read the file of keys if one is missing. */
void secrets_look(struct secrets *secrets);
bool secrets_opens(struct secrets *secrets, const struct store_secret *secret);

/* E_FAILED_PRECONDITION while keys are missing, E_RESOURCE_EXHAUSTED. Makes the file of keys. */
int secrets_set(struct secrets *secrets, const struct secret_input *input, struct error *err);
bool secrets_remove(struct secrets *secrets, const char *tenant, const char *name);

/* Appends the value; E_FAILED_PRECONDITION, E_DATA_LOSS as seal_open, with what to do. */
int secrets_open(struct secrets *secrets, const struct store_secret *secret, struct buf *out,
                 struct error *err);

/* Another number after each change of the value, for as long as the service lives. */
uint64_t secrets_revision(const struct store_secret *secret);

void secrets_used(const struct store_secret *secret, int64_t wall_ms);
/* `fn` for each whose last use is not stored yet; they count as stored. */
void secrets_flush_uses(struct secrets *secrets, store_secret_fn fn, void *arg);

/* Seal every value again: with a new key in the file, or with the first of those from the
 * environment. The old keys stay in the file until secrets_rekeyed says that the sealed values are
 * durable. E_FAILED_PRECONDITION while there are lost ones. Changes nothing on failure. */
int secrets_rekey(struct secrets *secrets, struct error *err);
void secrets_rekeyed(struct secrets *secrets);

const char *secrets_key_place(const struct secrets *secrets); /* for people */

#endif
