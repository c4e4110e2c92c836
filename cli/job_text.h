/* Figures of a job as tables and lines show them; "-" where nothing is known. No state. */
#ifndef CLI_JOB_TEXT_H
#define CLI_JOB_TEXT_H

#include <stdbool.h>

#include "common/base/parse.h"
#include "proto/job.pb-c.h"

bool job_loss_known(const Muster__Job *job);
bool job_rate_known(const Muster__Job *job);

const char *job_step_text(const Muster__Job *job, char ret[FORMAT_MAX]); /* "12/100", "12" */
const char *job_loss_text(const Muster__Job *job, char ret[FORMAT_MAX]); /* "1.2345" */
const char *job_rate_text(const Muster__Job *job, char ret[FORMAT_MAX]); /* "1.2k" tokens/s */

#endif
