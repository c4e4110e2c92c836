#include "cli/job_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/client.h"
#include "common/base/str.h"

bool job_loss_known(const Muster__Job *job)
{
    return job->loss_known_case == MUSTER__JOB__LOSS_KNOWN_LOSS;
}

bool job_rate_known(const Muster__Job *job)
{
    return job->tokens_per_second_known_case ==
           MUSTER__JOB__TOKENS_PER_SECOND_KNOWN_TOKENS_PER_SECOND;
}

const char *job_step_text(const Muster__Job *job, char ret[FORMAT_MAX])
{
    if (job->step_known_case != MUSTER__JOB__STEP_KNOWN_STEP)
        str_copy(ret, FORMAT_MAX, "-");
    else if (job->total_steps_known_case == MUSTER__JOB__TOTAL_STEPS_KNOWN_TOTAL_STEPS)
        snprintf(ret, FORMAT_MAX, "%" PRIu64 "/%" PRIu64, job->step, job->total_steps);
    else
        snprintf(ret, FORMAT_MAX, "%" PRIu64, job->step);
    return ret;
}

const char *job_loss_text(const Muster__Job *job, char ret[FORMAT_MAX])
{
    if (job_loss_known(job))
        snprintf(ret, FORMAT_MAX, "%.4f", job->loss);
    else
        str_copy(ret, FORMAT_MAX, "-");
    return ret;
}

const char *job_rate_text(const Muster__Job *job, char ret[FORMAT_MAX])
{
    if (job_rate_known(job))
        return count_text(job->tokens_per_second, ret);
    str_copy(ret, FORMAT_MAX, "-");
    return ret;
}
