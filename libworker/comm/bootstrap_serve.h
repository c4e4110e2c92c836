/* Rank 0 of a bootstrap. */
#ifndef COMM_BOOTSTRAP_SERVE_H
#define COMM_BOOTSTRAP_SERVE_H

#include "common/base/error.h"
#include "libworker/comm/bootstrap_options.h"
#include "libworker/comm/table.h"

/* As comm_bootstrap, with checked options. */
int bootstrap_serve(const struct comm_bootstrap_options *options, struct comm_table *ret,
                    struct error *err);

#endif
