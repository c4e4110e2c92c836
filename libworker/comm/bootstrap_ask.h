/* The ranks above 0 of a bootstrap. */
#ifndef COMM_BOOTSTRAP_ASK_H
#define COMM_BOOTSTRAP_ASK_H

#include "common/base/error.h"
#include "libworker/comm/bootstrap_options.h"
#include "libworker/comm/table.h"

/* As comm_bootstrap, with checked options. */
int bootstrap_ask(const struct comm_bootstrap_options *options, struct comm_table *ret,
                  struct error *err);

#endif
