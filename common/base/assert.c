#include "common/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void insist_failed(const char *condition, const char *file, int line, const char *function)
{
    dprintf(STDERR_FILENO, "%s:%d: %s: broken assertion: %s\n", file, line, function, condition);
    abort();
}
