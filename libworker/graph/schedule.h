/* The order of a plan's launches: block by block forward, then backward, each in the brackets in
 * which its parameters are there. */
#ifndef GRAPH_SCHEDULE_H
#define GRAPH_SCHEDULE_H

#include "libworker/graph/emit.h"

/* List the launches and values of the emitter's plan, with what is chosen to be computed again.
 * What an earlier call listed is forgotten. WK_ENOMEM. */
int schedule(struct emitter *emitter);

#endif
