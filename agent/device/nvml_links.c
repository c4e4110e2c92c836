#include <string.h>

#include "agent/device/nvml_api.h"

/* Constants of NVML. */
enum {
    REMOTE_GPU = 0, /* nvmlIntNvLinkDeviceType_t */
    REMOTE_SWITCH = 2,
    REMOTE_UNKNOWN = 255,
    PATH_SINGLE = 10, /* nvmlGpuTopologyLevel_t */
    PATH_MULTIPLE = 20,
    PATH_HOSTBRIDGE = 30,
    PATH_NODE = 40,
    PATH_SYSTEM = 50,
    GPU_IS_LOST = 15, /* nvmlReturn_t */
};

struct board { /* of a GPU */
    nvml_device device;
    struct nvml_pci pci;
    bool readable, has_pci, divided;
    int active, to_switches; /* NVLinks */
    int to[GPU_LINKS_MAX];   /* NVLinks that lead to the GPU itself */
};

static bool same_place(const struct nvml_pci *a, const struct nvml_pci *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

static void read_boards(const struct nvml *nvml, const struct inventory_gpu *gpus, int count,
                        struct board *ret)
{
    memset(ret, 0, sizeof(*ret) * (size_t)count);
    for (int i = 0; i < count; i++) {
        ret[i].readable = nvml->handle((unsigned int)gpus[i].index, &ret[i].device) == 0;
        ret[i].divided = gpus[i].instance != GPU_WHOLE;
        ret[i].has_pci = ret[i].readable && nvml->pci && nvml->pci(ret[i].device, &ret[i].pci) == 0;
    }
}

static unsigned int kind_of(const struct nvml *nvml, nvml_device device, unsigned int link)
{
    unsigned int kind;
    bool known = nvml->link_kind && nvml->link_kind(device, link, &kind) == 0;
    return known ? kind : REMOTE_UNKNOWN;
}

/* A driver that reports no kinds may still report the address of a GPU. */
static void count_link(const struct nvml *nvml, struct board *boards, int count, int i,
                       unsigned int link)
{
    struct board *board = &boards[i];
    struct nvml_pci remote;
    unsigned int kind = kind_of(nvml, board->device, link);
    board->active++;
    if (kind == REMOTE_SWITCH) {
        board->to_switches++;
        return;
    }
    if ((kind != REMOTE_GPU && kind != REMOTE_UNKNOWN) || !nvml->link_pci ||
        nvml->link_pci(board->device, link, &remote))
        return;
    for (int j = 0; j < count; j++)
        if (j != i && boards[j].has_pci && same_place(&boards[j].pci, &remote))
            board->to[j]++;
}

/* A GPU may have fallen off the bus since its handle was found. */
static void count_links(const struct nvml *nvml, struct board *boards, int count)
{
    for (int i = 0; i < count; i++)
        for (unsigned int link = 0; link < NVML_LINKS_MAX && boards[i].readable; link++) {
            unsigned int state = 0;
            int rc = nvml->link_state(boards[i].device, link, &state);
            boards[i].readable = rc != GPU_IS_LOST;
            if (!rc && state == 1)
                count_link(nvml, boards, count, i, link);
        }
}

static uint8_t path_of(const struct nvml *nvml, const struct board *a, const struct board *b)
{
    unsigned int level;
    if (a->device == b->device) /* two instances */
        return GPU_LINK_PIX;
    if (!nvml->ancestor || nvml->ancestor(a->device, b->device, &level))
        return GPU_LINK_UNKNOWN;
    if (level <= PATH_SINGLE)
        return GPU_LINK_PIX;
    if (level <= PATH_MULTIPLE)
        return GPU_LINK_PXB;
    if (level <= PATH_HOSTBRIDGE)
        return GPU_LINK_PHB;
    if (level <= PATH_NODE)
        return GPU_LINK_NODE;
    return level <= PATH_SYSTEM ? GPU_LINK_SYS : GPU_LINK_UNKNOWN;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* NVSwitches of a node are one fabric: a pair has as many links as the GPU that has fewer.
 * Instances of a divided GPU cannot use its NVLinks. */
static uint8_t link_of(const struct nvml *nvml, const struct board *boards, int i, int j)
{
    const struct board *a = &boards[i], *b = &boards[j];
    int nvlinks = least(a->to[j], b->to[i]) + least(a->to_switches, b->to_switches);
    if (i == j)
        return GPU_LINK_SELF;
    if (!a->readable || !b->readable)
        return GPU_LINK_UNKNOWN;
    if (nvlinks == 0 || a->divided || b->divided)
        return path_of(nvml, a, b);
    return gpu_link_of_nvlinks(nvlinks);
}

void nvml_links(struct nvml *nvml, struct inventory_gpu *gpus, int count)
{
    struct board boards[GPU_LINKS_MAX];
    read_boards(nvml, gpus, count, boards);
    if (nvml->link_state)
        count_links(nvml, boards, count);
    for (int i = 0; i < count; i++) {
        gpus[i].nvlinks = nvml->link_state && boards[i].readable ? boards[i].active : GPU_UNKNOWN;
        gpus[i].nvswitch = boards[i].to_switches > 0;
        memset(gpus[i].links, GPU_LINK_UNKNOWN, sizeof(gpus[i].links));
        for (int j = 0; j < count; j++)
            gpus[i].links[j] = link_of(nvml, boards, i, j);
    }
}

static void keep_unread(struct inventory_gpu *gpu, const struct inventory_gpu *before, bool lost)
{
    if (lost || gpu->nvlinks == GPU_UNKNOWN) {
        gpu->nvlinks = before->nvlinks;
        gpu->nvswitch = before->nvswitch;
    }
    for (int j = 0; j < GPU_LINKS_MAX; j++)
        if (gpu->links[j] == GPU_LINK_UNKNOWN)
            gpu->links[j] = before->links[j];
}

bool nvml_links_again(struct nvml *nvml, struct inventory_gpu *gpus, int count, const bool *lost)
{
    struct inventory_gpu before[GPU_LINKS_MAX];
    bool differ = false;
    memcpy(before, gpus, sizeof(*gpus) * (size_t)count);
    nvml_links(nvml, gpus, count);
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count; j++)
            if (lost[i] || lost[j])
                gpus[i].links[j] = GPU_LINK_UNKNOWN;
        keep_unread(&gpus[i], &before[i], lost[i]);
        differ = differ || gpus[i].nvlinks != before[i].nvlinks ||
                 gpus[i].nvswitch != before[i].nvswitch ||
                 memcmp(gpus[i].links, before[i].links, sizeof(gpus[i].links)) != 0;
    }
    return differ;
}
