/* struct disk on the real file system. Stateless; any thread. Paths are absolute: relative ones are
 * refused with E_INVALID_ARGUMENT, so that no program depends on its working directory.
 */
#ifndef ENV_DISK_OS_H
#define ENV_DISK_OS_H

#include "common/env/env.h"

struct disk disk_os(void);

#endif
