/* The fake NCCL with a constructor that waits, as the real one's does for a slow disk. The variable
 * NCCL_GATE has two descriptors, "4 7". The constructor writes to the first one which thread it is
 * on, GATE_ASIDE or GATE_MAIN. On another thread than main's it then waits for a byte of the second
 * one: main could not send it while it waits for the constructor. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/cuda/nccl_gate.h"

__attribute__((constructor)) static void wait_at_gate(void)
{
    const char *gate = getenv(GATE_VARIABLE);
    char who = gettid() == getpid() ? GATE_MAIN : GATE_ASIDE, byte;
    int tell = -1, hear = -1;
    if (!gate || sscanf(gate, "%d %d", &tell, &hear) != 2)
        return;
    if (write(tell, &who, 1) != 1 || who == GATE_MAIN)
        return;
    if (read(hear, &byte, 1) != 1)
        (void)fprintf(stderr, "the gate was closed\n");
}
