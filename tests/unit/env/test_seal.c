#include "common/env/seal.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/env/disk_os.h"
#include "common/env/env.h"
#include "common/env/rng_os.h"
#include "tests/lib/tmpdir.h"

static const char plain_text[] = "hf_abcdefghijklmnop";
static const struct seal_text name = {"vision\0hf", 10}, other_name = {"vision\0gh", 10};
static const struct seal_text plain = {plain_text, sizeof(plain_text) - 1};

static struct seal_keys new_keys(void)
{
    struct seal_keys keys = {0};
    struct rng_source rng = rng_os();
    cr_assert_eq(seal_keys_add(&keys, &rng, NULL), 0);
    return keys;
}

static struct buf sealed_by(const struct seal_keys *keys)
{
    struct rng_source rng = rng_os();
    struct buf out = {0};
    cr_assert_eq(seal(keys, &rng, &name, &plain, &out, NULL), 0);
    cr_assert_eq(out.size, plain.size + SEAL_OVERHEAD_BYTES);
    return out;
}

static int open_as(const struct seal_keys *keys, const struct seal_text *as,
                   const struct buf *sealed)
{
    struct buf out = {0};
    struct seal_text text = {sealed->data, sealed->size};
    int rc = seal_open(keys, as, &text, &out, NULL);
    if (rc == 0)
        cr_assert(out.size == plain.size && memcmp(out.data, plain_text, out.size) == 0);
    else
        cr_assert_eq(out.size, 0);
    buf_fini(&out);
    return rc;
}

Test(seal, what_was_sealed_opens_and_does_not_show_the_value)
{
    struct seal_keys keys = new_keys();
    struct buf sealed = sealed_by(&keys), again = sealed_by(&keys);
    cr_assert_eq(open_as(&keys, &name, &sealed), 0);
    cr_assert_null(memmem(sealed.data, sealed.size, plain_text, 6));
    cr_assert(memcmp(sealed.data, again.data, sealed.size) != 0, "each seal has its own nonce");
    buf_fini(&sealed);
    buf_fini(&again);
}

Test(seal, every_changed_byte_and_every_cut_is_refused)
{
    struct seal_keys keys = new_keys();
    struct buf sealed = sealed_by(&keys);
    for (size_t i = 0; i < sealed.size; i++) {
        sealed.data[i] ^= 1;
        cr_assert_lt(open_as(&keys, &name, &sealed), 0, "byte %zu", i);
        sealed.data[i] ^= 1;
    }
    while (sealed.size-- > 0)
        cr_assert_lt(open_as(&keys, &name, &sealed), 0);
    sealed.size = plain.size + SEAL_OVERHEAD_BYTES;
    cr_assert_eq(open_as(&keys, &name, &sealed), 0);
    buf_fini(&sealed);
}

Test(seal, another_name_and_another_key_are_refused)
{
    struct seal_keys keys = new_keys(), foreign = new_keys();
    struct buf sealed = sealed_by(&keys);
    cr_assert_eq(open_as(&keys, &other_name, &sealed), E_DATA_LOSS);
    cr_assert_eq(open_as(&foreign, &name, &sealed), E_FAILED_PRECONDITION);
    memcpy(foreign.ids[0], keys.ids[0], SEAL_ID_BYTES); /* a key that only claims to be it */
    cr_assert_eq(open_as(&foreign, &name, &sealed), E_DATA_LOSS);
    buf_fini(&sealed);
}

Test(seal, the_first_key_seals_and_older_ones_still_open)
{
    struct seal_keys keys = new_keys();
    struct rng_source rng = rng_os();
    struct buf old = sealed_by(&keys);
    cr_assert_eq(seal_keys_add(&keys, &rng, NULL), 0);
    struct buf fresh = sealed_by(&keys);
    struct seal_text old_text = {old.data, old.size}, fresh_text = {fresh.data, fresh.size};
    cr_assert(seal_has_key(&keys, &old_text) && !seal_is_newest(&keys, &old_text));
    cr_assert(seal_is_newest(&keys, &fresh_text));
    cr_assert_eq(open_as(&keys, &name, &old), 0);
    cr_assert_eq(open_as(&keys, &name, &fresh), 0);
    buf_fini(&old);
    buf_fini(&fresh);
}

Test(seal, a_key_file_is_made_once_for_its_owner_alone_and_read_back)
{
    struct tmpdir dir = tmpdir_make();
    struct disk disk = disk_os();
    struct rng_source rng = rng_os();
    const char *path = tmpdir_path(&dir, "secrets.key");
    struct seal_keys keys = new_keys(), read = {0};
    struct stat status;
    struct error err = {0};
    cr_assert_eq(seal_keys_read(&disk, path, &read, NULL), E_NOT_FOUND);
    cr_assert_eq(seal_keys_create(path, &keys, &err), 0, "%s", err.text);
    cr_assert_eq(seal_keys_create(path, &keys, NULL), E_ALREADY_EXISTS);
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_eq(status.st_mode & 0777, 0600);
    cr_assert_eq(seal_keys_read(&disk, path, &read, &err), 0, "%s", err.text);
    cr_assert(read.count == 1 && memcmp(read.keys[0], keys.keys[0], SEAL_KEY_BYTES) == 0);
    cr_assert_eq(seal_keys_add(&keys, &rng, NULL), 0);
    cr_assert_eq(seal_keys_replace(&disk, path, &keys, NULL), 0);
    cr_assert_eq(seal_keys_read(&disk, path, &read, NULL), 0);
    cr_assert_eq(read.count, 2);
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_eq(status.st_mode & 0777, 0600);
    cr_assert_eq(chmod(path, 0640), 0);
    cr_assert_eq(seal_keys_read(&disk, path, &read, &err), E_PERMISSION_DENIED);
    tmpdir_remove(&dir);
}

Test(seal, texts_that_are_no_keys_are_refused)
{
    static const char key[] = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
    char text[1024];
    struct seal_keys keys = {0};
    cr_assert_lt(seal_keys_parse("", &keys, NULL), 0);
    cr_assert_lt(seal_keys_parse("# none\n", &keys, NULL), 0);
    cr_assert_lt(seal_keys_parse("secret", &keys, NULL), 0);
    cr_assert_lt(seal_keys_parse("00112233", &keys, NULL), 0);
    snprintf(text, sizeof(text), "%s0", key);
    cr_assert_lt(seal_keys_parse(text, &keys, NULL), 0);
    snprintf(text, sizeof(text), "# two\n%s\n %s # older", key, key);
    cr_assert_eq(seal_keys_parse(text, &keys, NULL), 0);
    cr_assert_eq(keys.count, 2);
    snprintf(text, sizeof(text), "%s,%s", key, key);
    cr_assert_eq(seal_keys_parse(text, &keys, NULL), 0);
    cr_assert_eq(keys.count, 2);
    cr_assert_eq(keys.keys[0][31], 0xff);
}
