/* Tokens, tenants and the audit trail in store_sqlite. Only for store_sqlite. */
#ifndef STORE_STORE_SQLITE_ACCESS_H
#define STORE_STORE_SQLITE_ACCESS_H

#include "coordinator/store/store.h"

int store_sqlite_put_token(struct store *, const struct store_token *, struct error *);
int store_sqlite_put_tenant(struct store *, const struct store_tenant *, struct error *);
int store_sqlite_put_audit(struct store *, const struct store_audit *, struct error *);
int store_sqlite_list_tokens(struct store *, store_token_fn, void *arg, struct error *);
int store_sqlite_list_tenants(struct store *, store_tenant_fn, void *arg, struct error *);
int store_sqlite_list_audit(struct store *, const struct store_events_query *, store_audit_fn,
                            void *arg, struct error *);

#endif
