#include "agent/device/cores.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"

enum { NODES_MAX = 64, PATH_BYTES = 128 };

struct core {
    int id, node, package, core;
};

static int read_topology(int cpu, const char *name)
{
    char path[PATH_BYTES];
    int value = 0;
    (void)str_printf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, name);
    FILE *file = fopen(path, "re");
    char text[32];
    int64_t number;
    if (file && fgets(text, sizeof(text), file)) {
        text[strcspn(text, "\n")] = '\0';
        if (!parse_i64(text, INT32_MIN, INT32_MAX, &number, NULL))
            value = (int)number;
    }
    if (file)
        fclose(file);
    return value;
}

static int numa_node_of(int cpu)
{
    char path[PATH_BYTES];
    for (int node = 0; node < NODES_MAX; node++) {
        (void)str_printf(path, sizeof(path), "/sys/devices/system/node/node%d/cpu%d", node, cpu);
        FILE *folder = fopen(path, "re"); /* a link to a folder: opens for reading */
        if (folder) {
            fclose(folder);
            return node;
        }
    }
    return 0;
}

static int by_distance(const void *left, const void *right)
{
    const struct core *a = left, *b = right;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    if (a->package != b->package)
        return a->package < b->package ? -1 : 1;
    if (a->core != b->core)
        return a->core < b->core ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int read_part(const char *which, int64_t *ret_part, int64_t *ret_parts, struct error *err)
{
    char first[16];
    const char *slash = strchr(which, '/');
    *ret_part = *ret_parts = 1;
    if (strcmp(which, "all") == 0)
        return 0;
    if (!slash || str_printf(first, sizeof(first), "%.*s", (int)(slash - which), which) ||
        parse_i64(slash + 1, 1, CORES_MAX, ret_parts, NULL) ||
        parse_i64(first, 1, *ret_parts, ret_part, NULL))
        return error_set(err, E_INVALID_ARGUMENT,
                         "--cores %s: expected all, off or PART/PARTS, as in 1/2", which);
    return 0;
}

int cores_read(const char *which, struct cores *ret, struct error *err)
{
    struct core cores[CORES_MAX];
    int64_t part, parts;
    int count = 0;
    cpu_set_t allowed;
    *ret = (struct cores){0};
    if (strcmp(which, "off") == 0)
        return 0;
    int rc = read_part(which, &part, &parts, err);
    if (rc || sched_getaffinity(0, sizeof(allowed), &allowed))
        return rc;
    for (int cpu = 0; cpu < CPU_SETSIZE && count < CORES_MAX; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            cores[count++] =
                (struct core){cpu, numa_node_of(cpu), read_topology(cpu, "physical_package_id"),
                              read_topology(cpu, "core_id")};
    qsort(cores, (size_t)count, sizeof(cores[0]), by_distance);
    int each = count / (int)parts;
    for (int i = 0; i < each; i++)
        ret->ids[ret->count++] = cores[each * ((int)part - 1) + i].id;
    return 0;
}

static int by_id(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;
    return a < b ? -1 : a > b;
}

static void write_ranges(const int *ids, int count, char ret[CORES_TEXT_BYTES])
{
    size_t used = 0;
    for (int i = 0, last; i < count; i = last + 1) {
        for (last = i; last + 1 < count && ids[last + 1] == ids[last] + 1; last++)
            ;
        const char *comma = used ? "," : "";
        int rc = last > i ? str_printf(ret + used, CORES_TEXT_BYTES - used, "%s%d-%d", comma,
                                       ids[i], ids[last])
                          : str_printf(ret + used, CORES_TEXT_BYTES - used, "%s%d", comma, ids[i]);
        if (rc) { /* half a list would be another one */
            ret[0] = '\0';
            return;
        }
        used += strlen(ret + used);
    }
}

void cores_share(const struct cores *cores, const struct cores_request *request,
                 char ret[CORES_TEXT_BYTES])
{
    int ids[CORES_MAX];
    int each = request->node_slots ? cores->count / (int)request->node_slots : 0;
    int count = each * (int)request->slots;
    ret[0] = '\0';
    if (each == 0 || (uint64_t)request->slot + request->slots > request->node_slots ||
        (double)count < request->cpus)
        return;
    memcpy(ids, &cores->ids[each * (int)request->slot], sizeof(ids[0]) * (size_t)count);
    qsort(ids, (size_t)count, sizeof(ids[0]), by_id);
    write_ranges(ids, count, ret);
}
