/* Connects the agent's pure core to the world, as coordinator/driver.h does. Each event is one
 * step; its actions are performed at once, in order. Owned by the agent; loop thread only. */
#ifndef AGENT_DRIVER_H
#define AGENT_DRIVER_H

#include <stdbool.h>

#include "agent/agent_end.h"
#include "agent/core/event.h"
#include "agent/core/step.h"
#include "agent/figures.h"
#include "agent/link/coordinator_link.h"
#include "agent/link/report_socket.h"
#include "agent/link/worker_socket.h"
#include "agent/outbox.h"
#include "agent/refused.h"
#include "agent/report.h"
#include "agent/starter.h"
#include "agent/supervisor/launcher.h"
#include "agent/supervisor/py_spy.h"
#include "common/base/log.h"
#include "common/loop/loop.h"

struct agent_driver { /* the first members are set by its owner */
    const char *node;
    struct loop *loop;
    struct clock clock;
    const struct log *log;
    struct agent_core *core;
    struct launcher *launcher;
    struct coordinator_link *link;
    struct worker_socket *socket;
    struct report_socket *reports;
    struct outbox *outbox;
    struct figures *figures;
    struct gpu_watch *gpus; /* NULL = there are none */
    struct py_spy *spy;
    struct starter starter;
    void (*on_end)(void *arg, enum agent_end why); /* called once; NULL = not called */
    void *on_end_arg;
    struct report report;
    struct loop_timer tick_timer, end_timer;
    struct refused_start *refused; /* while actions were performed */
    bool stepping, stopping, stopped, ended;
};

/* Call it after these are set, before the first step. */
void agent_driver_init(struct agent_driver *driver);
void agent_driver_fini(struct agent_driver *driver); /* before the link; zeroed memory is allowed */

/* Step with this event now; its time is set here. Never from inside a step. */
void agent_driver_step(struct agent_driver *driver, struct agent_event *event);

/* End all workers, then the agent; the second time at once. */
void agent_driver_stop(struct agent_driver *driver);
void agent_driver_end(struct agent_driver *driver, enum agent_end why);

#endif
