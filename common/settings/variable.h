/* Environment variables with a meaning in Muster: those it sets for each worker, those of settings,
 * those its programs read. Every other name that begins with MUSTER_ is a mistake, because nothing
 * reads it. Constant data; any thread. */
#ifndef SETTINGS_VARIABLE_H
#define SETTINGS_VARIABLE_H

#include <stdbool.h>

#include "common/settings/setting.h"

/* True if each worker gets it from its agent, so a job cannot set it. */
bool variable_reserved(const char *name);

/* The setting of this variable, or -1. */
int variable_setting(const char *name);

/* True if `name` begins with MUSTER_ and is unknown. ret_meant gets the nearest name, "" if none is
 * near. */
bool variable_unknown(const char *name, char ret_meant[SETTING_ENV_MAX]);

#endif
