#include <criterion/criterion.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/device/cores.h"
#include "agent/device/inventory.h"
#include "agent/device/nvml.h"

Test(inventory, of_this_machine)
{
    struct inventory inventory;
    struct error err;
    cr_assert_eq(inventory_read(&inventory, &err), 0, "%s", err.text);
    cr_expect_geq(inventory.cpus, 1);
    cr_expect_leq(inventory.cpus, (double)sysconf(_SC_NPROCESSORS_CONF));
    cr_expect_gt(inventory.memory_bytes, 16 << 20);
    cr_expect_geq(inventory.slots, 1);
    cr_expect_str_eq(inventory_label_value(&inventory, "os"), "linux");
    cr_expect_not_null(inventory_label_value(&inventory, "hostname"));
    cr_expect_not_null(inventory_label_value(&inventory, "arch"));
    cr_expect_eq(inventory_label_value(&inventory, "gpu.model") != NULL, inventory.gpus_count > 0);
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
    cr_expect_str_eq(inventory_label_value(&inventory, "gpu.model"), "H200");
    cr_expect(inventory.gpus[0].minor == 1 && inventory.gpus[1].minor == 0, "as NVML says it");
    cr_expect_gt(inventory.gpu_major, 0);
    setenv("FAKE_NVML_NO_MINOR", "1", 1);
    cr_assert_eq(inventory_read(&inventory, NULL), 0);
    cr_expect(inventory.gpus_count == 2 && inventory.gpus[0].minor == -1);
    cr_expect_eq(inventory.gpu_major, 0, "nothing is kept from anybody by guesses");
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
    cr_expect_str_eq(inventory_label_value(&inventory, "rack"), "c");
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

static void expect_share(const struct cores *cores, struct cores_request request, const char *text)
{
    char share[CORES_TEXT_BYTES];
    cores_share(cores, &request, share);
    cr_expect_str_eq(share, text, "slot %u", request.slot);
}

Test(cores, slots_share_them_evenly)
{
    struct cores cores = {.count = 9, .ids = {0, 4, 1, 5, 2, 6, 3, 7, 9}}; /* siblings together */
    expect_share(&cores, (struct cores_request){0, 1, 4, 1}, "0,4");
    expect_share(&cores, (struct cores_request){1, 2, 4, 4}, "1-2,5-6");
    expect_share(&cores, (struct cores_request){3, 1, 4, 0}, "3,7");
    expect_share(&cores, (struct cores_request){3, 1, 4, 2.5}, "");  /* asked for more */
    expect_share(&cores, (struct cores_request){0, 1, 10, 0.5}, ""); /* more slots than cores */
    expect_share(&cores, (struct cores_request){3, 2, 4, 1}, "");    /* no such slot */
    expect_share(&(struct cores){0}, (struct cores_request){0, 1, 1, 1}, "");
}

Test(cores, of_this_machine_in_parts)
{
    struct cores all, half, off;
    struct error err = {0};
    cr_assert_eq(cores_read("all", &all, &err), 0, "%s", err.text);
    cr_assert_gt(all.count, 0);
    for (int part = 1, from = 0; part <= 2; part++, from += half.count) {
        cr_assert_eq(cores_read(part == 1 ? "1/2" : "2/2", &half, &err), 0, "%s", err.text);
        cr_expect_eq(half.count, all.count / 2);
        cr_expect_eq(memcmp(half.ids, &all.ids[from], sizeof(int) * (size_t)half.count), 0);
    }
    cr_assert_eq(cores_read("off", &off, &err), 0);
    cr_expect_eq(off.count, 0);
    cr_expect_eq(cores_read("3/2", &off, &err), E_INVALID_ARGUMENT);
    cr_expect_eq(cores_read("some", &off, &err), E_INVALID_ARGUMENT);
}
