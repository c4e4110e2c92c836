#include <criterion/criterion.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/device/cores.h"
#include "agent/device/inventory.h"
#include "agent/device/nvml.h"
#include "tests/lib/tmpdir.h"

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
    struct nvml *nvml = nvml_open(why);
    int count = nvml ? nvml_gpus(nvml, gpus, INVENTORY_GPUS_MAX) : 0;
    nvml_close(nvml);
    for (int i = 0; i < count; i++) {
        cr_expect(gpus[i].model[0] && gpus[i].uuid[0]);
        cr_expect_gt(gpus[i].memory_bytes, 0);
    }
    cr_expect((nvml == NULL) == (why[0] != 0));
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

/* Eight GPUs: one is lost, one may run no programs, one is divided. */
Test(inventory, instances_are_slots_and_gpus_that_programs_cannot_use_are_none)
{
    static const char *const uuids[] = {"GPU-0", "MIG-2-1", "MIG-2-3", "GPU-3",
                                        "GPU-4", "GPU-6",   "GPU-7"};
    struct inventory inventory;
    setenv("FAKE_NVML_GPUS", "8", 1);
    setenv("FAKE_NVML_LOST", "1", 1);
    setenv("FAKE_NVML_DIVIDED", "2", 1);
    setenv("FAKE_NVML_PROHIBITED", "5", 1);
    cr_assert_not_null(dlopen(FAKE_NVML, RTLD_NOW), "%s", dlerror());
    cr_assert_eq(inventory_read(&inventory, NULL), 0);
    cr_assert_eq(inventory.gpus_count, 7);
    for (int i = 0; i < 7; i++)
        cr_expect_str_eq(inventory.gpus[i].uuid, uuids[i]);
    const struct inventory_gpu *instance = &inventory.gpus[2], *whole = &inventory.gpus[3];
    cr_expect(instance->instance == 3 && whole->instance == GPU_WHOLE);
    cr_expect_str_eq(instance->model, "NVIDIA H200 MIG 1g.18gb");
    cr_expect_eq(instance->memory_bytes, 18ull << 30);
    cr_expect_eq(instance->minor, 5, "its GPU's");
    cr_expect(whole->nvlinks == 4 && whole->persistent && !whole->exclusive);
}

static void write_readings(const char *path, const char *lines)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(lines, file);
    fclose(file);
}

static void expect_rows(const char *const *rows, int count)
{
    struct inventory_gpu gpus[INVENTORY_GPUS_MAX];
    char row[GPU_LINKS_TEXT_BYTES];
    cr_assert_not_null(dlopen(FAKE_NVML, RTLD_NOW), "%s", dlerror());
    struct nvml *nvml = nvml_open(NULL);
    cr_assert_not_null(nvml);
    cr_assert_eq(nvml_gpus(nvml, gpus, INVENTORY_GPUS_MAX), count);
    for (int i = 0; i < count; i++) {
        gpu_links_write(gpus[i].links, count, row);
        cr_expect_str_eq(row, rows[i], "GPU %d", i);
    }
    nvml_close(nvml);
}

/* Two rings of four with two links to each neighbour, as some boards have them, on two sockets. */
static const char *const two_islands[] = {
    "X NV2 NODE NV2 SYS SYS SYS SYS", "NV2 X NV2 NODE SYS SYS SYS SYS",
    "NODE NV2 X NV2 SYS SYS SYS SYS", "NV2 NODE NV2 X SYS SYS SYS SYS",
    "SYS SYS SYS SYS X NV2 NODE NV2", "SYS SYS SYS SYS NV2 X NV2 NODE",
    "SYS SYS SYS SYS NODE NV2 X NV2", "SYS SYS SYS SYS NV2 NODE NV2 X"};

Test(inventory, links_of_eight_gpus_in_two_islands)
{
    setenv("FAKE_NVML_GPUS", "8", 1);
    setenv("FAKE_NVML_SOCKET_GPUS", "4", 1);
    setenv("FAKE_NVML_NVLINKS", "0-1:2 1-2:2 2-3:2 0-3:2 4-5:2 5-6:2 6-7:2 4-7:2", 1);
    expect_rows(two_islands, 8);
    setenv("FAKE_NVML_NO_KINDS", "1", 1);
    expect_rows(two_islands, 8);
}

Test(inventory, links_without_nvlink_are_those_of_the_bus)
{
    static const char *const rows[] = {"X PIX NODE NODE", "PIX X NODE NODE", "NODE NODE X PIX",
                                       "NODE NODE PIX X"};
    setenv("FAKE_NVML_GPUS", "4", 1);
    setenv("FAKE_NVML_NVLINKS", "", 1);
    expect_rows(rows, 4);
}

/* One GPU has lost a link; another one is divided, and its instances have none. */
Test(inventory, links_through_switches_are_those_of_the_gpu_with_fewer)
{
    static const char *const rows[] = {"X NV4 NODE NODE NV3", "NV4 X NODE NODE NV3",
                                       "NODE NODE X PIX PIX", "NODE NODE PIX X PIX",
                                       "NV3 NV3 PIX PIX X"};
    struct tmpdir folder = tmpdir_make();
    const char *path = tmpdir_path(&folder, "readings");
    write_readings(path, "3 nvlinks 3\n");
    setenv("FAKE_NVML_READINGS", path, 1);
    setenv("FAKE_NVML_GPUS", "4", 1);
    setenv("FAKE_NVML_DIVIDED", "2", 1);
    expect_rows(rows, 5);
    tmpdir_remove(&folder);
}

struct rereading { /* of four GPUs */
    struct nvml *nvml;
    struct inventory_gpu gpus[INVENTORY_GPUS_MAX];
    const char *path;
    bool lost[4];
};

