/* Each allocation of each way into a checkpoint fails once: the answer is WK_ENOMEM, which sends
 * nobody to an older checkpoint, as damage would. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/checkpoint/file.h"
#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/load.h"
#include "libworker/checkpoint/manifest.h"
#include "libworker/checkpoint/write.h"
#include "tests/lib/fault.h"
#include "tests/lib/open_files.h"
#include "tests/lib/tmpdir.h"

/* So many tensors that a map of their names is sorted, which wants memory of its own. */
enum { TENSORS = 64, COUNT = 3, STEP = 5 };

static float values[TENSORS][COUNT];
static struct checkpoint_tensor tensors[TENSORS];
static struct tmpdir dir;
static char path[512];

static void begin(void)
{
    static const char *const models[] = {"{\"layers\": 2}"};
    struct checkpoint_about about = {3, 1, 1, "ddp", .models = models, .n_models = 1};
    struct train_numbers numbers = {.step = STEP, .n_units = 1};
    dir = tmpdir_make();
    for (int i = 0; i < TENSORS; i++) {
        tensors[i] = (struct checkpoint_tensor){.dtype = WK_F32, .dims = 1, .shape = {COUNT}};
        (void)snprintf(tensors[i].name, sizeof(tensors[i].name), "model.%d", i);
        tensors[i].data = values[i];
        tensors[i].bytes = sizeof(values[i]);
    }
    struct checkpoint_write what = {dir.path, tensors, TENSORS, &numbers, &about, NULL};
    cr_assert_eq(checkpoint_write(&what, NULL), 0);
    (void)snprintf(path, sizeof(path), "%s", tmpdir_path(&dir, "step-00000005"));
}

static void end(void)
{
    tmpdir_remove(&dir);
}

TestSuite(allocation, .init = begin, .fini = end);

static int numbers_alone(struct error *err)
{
    struct train_numbers numbers;
    return checkpoint_numbers(path, &numbers, err);
}

static int load(struct error *err)
{
    struct train_numbers numbers;
    return checkpoint_load(path, tensors, TENSORS, &numbers, err);
}

static int verify(struct error *err)
{
    return checkpoint_verify(path, err);
}

static void each_fails_once(int (*operation)(struct error *), int at_least)
{
    int failures = 0, files = open_files();
    for (int n = 1;; n++) {
        struct error err = {0};
        fault_in(n);
        int rc = operation(&err);
        if (!fault_struck()) {
            cr_assert_eq(rc, 0, "%s", err.text);
            break;
        }
        cr_assert(rc == WK_ENOMEM && err.code == WK_ENOMEM, "allocation %d gave %d and %d: %s", n,
                  rc, err.code, err.text);
        cr_assert(strstr(err.text, "memory"), "allocation %d: %s", n, err.text);
        failures++;
    }
    cr_expect_geq(failures, at_least);
    cr_expect_eq(open_files(), files, "a file stays open");
}

/* The manifest's text, what is parsed of it and the table of its files; then the numbers. */
Test(allocation, that_fails_while_the_numbers_are_read_is_no_damage)
{
    each_fails_once(numbers_alone, 6);
}

Test(allocation, that_fails_while_tensors_are_read_is_no_damage)
{
    each_fails_once(load, 9);
}

Test(allocation, that_fails_while_a_checkpoint_is_verified_is_no_damage)
{
    each_fails_once(verify, 9 + TENSORS);
}

/* What is cut or asks for more than a manifest can is damage however much memory there is. */
Test(allocation, that_a_damaged_manifest_wants_too_much_of_is_damage)
{
    static char nested[1 << 16];
    struct manifest manifest;
    struct error err = {0};
    memset(nested, '[', sizeof(nested));
    cr_expect_eq(manifest_parse(nested, sizeof(nested), &manifest, &err), WK_EIO);
    cr_expect_eq(err.code, WK_EIO);
}
