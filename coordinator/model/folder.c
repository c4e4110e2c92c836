/* Jobs by checkpoint folder: a chain for each folder, the newest first. */
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/model/cluster_internal.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/folder.h"

enum { FOLDER_KEY_MAX = 2048 }; /* two paths of a spec and a separator */

/* `..` removes the part before it; at the top it has no effect. */
static int append_parts(const char *path, char *ret, size_t size)
{
    while (*path) {
        size_t part = strcspn(path, "/"), used = strlen(ret);
        char *last = strrchr(ret, '/');
        if (part == 2 && path[0] == '.' && path[1] == '.') {
            if (last)
                *last = 0;
        } else if (part > 0 && !(part == 1 && path[0] == '.') &&
                   str_printf(ret + used, size - used, "/%.*s", (int)part, path)) {
            return E_RESOURCE_EXHAUSTED;
        }
        path += part + (path[part] == '/');
    }
    return 0;
}

int folder_clean(const char *from, const char *path, char *ret, size_t size)
{
    ret[0] = 0;
    int rc = path[0] == '/' ? 0 : append_parts(from, ret, size);
    if (!rc)
        rc = append_parts(path, ret, size);
    return !rc && !ret[0] ? str_copy(ret, size, "/") : rc;
}

bool folder_below(const char *path, const char *prefix)
{
    size_t length = strlen(prefix);
    return strcmp(prefix, "/") == 0 ||
           (strncmp(path, prefix, length) == 0 && (path[length] == 0 || path[length] == '/'));
}

/* A relative folder is below the command's directory. False without a folder. */
static bool folder_key(const struct spec *spec, char ret[FOLDER_KEY_MAX])
{
    const char *dir = spec->checkpoint_dir, *from = spec->workdir;
    ret[0] = '~'; /* an unknown place, which is not an absolute path */
    bool placed = dir[0] == '/' || from[0] == '/';
    return dir[0] && !folder_clean(from, dir, ret + !placed, FOLDER_KEY_MAX - 1);
}

struct job *cluster_first_in_folder(const struct cluster *cluster, const struct spec *spec)
{
    char key[FOLDER_KEY_MAX];
    return folder_key(spec, key) ? strmap_get(&cluster->jobs_by_folder, key) : NULL;
}

struct job *cluster_next_in_folder(const struct job *job)
{
    return job->older_in_folder;
}

void folder_add(struct cluster *cluster, struct job *job)
{
    char key[FOLDER_KEY_MAX];
    if (!folder_key(job->spec, key))
        return;
    struct job *newer = NULL, *older = strmap_get(&cluster->jobs_by_folder, key);
    for (; older && older->sequence > job->sequence; older = older->older_in_folder)
        newer = older;
    job->older_in_folder = older;
    if (newer)
        newer->older_in_folder = job;
    else
        insist(!strmap_set(&cluster->jobs_by_folder, key, job, NULL));
}

void folder_remove(struct cluster *cluster, struct job *job)
{
    char key[FOLDER_KEY_MAX];
    if (!folder_key(job->spec, key))
        return;
    struct job *newer = strmap_get(&cluster->jobs_by_folder, key);
    insist(newer);
    if (newer == job) {
        strmap_remove(&cluster->jobs_by_folder, key);
        if (job->older_in_folder)
            insist(!strmap_set(&cluster->jobs_by_folder, key, job->older_in_folder, NULL));
        return;
    }
    while (newer->older_in_folder != job)
        newer = newer->older_in_folder;
    newer->older_in_folder = job->older_in_folder;
}
