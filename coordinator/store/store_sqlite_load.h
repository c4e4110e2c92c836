/* Loading the jobs of verbs->load. Only for store_sqlite. */
#ifndef STORE_STORE_SQLITE_LOAD_H
#define STORE_STORE_SQLITE_LOAD_H

#include "coordinator/store/store_sqlite_state.h"

int store_sqlite_load_jobs(struct store_sqlite *store, const struct store_loader *loader,
                           struct cluster *cluster, struct error *err);

#endif
