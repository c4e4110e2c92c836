/* A folder of its own for a test. tmpdir_remove is called by the test; Criterion's time limit or a
 * crash leaves the folder behind, under $TMPDIR or /tmp as muster-test-XXXXXX.
 */
#ifndef LIB_TMPDIR_H
#define LIB_TMPDIR_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

struct tmpdir {
    char path[256];
};

static inline struct tmpdir tmpdir_make(void)
{
    struct tmpdir dir;
    const char *base = getenv("TMPDIR");
    snprintf(dir.path, sizeof(dir.path), "%s/muster-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(dir.path))
        abort();
    return dir;
}

static inline int tmpdir_remove_one(const char *path, const struct stat *st, int type,
                                    struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

static inline void tmpdir_remove(const struct tmpdir *dir)
{
    nftw(dir->path, tmpdir_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* `name` inside the folder, in one of four buffers used in turn. */
static inline const char *tmpdir_path(const struct tmpdir *dir, const char *name)
{
    static char paths[4][512];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", dir->path, name);
    return path;
}

#endif
