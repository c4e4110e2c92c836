#include "common/base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void insist_failed(const char *condition, const char *file, int line, const char *function)
{
    fprintf(stderr, "%s:%d: %s: broken assertion: %s\n", file, line, function, condition);
    abort();
}
