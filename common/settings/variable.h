/* Names of environment variables that mean something to Muster: those it gives each worker itself,
 * those of settings, those its programs read. Every other name that begins with MUSTER_ is a slip,
 * as nothing will ever read it. Constant data; any thread.
 */
#ifndef SETTINGS_VARIABLE_H
#define SETTINGS_VARIABLE_H

#include <stdbool.h>

#include "common/settings/setting.h"

/* Given to each worker by its agent: a job cannot choose it. */
bool variable_reserved(const char *name);

/* The setting whose variable this is, or -1. */
int variable_setting(const char *name);

/* Whether `name` begins with MUSTER_ and is no variable of ours. The one that was probably meant
 * goes to ret_meant, "" if none is near. */
bool variable_unknown(const char *name, char ret_meant[SETTING_ENV_MAX]);

#endif
