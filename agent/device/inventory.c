#include "agent/device/inventory.h"

#include <ctype.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/device/nvml.h"
#include "common/base/str.h"

enum { SMALL_FILE_BYTES = 4096, NVIDIA_MAJOR = 195 }; /* devices.txt */

/* The start of a file of /proc or /sys; false if there is none. */
static bool read_small(const char *path, char ret[SMALL_FILE_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t size = read(fd, ret, SMALL_FILE_BYTES - 1);
    close(fd);
    if (size <= 0)
        return false;
    ret[size] = '\0';
    return true;
}

/* A lone number; false for "max" and what is not there. */
static bool read_number(const char *path, double *ret)
{
    char text[SMALL_FILE_BYTES];
    if (!read_small(path, text) || !isdigit((unsigned char)text[0]))
        return false;
    *ret = strtod(text, NULL);
    return true;
}

/* The quota of the cgroup we see as root: that of our container, if we are in one. */
static double cpu_quota(void)
{
    char text[SMALL_FILE_BYTES];
    char *after;
    double quota, period;
    if (read_small("/sys/fs/cgroup/cpu.max", text)) { /* "max 100000" or "150000 100000" */
        quota = strtod(text, &after);
        period = strtod(after, NULL);
        if (quota > 0 && period > 0)
            return quota / period;
    }
    if (read_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", &quota) &&
        read_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us", &period) && quota > 0 && period > 0)
        return quota / period;
    return 0;
}

static double count_cpus(void)
{
    cpu_set_t set;
    double cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cpus = CPU_COUNT(&set);
    double quota = cpu_quota();
    if (quota > 0 && quota < cpus)
        cpus = quota;
    return cpus < 1 ? 1 : cpus;
}

static uint64_t count_memory(void)
{
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double limit;
    if ((read_number("/sys/fs/cgroup/memory.max", &limit) ||
         read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", &limit)) &&
        limit > 0 && limit < bytes)
        bytes = limit;
    return (uint64_t)bytes;
}

void inventory_uuids(const struct inventory *inventory, const char *ret[INVENTORY_GPUS_MAX])
{
    for (int i = 0; i < inventory->gpus_count; i++)
        ret[i] = inventory->gpus[i].uuid;
}

int inventory_label(struct inventory *inventory, const char *key, const char *value,
                    struct error *err)
{
    struct inventory_label label = {0};
    if (!key[0] || !value[0] || str_copy(label.key, sizeof(label.key), key) ||
        str_copy(label.value, sizeof(label.value), value))
        return error_set(err, E_INVALID_ARGUMENT,
                         "label \"%s=%s\": key and value must have 1 to 63 bytes", key, value);
    int at = 0;
    while (at < inventory->labels_count && strcmp(inventory->labels[at].key, key) < 0)
        at++;
    if (at < inventory->labels_count && strcmp(inventory->labels[at].key, key) == 0) {
        inventory->labels[at] = label;
        return 0;
    }
    if (inventory->labels_count == INVENTORY_LABELS_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED, "more than %d labels", INVENTORY_LABELS_MAX);
    memmove(&inventory->labels[at + 1], &inventory->labels[at],
            sizeof(label) * (size_t)(inventory->labels_count - at));
    inventory->labels[at] = label;
    inventory->labels_count++;
    return 0;
}

const char *inventory_label_value(const struct inventory *inventory, const char *key)
{
    for (int i = 0; i < inventory->labels_count; i++)
        if (strcmp(inventory->labels[i].key, key) == 0)
            return inventory->labels[i].value;
    return NULL;
}

/* The machine's text may be too long for a label: then use its beginning. */
static void label_cut(struct inventory *inventory, const char *key, const char *value)
{
    char cut[sizeof(inventory->labels[0].value)];
    (void)str_copy(cut, sizeof(cut), value);
    (void)inventory_label(inventory, key, cut, NULL);
}

/* "NVIDIA H200" and "H200": people ask for the model, not the manufacturer. */
static const char *model_name(const char *model)
{
    return str_starts(model, "NVIDIA ") ? model + strlen("NVIDIA ") : model;
}

/* Their device files may appear later: the driver makes them at the first use. */
static uint32_t gpu_major(const struct inventory *inventory)
{
    uint32_t found = inventory->gpus_count ? NVIDIA_MAJOR : 0;
    for (int i = 0; i < inventory->gpus_count; i++) {
        char path[32];
        struct stat status;
        if (inventory->gpus[i].minor < 0)
            return 0;
        (void)str_printf(path, sizeof(path), "/dev/nvidia%d", inventory->gpus[i].minor);
        if (stat(path, &status) == 0 && S_ISCHR(status.st_mode))
            found = major(status.st_rdev);
    }
    return found;
}

static int read_gpus(struct inventory_gpu ret[INVENTORY_GPUS_MAX])
{
    struct nvml *nvml = nvml_open(NULL);
    int count = nvml ? nvml_gpus(nvml, ret, INVENTORY_GPUS_MAX) : 0;
    nvml_close(nvml);
    return count;
}

int inventory_read(struct inventory *ret, struct error *err)
{
    struct inventory inventory = {0};
    struct utsname names;
    if (uname(&names))
        return error_set(err, E_INTERNAL, "uname failed");
    inventory.cpus = count_cpus();
    inventory.memory_bytes = count_memory();
    inventory.gpus_count = read_gpus(inventory.gpus);
    inventory.gpu_major = gpu_major(&inventory);
    inventory.slots = (uint32_t)(inventory.gpus_count ? inventory.gpus_count : inventory.cpus);
    label_cut(&inventory, "hostname", names.nodename);
    label_cut(&inventory, "os", "linux");
    label_cut(&inventory, "arch", names.machine);
    if (inventory.gpus_count)
        label_cut(&inventory, "gpu.model", model_name(inventory.gpus[0].model));
    *ret = inventory;
    return 0;
}
