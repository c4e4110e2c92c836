/* NNG 1.5.2 starts two threads for its tasks per processor and has no setting for it. One message
 * is four tasks of a microsecond or two, and each wakes an idle thread if there is one: with many
 * threads the processor mostly switches between them, with few a thread finds its next task
 * waiting. NNG asks sysconf how many processors there are, once, when it starts. This one stands in
 * front of libc's and says "one" to the thread that is starting NNG, for as long as it does; to all
 * others it tells what libc does.
 */
#include <stdbool.h>
#include <unistd.h>

#include "common/env/net_nng_internal.h"

long __sysconf(int name); /* libc's own, under the name that nobody stands in front of */

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
