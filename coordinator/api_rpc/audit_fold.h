/* Folds repeated entries, so that the audit trail keeps room for important ones however often a
 * caller repeats something.
 *
 *       a refusal            the first of each (token, method, result) in a minute is an entry
 *       an unknown token     the first of each address in a minute
 *       a member's changes   the first 60 of each (token, method) in a minute
 *       administrators'      each is an entry
 *
 * Further entries become one entry at the minute's end, with their count and the last of them. A
 * crash loses the present minute's count. Owned by the service; loop thread only.
 */
#ifndef API_RPC_AUDIT_FOLD_H
#define API_RPC_AUDIT_FOLD_H

#include <stdbool.h>

#include "coordinator/store/store.h"

enum {
    AUDIT_FOLD_MS = 60000,
    AUDIT_CHANGES_FREE = 60,   /* of a member's token and method, in a minute */
    AUDIT_FOLDS_MAX = 4096,    /* kinds counted separately in a minute; others together */
    AUDIT_STRANGERS_MAX = 256, /* of these, addresses without a valid token */
};

struct audit_folds;

int audit_folds_new(struct audit_folds **ret, struct error *err);
void audit_folds_free(struct audit_folds *folds); /* NULL is allowed */

/* True: it was counted, and needs no entry of its own. */
bool audit_fold(struct audit_folds *folds, const struct store_audit *entry);
bool audit_folds_any(const struct audit_folds *folds);

/* The minute is over: call `fn` for each folded entry, then clear all. */
void audit_folds_flush(struct audit_folds *folds, int64_t wall_ms, store_audit_fn fn, void *arg);

#endif
