/* The one rule for names of nodes, jobs, tenants, tokens and secrets: [a-z0-9][a-z0-9.-]{0,62}.
 * Pure, any thread.
 */
#ifndef BASE_NAME_H
#define BASE_NAME_H

#include <stdbool.h>

enum { NAME_LENGTH_MAX = 63 }; /* without the NUL */

bool name_has(char c); /* a-z, 0-9, '.' and '-' */
bool name_valid(const char *name);

#endif
