/* Functions of libraries that are opened at run time. Any thread. */
#ifndef CUDA_LIBRARY_H
#define CUDA_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* Set *ret_call, a pointer to a function; false: the library has none of the name. POSIX has
 * functions as void pointers there. */
static inline bool library_call(void *library, const char *name, void *ret_call)
{
    void *call = dlsym(library, name);
    memcpy(ret_call, &call, sizeof(call));
    return call != NULL;
}

#endif
