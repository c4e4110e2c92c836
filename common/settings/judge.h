/* What settings say of each other: some count for nothing, because another one is not what they go
 * with (fsdp.prefetch under strategy ddp), some contradict each other (ddp.hook under zero2) and
 * some ask for what libworker does not have. One table of rules, in judge.c, for whoever takes a
 * job and for the workers, so that both say the same sentence. Pure; any thread.
 */
#ifndef SETTINGS_JUDGE_H
#define SETTINGS_JUDGE_H

#include "common/settings/setting.h"

enum { FINDING_TEXT_MAX = 320, FINDINGS_MAX = 48 };

struct finding {
    enum setting setting;
    int refused; /* E_INVALID_ARGUMENT, E_UNIMPLEMENTED: it cannot be so; 0: it does nothing */
    char text[FINDING_TEXT_MAX]; /* a sentence: what, why, what to set */
};

/* Who asks: before a program runs nobody knows what it sets itself, nor whether it is libworker's.
 * So a job is refused for what it says twice differently and for what libworker does not have, and
 * warned of the rest. */
enum judge { JUDGE_JOB, JUDGE_WORKER };

/* `given` has each setting's value as text, NULL where nobody said one and the default holds.
 * Returns how many findings there are, in the order of the table, one of a setting at most; a value
 * that is the default is never one. */
int settings_judge(const char *const given[SETTINGS_COUNT], enum judge judge,
                   struct finding ret[FINDINGS_MAX]);

/* The first that is refused, as an error with its code; 0 if none is. ret_setting may be NULL. */
int settings_refused(const char *const given[SETTINGS_COUNT], enum judge judge,
                     enum setting *ret_setting, struct error *err);

#endif
