/* The terminals (terminal.h) of one launcher: starts them, counts them, and ends them with their
 * workers. Loop thread only. */
#ifndef SUPERVISOR_TERMINALS_H
#define SUPERVISOR_TERMINALS_H

#include <sys/types.h>

#include "agent/core/process.h"
#include "agent/supervisor/terminal.h"
#include "common/base/list.h"
#include "common/env/proc_spawn.h"
#include "common/loop/loop.h"

struct terminals {
    struct loop *loop;
    struct list all; /* of struct terminal */
    int count;
    char bytes[TERMINAL_READ_BYTES]; /* of one read */
};

struct terminal_place { /* where one opens; borrowed for the call */
    const struct worker_key *key;
    int64_t user; /* uid of the worker */
    /* Start the keeper in the worker's namespaces with these descriptors. */
    int (*spawn)(void *arg, const struct proc_fd *fds, size_t count, struct proc *ret,
                 struct error *err);
    void *arg;
};

void terminals_init(struct terminals *terminals, struct loop *loop);

/* Frees all, without a callback; their processes are hung up. Zeroed memory is allowed. */
void terminals_fini(struct terminals *terminals);

/* As launcher.open_terminal and open_connection. */
int terminals_open(struct terminals *terminals, const struct terminal_place *place,
                   const struct terminal_wish *wish, const struct terminal_events *events,
                   struct terminal **ret, struct error *err);
int terminals_connect(struct terminals *terminals, const struct terminal_place *place,
                      uint16_t port, const struct terminal_events *events, struct terminal **ret,
                      struct error *err);

/* The keepers see it themselves; this is for connections. */
void terminals_end(struct terminals *terminals, const struct worker_key *key);

#endif
