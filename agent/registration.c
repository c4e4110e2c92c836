#include "agent/registration.h"

#include <stdbool.h>

#include "common/rpc/message.h"

static bool fill_labels(const struct inventory *inventory, struct arena *arena,
                        Muster__RegisterNodeRequest *ret)
{
    size_t count = (size_t)inventory->labels_count;
    Muster__RegisterNodeRequest__LabelsEntry *all = arena_array(arena, count + 1, sizeof(*all));
    ret->labels = arena_pointers(arena, count + 1);
    if (!all || !ret->labels)
        return false;
    for (size_t i = 0; i < count; i++) {
        muster__register_node_request__labels_entry__init(&all[i]);
        all[i].key = rpc_text(inventory->labels[i].key);
        all[i].value = rpc_text(inventory->labels[i].value);
        ret->labels[i] = &all[i];
    }
    ret->n_labels = count;
    return true;
}

static bool fill_place(const struct inventory_gpu *gpu, int gpus, struct arena *arena,
                       Muster__Gpu *ret)
{
    char row[GPU_LINKS_TEXT_BYTES];
    gpu_links_write(gpu->links, gpus, row);
    ret->links = arena_strdup(arena, row);
    ret->nvswitch = gpu->nvswitch;
    ret->pcie_generation = (uint32_t)gpu->pcie_generation;
    ret->pcie_lanes = (uint32_t)gpu->pcie_lanes;
    if (gpu->numa_node >= 0) {
        ret->numa_node_known_case = MUSTER__GPU__NUMA_NODE_KNOWN_NUMA_NODE;
        ret->numa_node = (uint32_t)gpu->numa_node;
    }
    return ret->links != NULL;
}

static bool fill_gpus(const struct inventory *inventory, struct arena *arena,
                      Muster__RegisterNodeRequest *ret)
{
    size_t count = (size_t)inventory->gpus_count;
    Muster__Gpu *all = arena_array(arena, count + 1, sizeof(*all));
    ret->gpus = arena_pointers(arena, count + 1);
    if (!all || !ret->gpus)
        return false;
    for (size_t i = 0; i < count; i++) {
        muster__gpu__init(&all[i]);
        all[i].index = (uint32_t)inventory->gpus[i].index;
        all[i].model = rpc_text(inventory->gpus[i].model);
        all[i].memory_bytes = inventory->gpus[i].memory_bytes;
        all[i].uuid = rpc_text(inventory->gpus[i].uuid);
        all[i].instance = inventory->gpus[i].instance != GPU_WHOLE;
        all[i].persistent = inventory->gpus[i].persistent;
        all[i].exclusive = inventory->gpus[i].exclusive;
        if (inventory->gpus[i].nvlinks >= 0) {
            all[i].nvlinks_known_case = MUSTER__GPU__NVLINKS_KNOWN_NVLINKS;
            all[i].nvlinks = (uint32_t)inventory->gpus[i].nvlinks;
        }
        if (!fill_place(&inventory->gpus[i], inventory->gpus_count, arena, &all[i]))
            return false;
        ret->gpus[i] = &all[i];
    }
    ret->n_gpus = count;
    return true;
}

int registration_fill(const struct inventory *inventory, struct arena *arena,
                      Muster__RegisterNodeRequest *ret)
{
    ret->slots = inventory->slots;
    ret->cpus = inventory->cpus;
    ret->memory_bytes = inventory->memory_bytes;
    ret->unenforced = rpc_text(inventory->unenforced);
    return fill_labels(inventory, arena, ret) && fill_gpus(inventory, arena, ret)
               ? 0
               : E_RESOURCE_EXHAUSTED;
}
