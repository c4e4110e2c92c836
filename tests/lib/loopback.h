/* A loopback address of this process's own. On 127.0.0.1 a port that was just given back may be
 * taken by any connection that another test opens; here it stays free.
 */
#ifndef LIB_LOOPBACK_H
#define LIB_LOOPBACK_H

#include <stdio.h>
#include <unistd.h>

/* Text of an IPv4 address, in a buffer of its own; the same for as long as the process lives. */
static inline const char *loopback_own(void)
{
    static char text[16];
    unsigned id = (unsigned)getpid();
    (void)snprintf(text, sizeof(text), "127.%u.%u.%u", 64 + (id >> 16) % 64, id >> 8 & 255,
                   id & 255);
    return text;
}

#endif
