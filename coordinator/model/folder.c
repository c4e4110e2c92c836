/* Jobs by the folder of their checkpoints: a chain for each, the newest first. */
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/model/cluster_internal.h"

enum { FOLDER_KEY_MAX = 2048 }; /* two paths of a spec and what stands between */

static size_t trimmed(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    return length;
}

/* As it is written: a relative one counts from where the command starts. False without one. */
static bool folder_key(const struct spec *spec, char ret[FOLDER_KEY_MAX])
{
    const char *dir = spec->checkpoint_dir, *from = dir[0] == '/' ? "" : spec->workdir;
    return dir[0] && str_printf(ret, FOLDER_KEY_MAX, "%.*s\n%.*s", (int)trimmed(from), from,
                                (int)trimmed(dir), dir) == 0;
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
        insist(strmap_set(&cluster->jobs_by_folder, key, job, NULL) == 0);
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
            insist(strmap_set(&cluster->jobs_by_folder, key, job->older_in_folder, NULL) == 0);
        return;
    }
    while (newer->older_in_folder != job)
        newer = newer->older_in_folder;
    newer->older_in_folder = job->older_in_folder;
}
