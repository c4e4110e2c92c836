/* The options of comm_bootstrap (bootstrap.h). Read during the call only. */
#ifndef COMM_BOOTSTRAP_OPTIONS_H
#define COMM_BOOTSTRAP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { COMM_RUN_BYTES = 64 }; /* with the final 0 */

struct comm_bootstrap_options {
    int rank;
    int world;
    const char *master_addr;
    int master_port;
    const char *endpoint; /* of this rank's listener */
    const char *host;     /* identifies the machine; NULL = boot id and network namespace */
    const uint8_t *secret;
    const char *run;     /* name of this training, equal on all its ranks; NULL: it has none */
    bool port_is_shared; /* the launcher itself uses master_port, so no remark is needed */
    int timeout_ms;      /* 0 = 60 s */
    /* Called at once if master_port is in use. On the calling thread; may be NULL. */
    void (*remark)(void *arg, const char *text);
    void *remark_arg;
    /* Called every few milliseconds: true ends it with WK_EABORT. NULL: never. */
    bool (*cancelled)(void *arg);
    void *cancelled_arg;
};

#endif
