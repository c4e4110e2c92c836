/* The one rule for names of nodes, jobs, tenants, tokens and secrets, [a-z0-9][a-z0-9.-]{0,62}, and
 * the lengths on which coordinator, agent and libworker agree. Pure, any thread.
 */
#ifndef BASE_NAME_H
#define BASE_NAME_H

#include <stdbool.h>

/* In bytes, without the NUL. */
enum {
    NAME_LENGTH_MAX = 63,
    JOB_ID_MAX = 31,
    LABEL_MAX = 63, /* of a node's label: its key, and its value */
    METRIC_NAME_MAX = 63,
    ENDPOINT_MAX = 159, /* where a rank is reached */
};

bool name_has(char c); /* a-z, 0-9, '.' and '-' */
bool name_valid(const char *name);
bool metric_name_valid(const char *name); /* [A-Za-z0-9_./-]{1,METRIC_NAME_MAX} */

#endif
