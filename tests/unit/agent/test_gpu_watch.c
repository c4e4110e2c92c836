/* When the agent reads how its GPUs are connected, and what it tells. Time is the test's. */
#include <criterion/criterion.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/gpu_watch.h"
#include "tests/lib/tmpdir.h"

struct stage {
    struct tmpdir folder;
    const char *path;
    int64_t now_ms;
    struct loop *loop;
    struct log log;
    struct inventory inventory;
    struct gpu_watch *watch;
    int readings;
    char told[4096]; /* rows of the last report, each with its number of NVLinks; "" = none */
};

static struct stage stage;

static int64_t now_ms(void *self)
{
    struct stage *s = self;
    return s->now_ms;
}

static void on_read(void *arg, const struct gpu_watch_read *read)
{
    struct stage *s = arg;
    (void)read;
    s->readings++;
}

/* The time of the next reading, and the report after it. */
static void read_next(const char *lines)
{
    struct arena arena;
    Muster__NodeReport report = MUSTER__NODE_REPORT__INIT;
    FILE *file = fopen(stage.path, "w");
    cr_assert_not_null(file);
    fputs(lines, file);
    fclose(file);
    int before = stage.readings;
    while (stage.readings == before) {
        int64_t due_ms = loop_turn(stage.loop);
        cr_assert(stage.readings > before || due_ms < INT64_MAX, "nothing will be read");
        stage.now_ms = stage.readings > before ? stage.now_ms : due_ms;
    }
    arena_init(&arena, 1 << 20);
    cr_assert(gpu_watch_fill(stage.watch, &arena, &report));
    cr_expect_eq(report.n_gpus, 2);
    char *at = stage.told;
    *at = '\0';
    for (size_t i = 0; i < report.n_gpu_links; i++)
        at += sprintf(at, "%s %u; ", report.gpu_links[i]->links, report.gpu_links[i]->nvlinks);
    arena_fini(&arena);
}

static void begin(void)
{
    stage.folder = tmpdir_make();
    stage.path = tmpdir_path(&stage.folder, "readings");
    setenv("FAKE_NVML_READINGS", stage.path, 1);
    cr_assert_not_null(dlopen(FAKE_NVML, RTLD_NOW), "%s", dlerror());
    cr_assert_eq(inventory_read(&stage.inventory, NULL), 0);
    struct clock clock = {.self = &stage, .now_ms = now_ms, .wall_ms = now_ms};
    cr_assert_eq(loop_new_simulated(clock, &stage.loop, NULL), 0);
    struct gpu_watch_options options = {.loop = stage.loop,
                                        .log = &stage.log,
                                        .inventory = &stage.inventory,
                                        .on_read = on_read,
                                        .arg = &stage};
    cr_assert_not_null(stage.watch = gpu_watch_new(&options));
}

static void end(void)
{
    gpu_watch_free(stage.watch);
    loop_free(stage.loop);
    tmpdir_remove(&stage.folder);
}

TestSuite(gpu_watch, .init = begin, .fini = end);

Test(gpu_watch, links_are_told_with_the_first_reading_and_then_once_a_minute)
{
    read_next("");
    cr_expect_str_eq(stage.told, "X NV4 4; NV4 X 4; ");
    int64_t first_ms = stage.now_ms;
    for (int i = 1; i < GPU_WATCH_LINKS_MS / GPU_WATCH_EVERY_MS; i++) {
        read_next("1 nvlinks 3\n");
        cr_expect_str_eq(stage.told, "", "reading %d", i);
    }
    read_next("1 nvlinks 3\n");
    cr_expect_eq(stage.now_ms, first_ms + GPU_WATCH_LINKS_MS);
    cr_expect_str_eq(stage.told, "X NV3 4; NV3 X 3; ");
    gpu_watch_links(stage.watch, &stage.inventory);
    cr_expect_eq(stage.inventory.gpus[1].nvlinks, 3, "the next registration has them");
    cr_expect_eq(stage.inventory.gpus[0].links[1], gpu_link_of_nvlinks(3));
}

Test(gpu_watch, links_are_read_at_once_after_an_error_of_a_gpu_and_when_one_is_lost_or_back)
{
    read_next("");
    read_next("");
    cr_expect_str_eq(stage.told, "");
    read_next("1 nvlinks 2\n1 xid 74\n");
    cr_expect_str_eq(stage.told, "X NV2 4; NV2 X 2; ");
    read_next("1 nvlinks 4\n1 xid 74\n");
    cr_expect_str_eq(stage.told, "", "no news is no reason");
    read_next("1 nvlinks 4\n0 lost 1\n1 xid 74\n");
    cr_expect_str_eq(stage.told, "X NV2 4; NV2 X 4; ", "a pair with a lost one stays as it was");
    read_next("1 nvlinks 4\n1 xid 74\n");
    cr_expect_str_eq(stage.told, "X NV4 4; NV4 X 4; ");
}
