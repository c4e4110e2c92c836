/* The end of a worker: asked for, reported by the launcher, or without a start. Core only. */
#ifndef AGENT_STOP_H
#define AGENT_STOP_H

#include "agent/core/worker.h"

void agent_worker_stop(struct agent_worker *worker, int64_t now_ms, struct agent_actions *ret);
/* SIGKILL did not end all of it: report it, and keep its slots occupied. */
void agent_worker_set_stuck(struct agent_worker *worker, const struct worker_stuck *stuck,
                            int64_t now_ms, struct agent_actions *ret);
void agent_worker_end(struct agent_worker *worker, const struct worker_exit *exit,
                      struct agent_actions *ret);
/* The launcher could not start it, or its slots cannot be had: `code` of agent_start_code. */
void agent_worker_fail_start(struct agent_worker *worker, int code, const char *why,
                             struct agent_actions *ret);
/* It never ran and never will. It becomes an exited worker like any other, so the coordinator needs
 * no second kind of report. */
void agent_worker_end_unstarted(struct agent_worker *worker, const char *why,
                                struct agent_actions *ret);

#endif
