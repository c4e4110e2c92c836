/* How many descriptors this process has open: the same before and after what should leave none. */
#ifndef LIB_OPEN_FILES_H
#define LIB_OPEN_FILES_H

#include <dirent.h>

static inline int open_files(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

#endif
