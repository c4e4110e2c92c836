#include "libworker/device/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include <module_build.h>
#include <worker/error.h>

#include "common/base/str.h"

const char *module_build(void)
{
    return MODULE_BUILD;
}

/* The folder of what this code is in. False: unknown. */
static bool own_folder(char ret[PATH_MAX])
{
    Dl_info info;
    const char *name = dladdr(MODULE_FILE, &info) ? info.dli_fname : "";
    ssize_t length = 0;
    if (strchr(name, '/'))
        (void)str_copy(ret, PATH_MAX, name);
    else if ((length = readlink("/proc/self/exe", ret, PATH_MAX - 1)) > 0)
        ret[length] = '\0';
    else
        return false;
    char *end = strrchr(ret, '/');
    if (!end)
        return false;
    *end = '\0';
    return true;
}

/* True: there is a file, and its path is in ret. */
static bool is_in(const char *folder, const char *below, char ret[PATH_MAX])
{
    return str_printf(ret, PATH_MAX, "%s%s/" MODULE_FILE, folder, below) == 0 &&
           access(ret, F_OK) == 0;
}

static int find_module(char ret[PATH_MAX], struct error *err)
{
    char own[PATH_MAX];
    bool known = own_folder(own);
    if (known && (is_in(own, "", ret) || is_in(own, "/../lib", ret)))
        return 0;
    if (is_in(MUSTER_MODULE_DIR, "", ret))
        return 0;
    return error_set(err, WK_ENOTFOUND, "there is no " MODULE_FILE " in %s%s%s", known ? own : "",
                     known ? " and in " : "", MUSTER_MODULE_DIR);
}

/* Much less work than to load a module with its libraries, only to learn this from it. */
static bool has_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver)
        (void)dlclose(driver);
    return driver;
}

/* The build is text of a known size, so it can be read whatever the rest is. */
static int check_build(const char *path, const struct module_table *table, struct error *err)
{
    if (!table)
        return error_set(err, WK_EMISMATCH, "%s is no module of Muster: it has no %s", path,
                         MODULE_SYMBOL);
    if (strncmp(table->build, module_build(), MODULE_BUILD_BYTES) == 0)
        return 0;
    return error_set(err, WK_EMISMATCH,
                     "%s is of Muster %.*s, and this is %s: install both from one build", path,
                     MODULE_BUILD_BYTES, table->build, module_build());
}

int module_open_to_plan(const char *path, const struct module_table **ret_table, struct error *err)
{
    char found[PATH_MAX];
    bool given = path && *path;
    int rc = 0;
    if (!given)
        rc = find_module(found, err);
    else if (access(path, F_OK))
        rc = error_set(err, WK_ENOTFOUND, "there is no %s, which " MODULE_VARIABLE " names", path);
    else if (str_copy(found, sizeof(found), path))
        rc = error_set(err, WK_EINVAL, MODULE_VARIABLE " is too long");
    if (rc)
        return rc;
    void *module = dlopen(found, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        return error_set(err, WK_EUNSUPPORTED, "%s cannot be loaded: %s", found, dlerror());
    const struct module_table *table = dlsym(module, MODULE_SYMBOL);
    rc = check_build(found, table, err);
    if (rc)
        (void)dlclose(module);
    else
        *ret_table = table;
    return rc;
}

int module_open(const char *path, const struct module_table **ret_table, struct error *err)
{
    if (!(path && *path) && !has_driver())
        return error_set(err, WK_EUNSUPPORTED, "this machine has no NVIDIA driver");
    return module_open_to_plan(path, ret_table, err);
}
