/* The immediate output of a step: records for the event log, and the answer to its request. */
#ifndef CORE_ANSWER_H
#define CORE_ANSWER_H

#include "coordinator/core/step_state.h"

/* Append to the event log, about a job (may be NULL) and a node (may be NULL). */
struct record *step_record(struct step *step, const char *kind, const struct job *job,
                           const char *node, const struct reason *reason);
/* Answer the event's request, if it has one. */
void step_answer_job(struct step *step, const struct job *job, bool repeated);
void step_answer_node(struct step *step, const char *node);
void step_refuse(struct step *step, const struct error *err);

#endif
