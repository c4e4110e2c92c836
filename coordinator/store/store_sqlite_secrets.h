/* Secrets of tenants in store_sqlite. Only for store_sqlite. */
#ifndef STORE_STORE_SQLITE_SECRETS_H
#define STORE_STORE_SQLITE_SECRETS_H

#include "coordinator/store/store.h"

int store_sqlite_put_secret(struct store *, const struct store_secret *, struct error *);
int store_sqlite_remove_secret(struct store *, const char *tenant, const char *name,
                               struct error *);
int store_sqlite_list_secrets(struct store *, store_secret_fn, void *arg, struct error *);

#endif
