/* Let the n-th allocation from now fail, once: run the code under test for n = 1, 2, 3... until it
 * succeeds without the fault having struck, and every allocation has been seen to fail.
 *
 *     for (int n = 1; fault_in(n), rc = code(), fault_struck(); n++)
 *         check that rc is E_RESOURCE_EXHAUSTED and that nothing leaked or changed;
 *
 * One thread; needs the link options of the CMake target test_fault.
 */
#ifndef LIB_FAULT_H
#define LIB_FAULT_H

#include <stdbool.h>

void fault_in(int allocations); /* 0 disarms */
bool fault_struck(void);        /* since fault_in; disarms */

#endif
