/* NNG 1.5.2 starts two threads per processor for its tasks and has no setting for it. One message
 * is four tasks of a microsecond or two, and each wakes an idle thread if there is one. With many
 * threads the processor mostly switches between them; with few a thread finds its next task
 * waiting.
 *
 * NNG reads the number of processors once, by sysconf, when it starts. This function replaces
 * libc's and returns 1 to the thread that is starting NNG, only during the start. All other calls
 * get libc's result.
 */
#include <stdbool.h>
#include <unistd.h>

#include "common/env/net_nng_internal.h"

long __sysconf(int name); /* libc's own, under a name that nothing replaces */

static _Thread_local bool starting;

/* Sanitizers call it before they can serve what they would put into it. */
__attribute__((visibility("default"), no_sanitize("thread", "address", "undefined"))) long
sysconf(int name)
{
    return starting && name == _SC_NPROCESSORS_ONLN ? 1 : __sysconf(name);
}

int net_nng_start(void)
{
    nng_aio *aio;
    starting = true;
    int rv = nng_aio_alloc(&aio, NULL, NULL); /* the smallest thing that starts it */
    starting = false;
    if (rv == 0)
        nng_aio_free(aio);
    return rv;
}
