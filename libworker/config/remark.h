/* Settings without effect, or impossible ones: settings that another one makes useless or
 * contradicts, variables that the program overrides, and variables with nearly a setting's name.
 * Pure except for the environment callback; any thread. */
#ifndef CONFIG_REMARK_H
#define CONFIG_REMARK_H

#include "libworker/config/settings.h"

/* Call `tell` with one sentence at a time, valid during the call. Variables are checked only
 * if the environment can list them. */
void settings_remark(const struct settings *settings, const struct environment *environment,
                     void (*tell)(void *arg, const char *text), void *arg);

/* Refuse contradictions and settings missing in this build, with the reason (the rules are in
 * common/settings/rules.h): WK_EINVAL, WK_EUNSUPPORTED. */
int settings_agree(const struct settings *settings, struct error *err);

#endif
