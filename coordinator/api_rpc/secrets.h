/* Secrets of tenants, sealed in memory as in the store. A value is opened only for an agent that
 * starts a worker (docs/secrets.md).
 *
 * The keys are from the environment, else from a file that is made with the first secret. When a
 * secret's key is missing the file is read again, so a restored file works at once. While a stored
 * secret's key is missing no value can be set: a new key must not be mixed with a lost one by
 * mistake.
 *
 * Owned by the service. Loop thread only.
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
    const char *key_text; /* keys from the environment instead of the file; NULL, "" = none */
};

struct secret_input { /* a value to set */
    const char *tenant, *name, *value;
    const char *by; /* name of a token */
    int64_t wall_ms;
};

int secrets_new(const struct secrets_options *options, struct secrets **ret, struct error *err);
void secrets_free(struct secrets *secrets); /* NULL is allowed */

/* Replace all by the stored secrets. */
int secrets_load(struct secrets *secrets, struct store *store, struct error *err);

/* By tenant, then name. Pointers are valid until the secret is changed. */
const struct store_secret *secrets_find(const struct secrets *secrets, const char *tenant,
                                        const char *name);
const struct store_secret *secrets_first(const struct secrets *secrets);
const struct store_secret *secrets_next(const struct secrets *secrets,
                                        const struct store_secret *secret);
int secrets_count(const struct secrets *secrets, const char *tenant);

/* True if the key it was sealed with is missing. */
bool secrets_lost(const struct secrets *secrets, const struct store_secret *secret);
int secrets_lost_count(const struct secrets *secrets);
/* Read the key file if a key is missing. */
void secrets_read_missing_keys(struct secrets *secrets);
bool secrets_opens(struct secrets *secrets, const struct store_secret *secret);

/* E_FAILED_PRECONDITION while keys are missing, E_RESOURCE_EXHAUSTED. Makes the key file if needed.
 */
int secrets_set(struct secrets *secrets, const struct secret_input *input, struct error *err);
bool secrets_remove(struct secrets *secrets, const char *tenant, const char *name);

/* Append the value. E_FAILED_PRECONDITION, E_DATA_LOSS as seal_open, with a solution. */
int secrets_open(struct secrets *secrets, const struct store_secret *secret, struct buf *out,
                 struct error *err);

/* Changes with each change of the value, as long as the service lives. */
uint64_t secrets_revision(const struct store_secret *secret);

void secrets_used(const struct store_secret *secret, int64_t wall_ms);
/* Call `fn` for each use that is not stored yet; it then counts as stored. */
void secrets_flush_uses(struct secrets *secrets, store_secret_fn fn, void *arg);

/* Seal every value again, with a new key in the file or the first key from the environment. Old
 * keys stay in the file until secrets_rekeyed confirms that the sealed values are durable.
 * E_FAILED_PRECONDITION while keys are missing. Changes nothing on failure. */
int secrets_rekey(struct secrets *secrets, struct error *err);
void secrets_rekeyed(struct secrets *secrets);

const char *secrets_key_place(const struct secrets *secrets); /* for messages */

#endif
