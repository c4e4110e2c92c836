/* The agent of one node. It keeps the running workers equal to the desired state, serves them at a
 * socket, and reports. agent.c connects link and launcher to the driver. The same object
 * runs in production and under tests/sim; only env and launcher differ. Loop thread only. */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_end.h"
#include "agent/device/cores.h"
#include "agent/device/inventory.h"
#include "agent/membership.h"
#include "agent/supervisor/launcher.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/env/env.h"
#include "common/loop/loop.h"

struct agent;
struct agent_core;
struct namespaces;
struct users;

struct agent_options {         /* borrowed until agent_new returns, `log` for life */
    const char *name;          /* [a-z0-9][a-z0-9.-]{0,62} */
    const char *coordinator;   /* URL */
    const char *token;         /* of role agent */
    const char *hub_url;       /* address for workers: "ipc:///.../hub.sock" */
    const char *report_prefix; /* of the paths of sockets for programs' reports; NULL = none */
    const char *address;       /* address for other nodes */
    const char *interface;     /* network interface with that address; NULL, "" = unknown */
    const char *version;
    uint16_t port_first, port_last; /* the coordinator may lease these for MASTER_PORT */
    struct cores cores;             /* for pinning workers by their slots; copied */
    struct inventory inventory;     /* slots, cpus, memory, labels, gpus; copied */
    uint32_t worker_processes;      /* limit per worker, with threads; 0 = none */
    const char *const *environment; /* NULL-terminated "NAME=value" workers inherit (PATH, HOME) */
    const struct namespaces
        *namespaces;       /* for workers of other users; borrowed for life, NULL = none */
    struct users *users;   /* borrowed for life; NULL = workers run as the agent's user */
    const struct log *log; /* NULL = silent */
    void (*on_end)(void *arg, enum agent_end why); /* called once; the agent must not be freed
                                                    * inside */
    void *on_end_arg;
    struct membership_watch membership; /* from an earlier agent; copied */
};

/* Open the hub, adopt the launcher's existing workers, register in the background. */
int agent_new(const struct agent_options *options, struct env *env, struct loop *loop,
              struct launcher *launcher, struct agent **ret, struct error *err);

/* Like a crash: nothing is flushed, no worker is touched; the launcher is closed. */
void agent_free(struct agent *agent);

/* SIGTERM, grace, SIGKILL to all workers; a second call sends SIGKILL at once.
 * on_end(AGENT_END_STOPPED) follows when they have ended. */
void agent_stop_workers(struct agent *agent);

const char *agent_hub_url(const struct agent *agent);
uint64_t agent_incarnation(const struct agent *agent);
bool agent_registered(const struct agent *agent);
const struct agent_core *agent_core_of(const struct agent *agent); /* for checkers; read only */

#endif
