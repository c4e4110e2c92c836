#include "common/env/tls_read.h"
#include "coordinator/daemon/keys.h"

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

static int open_keys(int64_t wall_ms, struct keys *ret)
{
    struct keys_options how = {.data_dir = t.folder};
    return keys_open(&how, wall_ms, ret, &t.err);
}

static void setup(void)
{
    snprintf(t.folder, sizeof(t.folder), "/tmp/muster-keys-XXXXXX");
    cr_assert_not_null(mkdtemp(t.folder));
    t.now_ms = (int64_t)time(NULL) * 1000;
    cr_assert_eq(open_keys(t.now_ms, &t.keys), 0, "%s", t.err.text);
}

static void teardown(void)
{
    unlink(t.keys.server);
    unlink(t.keys.cluster);
    rmdir(t.folder);
}

TestSuite(keys, .init = setup, .fini = teardown);

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
    cr_assert_eq(open_keys(t.now_ms, &again), 0);
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
    cr_assert_eq(open_keys(late_ms, &again), 1);
    cr_assert_neq(t.err.code, 0);
    cr_assert_str_eq(again.pin, t.keys.pin);
    cr_assert_lt(open_keys(t.keys.expires_wall_ms, &again), 0);
}

Test(keys, a_server_key_that_cannot_be_read_is_told)
{
    struct keys again;
    spoil(t.keys.server);
    cr_assert_eq(open_keys(t.now_ms, &again), E_DATA_LOSS);
}

Test(keys, a_certificate_that_lacks_a_name_is_renewed_once)
{
    static const char *const names[] = {"here.example", "10.0.0.1", "FD00:0::7", NULL};
    static const char *const more[] = {"fd00::7", "other.example", NULL};
    struct keys_options how = {.data_dir = t.folder, .names = names};
    struct buf text;
    struct keys again;
    buf_init(&text, 4096);
    cr_assert_eq(keys_open(&how, t.now_ms, &again, &t.err), 0, "%s", t.err.text);
    cr_assert_eq(tls_read_names(again.server, &text, &t.err), 0);
    cr_assert_str_eq(buf_cstr(&text), "muster-coordinator, here.example, 10.0.0.1, fd00::7");
    cr_assert_eq(keys_renew(&again, t.now_ms, &t.err), 0);
    cr_assert(keys_have_names(&again));
    again.names = more;
    cr_assert_not(keys_have_names(&again));
    cr_assert_eq(keys_renew(&again, t.now_ms, &t.err), 1);
    cr_assert(keys_have_names(&again));
    cr_assert_str_eq(again.pin, t.keys.pin);
    buf_fini(&text);
}

Test(keys, a_new_server_key_keeps_the_names)
{
    static const char *const names[] = {"here.example", "10.0.0.1", NULL};
    struct keys_options how = {.data_dir = t.folder, .names = names};
    struct keys again;
    cr_assert_eq(keys_open(&how, t.now_ms, &again, &t.err), 0, "%s", t.err.text);
    cr_assert_eq(tls_make_server_key(again.server, again.cluster, NULL, &t.err), 0);
    cr_assert(tls_has_names(again.server, names));
}
