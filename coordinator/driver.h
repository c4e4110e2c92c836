/* Connects the pure core to the world: events in, one transaction per turn of the loop, then
 * answers.
 *
 *     driver_step ─► coordinator_step ─► actions ─┐   (any number of events in a turn)
 *     turn's end: EVENT_PASS for all of them      ┤
 *                 all STORE and RECORD ─► commit ─┴─► answers, wake-ups, reads
 *                                           └─ fails ─► every caller gets the error
 *                                                       the cluster is loaded from the store again
 *                                                       changes are refused
 *                                                       every second: the store is tried again
 *
 * Clients therefore never see what is not on disk. After a full disk has room again no operator is
 * needed.
 *
 * A pass can cost 100 ms in a large cluster, and one pass can free thousands of slots. After a pass
 * the next one waits at least as long as it took, so passes use at most half of the time. A job
 * that is submitted to a quiet queue is placed at once.
 *
 * Owned by the coordinator; loop thread only.
 */
#ifndef COORDINATOR_DRIVER_H
#define COORDINATOR_DRIVER_H

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/loop/loop.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/core/action.h"
#include "coordinator/core/event.h"
#include "coordinator/node_retention.h"
#include "coordinator/retention.h"
#include "coordinator/store/store.h"

enum {
    DRIVER_RETRY_MS = 1000, /* between attempts to write to a store that failed */
    DRIVER_LOOK_MS = 1000,  /* between checks of the store's file while nothing is written */
    DRIVER_MARK_MS = 10,    /* between marks of the store; the last one waits for the next check */
};

struct driver {
    struct env *env;
    struct loop *loop;
    struct store *store;
    const struct log *log;
    struct service *service; /* set by its owner before the first turn */
    struct cluster *cluster;
    struct actions actions;
    struct change *changes; /* to be written together with the actions */
    int changes_count, changes_capacity;
    struct loop_timer tick, retry, pass, look;
    int64_t pass_after_ms;   /* the next pass is made no earlier */
    int64_t pass_awaited_ms; /* when `pass` is due, if it is armed */
    int pass_gap_ms;         /* minimum time between two passes; 0 = none */
    struct {                 /* how long the parts of the present turn's end took */
        int64_t pass_ms, commit_ms;
    } took;
    int64_t mark_after_ms; /* the next mark of the store is written no earlier */
    struct retention retention;
    struct node_retention node_retention;
    const char *data_dir; /* the program's; outlives the driver */
    bool stepped;         /* in this turn: visible state may have changed */
    /* Called with each audit entry once it is durable; NULL = not called. `audited` has those of
     * the open transaction. */
    store_audit_fn on_audit;
    void *on_audit_arg;
    struct store_audit *audited;
    int audited_count, audited_capacity;
    bool clock_unsettled; /* at the start, on a full disk: the first retry adjusts the clock */
    bool refusing;
    bool unreadable; /* the store could not be loaded: reads are refused too */
    char why[256];   /* while refusing */
    int why_code;    /* RESOURCE_EXHAUSTED (full disk: waiting is useless) or UNAVAILABLE */
};

/* Zeroed memory becomes a driver with the stored cluster loaded; nothing has stepped yet. */
int driver_init(struct driver *driver, struct error *err);
void driver_fini(struct driver *driver);

/* Deliver EVENT_RESTORED and commit what follows from it. On failure nothing was changed. */
int driver_start(struct driver *driver, struct error *err);

/* The functions that service.h requires; `self` is the driver. */
struct service_host driver_host(struct driver *driver);

/* At the end of each turn (loop_on_turn_end). */
void driver_turn_end(void *arg); /* the driver */

/* After a slow turn (loop_on_slow_turn): one line of the log has the time of each stage. */
void driver_slow_turn(void *arg, const struct loop_turn *turn);

#endif
