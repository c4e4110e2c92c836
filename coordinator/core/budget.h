/* The cost of a failure: the restart budget, what refunds it, backoff, and when a job ends because
 * of it.
 *
 * A program that reports steps makes progress with each new step. For a program that reports none,
 * run time replaces it. REFUND_AFTER_MS as a whole gang refund the budget. Equal failures are a
 * crash loop only if each was within CRASH_SOON_MS of its start.
 *
 * A program's own failure is retried only if the spec asks for it (restart.on_failure, ADR 10). The
 * first report of a failure may be from a victim: a rank that exits because its peer's node died is
 * reported seconds before the node is lost. A job that stops for that reason therefore waits until
 * all of its workers have ended, and restarts if one of them was killed from outside. Similarly a
 * charge is refunded if a node is lost before the charged workers have ended.
 */
#ifndef CORE_BUDGET_H
#define CORE_BUDGET_H

#include "coordinator/core/failure.h"
#include "coordinator/core/step_state.h"
#include "coordinator/model/reason.h"

/* Charge the failure if it is chargeable. False: the job ends with failure->reason. */
bool budget_charge(struct step *step, struct job *job, struct failure *failure);
/* Keep the text of the cause, but replace its kind by the consequence. */
void budget_explain(struct reason *reason, enum reason_kind kind, const struct job *job);
/* Peers reported this rank lost, and this is how it ended. True if the job must end because of it;
 * a hint is added then. */
bool budget_ends(struct job *job, const struct exit_info *exit, struct reason *reason);
/* The worker ended by our own signal: SIGTERM, or SIGKILL after its grace time. */
bool budget_ended_by_us(const struct step *step, const struct job *job,
                        const struct worker *worker);
/* A worker has ended. If it was killed from outside, the failure of its job may be excused. */
void budget_note_exit(struct step *step, struct job *job, const struct worker *worker);
/* All workers ended: true if the job starts again after all; that restart is then charged. */
bool budget_forgive(struct step *step, struct job *job);
/* The program has reported steps, or will: for it progress is a new step. For others progress is
 * time. */
bool budget_counts_steps(const struct job *job);

#endif
