#include "coordinator/api_rpc/folders.h"

#include <string.h>

#include "common/base/str.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/folder.h"

enum { FOLDER_MAX = 2048 }; /* two paths of a spec and a separator */

static bool below_any(const char *path, const struct store_tenant *tenant)
{
    char prefixes[STORE_PREFIXES_MAX + 1], *at = prefixes, *prefix;
    (void)str_copy(prefixes, sizeof(prefixes), tenant->checkpoint_prefixes);
    while ((prefix = strsep(&at, "\n")))
        if (*prefix && folder_below(path, prefix))
            return true;
    return false;
}

static bool leads_out(const char *path)
{
    for (const char *at = path; *at; at += strspn(at, "/")) {
        size_t part = strcspn(at, "/");
        if (part == 2 && at[0] == '.' && at[1] == '.')
            return true;
        at += part;
    }
    return false;
}

/* The owner of `path`; NULL if the tenant may use it. */
static const char *refused_because(struct service *service, const struct store_tenant *tenant,
                                   const char *path)
{
    if (below_any(path, tenant))
        return NULL;
    if (tenant->checkpoint_prefixes[0])
        return "is below none of its tenant's checkpoint prefixes";
    for (const struct store_tenant *other = access_first_tenant(service->access); other;
         other = access_next_tenant(service->access, other))
        if (other != tenant && below_any(path, other))
            return "belongs to another tenant";
    return NULL;
}

static const char *refused_to_job(struct service *service, const struct store_tenant *tenant,
                                  const struct spec *spec, const char *path)
{
    const char *ret = refused_because(service, tenant, path);
    if (ret || below_any(path, tenant))
        return ret;
    const struct job *newest = cluster_first_in_folder(service_cluster(service), spec);
    return newest && strcmp(newest->spec->tenant, spec->tenant) != 0
               ? "another tenant's job keeps its checkpoints there"
               : NULL;
}

int folders_allow_job(struct service *service, const struct store_tenant *tenant,
                      const struct spec *spec, struct error *err)
{
    char path[FOLDER_MAX];
    const char *dir = spec->checkpoint_dir, *why = NULL;
    bool placed = dir[0] == '/' || spec->workdir[0] == '/';
    if (!placed && leads_out(dir))
        why = "leads out of the folder that the job starts in";
    else if (placed && dir[0] && !folder_clean(spec->workdir, dir, path, sizeof(path)))
        why = refused_to_job(service, tenant, spec, path);
    if (!why)
        return 0;
    error_set(err, E_PERMISSION_DENIED, "checkpoint.dir %.300s: %s", placed ? path : dir, why);
    error_field(err, "checkpoint.dir");
    error_hint(err, "choose a folder of this tenant; `muster tenant show` lists its prefixes");
    return E_PERMISSION_DENIED;
}

/* True if `path` has the parts of `dir` in it, and something below them. */
static bool goes_through(const char *path, const char *dir)
{
    size_t length = strlen(dir);
    for (const char *at = path; (at = strstr(at, dir)); at++)
        if (at[length] == '/')
            return true;
    return false;
}

/* If a job starts in its node's own folder, the place of `dir` is unknown here. A relative path
 * must begin with it, an absolute one must contain it. */
static bool below_own(const struct spec *spec, const char *path)
{
    char dir[FOLDER_MAX], clean[FOLDER_MAX];
    bool placed = spec->checkpoint_dir[0] == '/' || spec->workdir[0] == '/';
    if (folder_clean(spec->workdir, spec->checkpoint_dir, dir, sizeof(dir)) ||
        folder_clean(spec->workdir, path, clean, sizeof(clean)))
        return false;
    if (!placed && (leads_out(path) || (path[0] == '/' && goes_through(clean, dir))))
        return !leads_out(path);
    return folder_below(clean, dir) && strcmp(clean, dir) != 0;
}

int folders_allow_commit(struct service *service, const char *id, const char *path,
                         struct error *err)
{
    char clean[FOLDER_MAX];
    const struct job *job = cluster_job(service_cluster(service), id);
    const struct spec *spec = job ? job->spec : NULL;
    const struct store_tenant *tenant = spec ? access_tenant(service->access, spec->tenant) : NULL;
    const char *why = NULL;
    if (spec && spec->checkpoint_dir[0])
        why = below_own(spec, path) ? NULL : "is not below its job's checkpoint.dir";
    else if (tenant && path[0] != '/' && spec->workdir[0] != '/')
        why = leads_out(path) ? "leads out of the folder that the job starts in" : NULL;
    else if (tenant && !folder_clean(spec->workdir, path, clean, sizeof(clean)))
        why = refused_because(service, tenant, clean);
    if (!why)
        return 0;
    error_set(err, E_PERMISSION_DENIED, "checkpoint %.300s: %s", path, why);
    error_field(err, "checkpoint.path");
    error_hint(err, "write it below the folder that MUSTER_CHECKPOINT_DIR names");
    return E_PERMISSION_DENIED;
}
