#include "coordinator/keys.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const int64_t day_ms = 86400000;

static struct {
    char folder[64];
    struct keys keys;
    struct error err;
    int64_t now_ms;
} t;

static void setup(void)
{
    snprintf(t.folder, sizeof(t.folder), "/tmp/muster-keys-XXXXXX");
    cr_assert_not_null(mkdtemp(t.folder));
    t.now_ms = (int64_t)time(NULL) * 1000;
    cr_assert_eq(keys_open(t.folder, NULL, t.now_ms, &t.keys, &t.err), 0, "%s", t.err.text);
}

static void teardown(void)
{
    unlink(t.keys.server);
    unlink(t.keys.cluster);
    rmdir(t.folder);
}

TestSuite(keys, .init = setup, .fini = teardown, .timeout = 30);

static void spoil(const char *path)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs("no key\n", file);
    fclose(file);
}

Test(keys, what_ends_soon_is_renewed_and_the_pin_stays)
{
    struct keys again;
    int64_t late_ms = t.keys.expires_wall_ms - (TLS_RENEW_DAYS - 1) * day_ms;
    cr_assert_eq(keys_renew(&t.keys, t.now_ms, &t.err), 0);
    cr_assert_eq(keys_renew(&t.keys, late_ms, &t.err), 1, "%s", t.err.text);
    cr_assert_eq(keys_open(t.folder, NULL, t.now_ms, &again, &t.err), 0);
    cr_assert_str_eq(again.pin, t.keys.pin);
}

/* On a full disk, say: weeks are left to mend that, and a coordinator that is down helps nobody. */
Test(keys, what_cannot_be_renewed_yet_is_used_as_long_as_it_is_good)
{
    struct keys again;
    int64_t late_ms = t.keys.expires_wall_ms - (TLS_RENEW_DAYS - 1) * day_ms;
    spoil(t.keys.cluster);
    cr_assert_lt(keys_renew(&t.keys, late_ms, &t.err), 0);
    t.err = (struct error){0};
    cr_assert_eq(keys_open(t.folder, NULL, late_ms, &again, &t.err), 0, "%s", t.err.text);
    cr_assert_str_eq(again.pin, t.keys.pin);
    cr_assert_lt(keys_open(t.folder, NULL, t.keys.expires_wall_ms, &again, &t.err), 0);
}

Test(keys, a_server_key_that_cannot_be_read_is_told)
{
    struct keys again;
    spoil(t.keys.server);
    cr_assert_eq(keys_open(t.folder, NULL, t.now_ms, &again, &t.err), E_DATA_LOSS);
}
