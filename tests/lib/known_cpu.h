/* For tests that compare notices. An OpenBLAS that does not know this CPU causes a notice of its
 * own, which is not about the tested code.
 */
#ifndef LIB_KNOWN_CPU_H
#define LIB_KNOWN_CPU_H

#include <stdlib.h>

/* OpenBLAS has chosen its kernels when the program was loaded: from here on the variable only says
 * that somebody chose them. */
static inline void known_cpu(void)
{
    setenv("OPENBLAS_CORETYPE", "", 0);
}

#endif
