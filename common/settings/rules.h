/* Rules between settings. A setting may have no effect because of another one (fsdp.prefetch under
 * strategy ddp), contradict another one (ddp.hook under zero2), or ask for what libworker does not
 * have. One table of rules, in rules.c, is used when a job is submitted and by the workers, so that
 * both have the same error. Pure; any thread. */
#ifndef SETTINGS_RULES_H
#define SETTINGS_RULES_H

#include "common/settings/setting.h"

enum { FINDING_TEXT_MAX = 320, FINDINGS_MAX = 48 };

struct finding {
    enum setting setting;
    int refused; /* E_INVALID_ARGUMENT, E_UNIMPLEMENTED: refused; 0: it has no effect */
    char text[FINDING_TEXT_MAX]; /* a sentence: the problem, the cause, the solution */
};

/* The caller. Before a program runs it is unknown what the program sets itself, and whether it uses
 * libworker. A job is therefore refused only for contradicting values and for what libworker does
 * not have, and warned about the rest. */
enum rules_for { RULES_FOR_JOB, RULES_FOR_WORKER };

/* `given` has each setting's value as text, NULL for the default. Returns the number of findings,
 * in the order of the table, at most one per setting. A default value is never a finding. */
int settings_check_rules(const char *const given[SETTINGS_COUNT], enum rules_for whom,
                         struct finding ret[FINDINGS_MAX]);

/* The first refusal, as an error with its code; 0 if there is none. ret_setting may be NULL. */
int settings_refused(const char *const given[SETTINGS_COUNT], enum rules_for whom,
                     enum setting *ret_setting, struct error *err);

#endif