static void expect_again(struct rereading *r, const char *lines, bool differ,
                         const char *const *rows)
{
    char row[GPU_LINKS_TEXT_BYTES];
    write_readings(r->path, lines);
    cr_expect_eq(nvml_links_again(r->nvml, r->gpus, 4, r->lost), differ, "%s", lines);
    for (int i = 0; i < 4; i++) {
        gpu_links_write(r->gpus[i].links, 4, row);
        cr_expect_str_eq(row, rows[i], "GPU %d with %s", i, lines);
    }
}

/* A link of a ring, of both its ends; then GPUs that cannot be read, whose links stay. */
Test(inventory, links_that_go_down_and_come_back_are_read_again)
{
    static const char *const whole[] = {"X NV2 NODE NV2", "NV2 X NV2 NODE", "NODE NV2 X NV2",
                                        "NV2 NODE NV2 X"};
    static const char *const down[] = {"X PIX NODE NV2", "PIX X NV2 NODE", "NODE NV2 X NV2",
                                       "NV2 NODE NV2 X"};
    struct tmpdir folder = tmpdir_make();
    struct rereading r = {.path = tmpdir_path(&folder, "readings")};
    setenv("FAKE_NVML_READINGS", r.path, 1);
    setenv("FAKE_NVML_GPUS", "4", 1);
    setenv("FAKE_NVML_NVLINKS", "0-1:2 1-2:2 2-3:2 0-3:2", 1);
    write_readings(r.path, "");
    cr_assert_not_null(dlopen(FAKE_NVML, RTLD_NOW), "%s", dlerror());
    cr_assert_not_null(r.nvml = nvml_open(NULL));
    cr_assert_eq(nvml_gpus(r.nvml, r.gpus, INVENTORY_GPUS_MAX), 4);
    expect_again(&r, "", false, whole);
    expect_again(&r, "0 down 3\n1 down 3\n", true, down);
    cr_expect(r.gpus[0].nvlinks == 2 && r.gpus[1].nvlinks == 2 && r.gpus[2].nvlinks == 4);
    expect_again(&r, "0 down 3\n1 down 3\n", false, down);
    expect_again(&r, "0 down 3\n1 down 3\n2 lost 1\n", false, down);
    expect_again(&r, "0 down 3\n1 down 3\n2 gone 1\n", false, down);
    cr_expect_eq(r.gpus[2].nvlinks, 4);
    r.lost[2] = true; /* and it says what is not so */
    expect_again(&r, "2 down 15\n", true, whole);
    cr_expect_eq(r.gpus[2].nvlinks, 4);
    r.lost[2] = false;
    expect_again(&r, "", false, whole);
    nvml_close(r.nvml);
    tmpdir_remove(&folder);
}

Test(inventory, a_gpu_has_a_place_in_its_machine)
{
    struct inventory inventory;
    setenv("FAKE_NVML_SOCKET_GPUS", "1", 1);
    cr_assert_not_null(dlopen(FAKE_NVML, RTLD_NOW), "%s", dlerror());
    cr_assert_eq(inventory_read(&inventory, NULL), 0);
    const struct inventory_gpu *gpu = &inventory.gpus[1];
    cr_expect(gpu->pcie_generation == 5 && gpu->pcie_lanes == 8 && gpu->numa_node == 1);
    cr_expect(gpu->nvswitch && gpu->nvlinks == 4);
}

Test(inventory, a_gpu_is_read)
{
    struct tmpdir folder = tmpdir_make();
    struct inventory_gpu gpus[INVENTORY_GPUS_MAX];
    struct gpu_reading now;
    const char *path = tmpdir_path(&folder, "readings");
    setenv("FAKE_NVML_READINGS", path, 1);
    setenv("FAKE_NVML_DIVIDED", "1", 1);
    write_readings(path, "");
    cr_assert_not_null(dlopen(FAKE_NVML, RTLD_NOW), "%s", dlerror());
    struct nvml *nvml = nvml_open(NULL);
    cr_assert_not_null(nvml);
    cr_assert_eq(nvml_gpus(nvml, gpus, INVENTORY_GPUS_MAX), 3);
    cr_assert(nvml_read(nvml, &gpus[0], &now));
    cr_expect(now.xid == 0 && now.slowed == 0 && now.used_percent == 0 && now.ecc_errors == 0);
    write_readings(path, "0 used 87\n0 memory 512\n0 celsius 71\n0 watts 640\n0 ecc 3\n"
                         "0 slow 68\n0 xid 48\n1 celsius 55\n1 memory 64\n");
    cr_assert(nvml_read(nvml, &gpus[0], &now));
    cr_expect_eq(now.used_percent, 87);
    cr_expect_eq(now.memory_used_bytes, 512 << 20);
    cr_expect(now.temperature_c == 71 && now.power_w == 640 && now.ecc_errors == 3);
    cr_expect_eq(now.slowed, GPU_SLOWED_HEAT | GPU_SLOWED_POWER);
    cr_expect_eq(now.xid, 48);
    cr_assert(nvml_read(nvml, &gpus[0], &now));
    cr_expect_eq(now.xid, 48, "it is told once, and kept");
    cr_assert(nvml_read(nvml, &gpus[2], &now));
    cr_expect_eq(now.used_percent, GPU_UNKNOWN, "NVML has none of instances");
    cr_expect(now.temperature_c == 55 && now.memory_used_bytes == 64 << 20 && now.xid == 0);
    write_readings(path, "0 lost 1\n");
    cr_expect_not(nvml_read(nvml, &gpus[0], &now));
    cr_expect(nvml_read(nvml, &gpus[1], &now));
    nvml_close(nvml);
    tmpdir_remove(&folder);
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
