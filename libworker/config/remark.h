/* What was said and counts for nothing, or cannot be: settings that another one idles or
 * contradicts, variables that the program overrules or that are nearly the name of a setting. Pure
 * but for the environment callback; any thread.
 */
#ifndef CONFIG_REMARK_H
#define CONFIG_REMARK_H

#include "libworker/config/settings.h"

/* One sentence each to `tell`; the text is valid during the call. Variables are only looked at
 * where the environment can list them. */
void settings_remark(const struct settings *settings, const struct environment *environment,
                     void (*tell)(void *arg, const char *text), void *arg);

/* What contradicts itself or is not in this build is refused with what is wrong (the rules are
 * common/settings/judge.h's): WK_EINVAL, WK_EUNSUPPORTED. */
int settings_agree(const struct settings *settings, struct error *err);

#endif
