#include "cli/gpu_text.h"

#include <inttypes.h>
#include <string.h>

#include "cli/table.h"
#include "common/base/buf.h"
#include "common/base/gpu_link.h"
#include "common/base/parse.h"
#include "common/base/str.h"

/* People ask for "H200". */
static const char *short_model(const char *model)
{
    return str_starts(model, "NVIDIA ") ? model + strlen("NVIDIA ") : model;
}

static size_t count_like(const Muster__Node *node, size_t first)
{
    size_t count = 0;
    for (size_t i = first; i < node->n_gpus; i++) {
        if (!strcmp(node->gpus[i]->model, node->gpus[first]->model))
            count++;
    }
    return count;
}

static bool is_first(const Muster__Node *node, size_t i)
{
    for (size_t before = 0; before < i; before++) {
        if (!strcmp(node->gpus[before]->model, node->gpus[i]->model))
            return false;
    }
    return true;
}

const char *gpu_models_text(const Muster__Node *node, char ret[GPU_TEXT_MAX])
{
    ret[0] = '\0';
    for (size_t i = 0; i < node->n_gpus; i++) {
        size_t used = strlen(ret);
        if (is_first(node, i))
            (void)str_printf(ret + used, GPU_TEXT_MAX - used, "%s%zu x %s", used ? ", " : "",
                             count_like(node, i), short_model(node->gpus[i]->model));
    }
    return ret;
}

const char *gpu_used_text(const Muster__Node *node, char ret[GPU_TEXT_MAX])
{
    uint32_t sum = 0, count = 0;
    for (size_t i = 0; i < node->n_gpus; i++) {
        const Muster__GpuReading *now = node->gpus[i]->now;
        if (now && !now->lost && now->used_percent_known_case) {
            sum += now->used_percent;
            count++;
        }
    }
    (void)str_copy(ret, GPU_TEXT_MAX, "-");
    if (count)
        (void)str_printf(ret, GPU_TEXT_MAX, "%u%%", (sum + count / 2) / count);
    return ret;
}

const char *gpu_memory_text(const Muster__Node *node, char ret[GPU_TEXT_MAX])
{
    char used_text[FORMAT_MAX], whole_text[FORMAT_MAX];
    uint64_t used = 0, whole = 0;
    for (size_t i = 0; i < node->n_gpus; i++) {
        const Muster__GpuReading *now = node->gpus[i]->now;
        used += now ? now->memory_used_bytes : 0;
        whole += now ? node->gpus[i]->memory_bytes : 0;
    }
    (void)str_copy(ret, GPU_TEXT_MAX, "-");
    if (whole)
        (void)str_printf(ret, GPU_TEXT_MAX, "%s/%s", format_bytes(used, used_text),
                         format_bytes(whole, whole_text));
    return ret;
}

static void add(struct buf *text, const char *fault)
{
    (void)buf_printf(text, "%s%s", text->size ? ", " : "", fault);
}

static void add_held(struct buf *text, const Muster__Gpu *gpu)
{
    char bytes[FORMAT_MAX];
    add(text, "gets no job, as its last worker has ended and ");
    if (gpu->held_bytes)
        (void)buf_printf(text, "%s of its memory are still in use",
                         format_bytes(gpu->held_bytes, bytes));
    else
        (void)buf_str(text, "its memory cannot be read");
}

void gpu_tell_faults(const Muster__Node *node, FILE *out)
{
    for (size_t i = 0; i < node->n_gpus; i++) {
        const Muster__Gpu *gpu = node->gpus[i];
        const Muster__GpuReading *now = gpu->now;
        struct buf text = {0};
        if (now && now->lost)
            add(&text, "cannot be read any more, and gets no job: it fell off the bus, or hangs");
        if (now && now->xid)
            (void)buf_printf(&text, "%sthe driver reported Xid %u", text.size ? ", " : "",
                             now->xid);
        if (now && now->ecc_errors)
            (void)buf_printf(&text, "%s%" PRIu64 " uncorrected memory error%s",
                             text.size ? ", " : "", now->ecc_errors,
                             str_plural((int64_t)now->ecc_errors));
        if (gpu->held)
            add_held(&text, gpu);
        if (now && now->slowed_by_heat)
            add(&text, "slowed down by heat");
        if (now && now->slowed_by_power)
            add(&text, "slowed down by its power limit");
        if (text.size)
            (void)fprintf(out, "%s: GPU %u (%s) %s\n", node->name, gpu->index, gpu->uuid,
                          buf_cstr(&text));
        buf_fini(&text);
    }
}

/* "GPU3", or "GPU2:1" of the second instance of a divided one. */
static void write_name(const Muster__Node *node, size_t slot, char ret[FORMAT_MAX])
{
    const Muster__Gpu *gpu = node->gpus[slot];
    int instance = 0;
    for (size_t i = 0; i < slot; i++)
        if (node->gpus[i]->index == gpu->index)
            instance++;
    if (gpu->instance)
        (void)str_printf(ret, FORMAT_MAX, "GPU%u:%d", gpu->index, instance);
    else
        (void)str_printf(ret, FORMAT_MAX, "GPU%u", gpu->index);
}

static void add_place(struct table *table, const Muster__Gpu *gpu)
{
    if (gpu->pcie_lanes)
        table_cell(table, "%u x%u", gpu->pcie_generation, gpu->pcie_lanes);
    else
        table_cell(table, "%s", "");
    if (gpu->numa_node_known_case == MUSTER__GPU__NUMA_NODE_KNOWN_NUMA_NODE)
        table_cell(table, "%u", gpu->numa_node);
    else
        table_cell(table, "%s", "");
}

static void add_links(struct table *table, const Muster__Gpu *gpu, size_t gpus)
{
    struct str rest = str_of(gpu->links), word;
    for (size_t i = 0; i < gpus; i++) {
        bool there = str_next(&rest, ' ', &word);
        table_cell(table, "%.*s", there ? (int)word.size : 0, there ? word.data : "");
    }
}

void gpu_print_links(const Muster__Node *node, FILE *out)
{
    char names[GPU_LINKS_MAX][FORMAT_MAX], models[GPU_TEXT_MAX];
    const char *titles[GPU_LINKS_MAX + 4] = {""};
    size_t gpus = node->n_gpus < GPU_LINKS_MAX ? node->n_gpus : GPU_LINKS_MAX;
    struct table table;
    for (size_t i = 0; i < gpus; i++) {
        write_name(node, i, names[i]);
        titles[i + 1] = names[i];
    }
    titles[gpus + 1] = "PCIe";
    titles[gpus + 2] = ">NUMA";
    (void)fprintf(out, "%s: %s\n", node->name, gpu_models_text(node, models));
    table_init(&table, titles);
    for (size_t i = 0; i < gpus; i++) {
        table_cell(&table, "%s", names[i]);
        add_links(&table, node->gpus[i], gpus);
        add_place(&table, node->gpus[i]);
    }
    table_print(&table, out, "");
    table_fini(&table);
}
