#include <criterion/criterion.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/device/inventory.h"
#include "agent/device/nvml.h"

static const char *label(const struct inventory *inventory, const char *key)
{
    for (int i = 0; i < inventory->labels_count; i++)
        if (strcmp(inventory->labels[i].key, key) == 0)
            return inventory->labels[i].value;
    return NULL;
}

Test(inventory, of_this_machine)
{
    struct inventory inventory;
    struct error err;
    cr_assert_eq(inventory_read(&inventory, &err), 0, "%s", err.text);
    cr_expect_geq(inventory.cpus, 1);
    cr_expect_leq(inventory.cpus, (double)sysconf(_SC_NPROCESSORS_CONF));
    cr_expect_gt(inventory.memory_bytes, 16 << 20);
    cr_expect_geq(inventory.slots, 1);
    cr_expect_str_eq(label(&inventory, "os"), "linux");
    cr_expect_not_null(label(&inventory, "hostname"));
    cr_expect_not_null(label(&inventory, "arch"));
    cr_expect_eq(label(&inventory, "gpu.model") != NULL, inventory.gpus_count > 0);
    if (inventory.gpus_count)
        cr_expect_eq((int)inventory.slots, inventory.gpus_count);
}

Test(inventory, gpus_are_there_or_it_says_why_not)
{
    struct inventory_gpu gpus[INVENTORY_GPUS_MAX];
    char why[NVML_WHY_BYTES];
    int count = nvml_gpus(gpus, INVENTORY_GPUS_MAX, why);
    for (int i = 0; i < count; i++) {
        cr_expect(gpus[i].model[0] && gpus[i].uuid[0]);
        cr_expect_gt(gpus[i].memory_bytes, 0);
    }
    cr_expect(count > 0 || why[0]);
}

/* The loader takes a library that is loaded already for one of the same name. */
Test(inventory, gpus_become_slots_and_a_label)
{
    struct inventory inventory;
    cr_assert_not_null(dlopen(FAKE_NVML, RTLD_NOW), "%s", dlerror());
    cr_assert_eq(inventory_read(&inventory, NULL), 0);
    cr_expect_eq(inventory.gpus_count, 2);
    cr_expect_eq(inventory.slots, 2);
    cr_expect_str_eq(inventory.gpus[1].uuid, "GPU-1");
    cr_expect_str_eq(inventory.gpus[1].model, "NVIDIA H200");
    cr_expect_eq(inventory.gpus[1].memory_bytes, 150ull << 30);
    cr_expect_str_eq(label(&inventory, "gpu.model"), "H200");
}

Test(inventory, labels_are_sorted_replaced_and_bounded)
{
    struct inventory inventory = {0};
    struct error err;
    cr_assert_eq(inventory_label(&inventory, "rack", "b", &err), 0);
    cr_assert_eq(inventory_label(&inventory, "gpu", "x", &err), 0);
    cr_assert_eq(inventory_label(&inventory, "rack", "c", &err), 0);
    cr_expect_eq(inventory.labels_count, 2);
    cr_expect_str_eq(inventory.labels[0].key, "gpu");
    cr_expect_str_eq(label(&inventory, "rack"), "c");
    char key[80];
    memset(key, 'k', 64);
    key[64] = '\0';
    cr_expect_eq(inventory_label(&inventory, key, "v", &err), E_INVALID_ARGUMENT);
    cr_expect_eq(inventory_label(&inventory, "", "v", &err), E_INVALID_ARGUMENT);
    cr_expect_eq(inventory_label(&inventory, "k", "", &err), E_INVALID_ARGUMENT);
    for (int i = inventory.labels_count; i < INVENTORY_LABELS_MAX; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        cr_expect_eq(inventory_label(&inventory, key, "v", &err), 0);
    }
    cr_expect_eq(inventory_label(&inventory, "one-more", "v", &err), E_RESOURCE_EXHAUSTED);
    cr_expect_eq(inventory_label(&inventory, "rack", "d", &err), 0);
}
