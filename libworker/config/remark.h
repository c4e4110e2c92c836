/* What was said and counts for nothing: settings that another one idles, variables that are nearly
 * the name of one. Pure but for the environment callback; any thread.
 */
#ifndef CONFIG_REMARK_H
#define CONFIG_REMARK_H

#include "libworker/config/settings.h"

/* One sentence each to `tell`; the text is valid during the call. Variables are only looked at
 * where the environment can list them. */
void settings_remark(const struct settings *settings, const struct environment *environment,
                     void (*tell)(void *arg, const char *text), void *arg);

#endif
