#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libworker/data/digest.h"
#include "libworker/data/source.h"
#include "tests/lib/tmpdir.h"

static const char *write_file(const struct tmpdir *dir, const void *data, size_t size)
{
    const char *path = tmpdir_path(dir, "data");
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(data, 1, size, file), size);
    fclose(file);
    return path;
}

static int open_bytes(const void *data, size_t size, enum wk_source_format format,
                      struct wk_source **ret, struct error *err)
{
    struct tmpdir dir = tmpdir_make();
    int rc = source_open(write_file(&dir, data, size), format, ret, err);
    tmpdir_remove(&dir);
    return rc;
}

Test(source, text_is_bytes)
{
    struct wk_source *source;
    int32_t got[3];
    cr_assert_eq(open_bytes("a\xff"
                            "b",
                            3, WK_SOURCE_AUTO, &source, NULL),
                 0);
    cr_assert_eq(wk_source_count(source), 3);
    source_read(source, 0, 3, got);
    cr_assert(got[0] == 'a' && got[1] == 255 && got[2] == 'b');
    wk_source_free(source);
}

Test(source, numbers_of_two_and_four_bytes)
{
    static const uint16_t two[] = {1, 50256, 65535};
    static const uint32_t four[] = {1, 128255, 0x7fffffff};
    struct wk_source *source;
    int32_t got[3];
    cr_assert_eq(open_bytes(two, sizeof(two), WK_SOURCE_U16, &source, NULL), 0);
    source_read(source, 1, 2, got);
    cr_assert(got[0] == 50256 && got[1] == 65535);
    wk_source_free(source);
    cr_assert_eq(open_bytes(four, sizeof(four), WK_SOURCE_U32, &source, NULL), 0);
    source_read(source, 0, 3, got);
    cr_assert(got[1] == 128255 && got[2] == 0x7fffffff);
    wk_source_free(source);
    cr_assert_eq(open_bytes(two, 5, WK_SOURCE_U16, &source, NULL), WK_EINVAL);
}

Test(source, llmc_headers_are_found_and_checked)
{
    unsigned char file[LLMC_HEADER_BYTES + 8] = {0};
    const int32_t header[] = {LLMC_MAGIC_U16, 1, 4};
    struct wk_source *source;
    struct error err = {0};
    int32_t got[4];
    memcpy(file, header, sizeof(header));
    file[LLMC_HEADER_BYTES + 2] = 7;
    cr_assert_eq(open_bytes(file, sizeof(file), WK_SOURCE_AUTO, &source, NULL), 0);
    cr_assert_eq(wk_source_count(source), 4);
    source_read(source, 0, 4, got);
    cr_assert_eq(got[1], 7);
    wk_source_free(source);
    cr_assert_eq(open_bytes(file, sizeof(file) - 2, WK_SOURCE_AUTO, &source, &err), WK_EINVAL);
    cr_assert(strstr(err.text, "its header has 4 tokens"), "%s", err.text);
    cr_assert_eq(open_bytes("text", 4, WK_SOURCE_LLMC, &source, NULL), WK_EINVAL);
}

Test(source, what_cannot_be_opened_is_named)
{
    struct wk_source *source;
    struct error err = {0};
    cr_assert_eq(source_open("/nonexistent/x", WK_SOURCE_AUTO, &source, &err), WK_ENOTFOUND);
    cr_assert(strstr(err.text, "/nonexistent/x"));
    cr_assert_eq(source_open("/tmp", WK_SOURCE_AUTO, &source, NULL), WK_EINVAL);
    cr_assert_eq(open_bytes("", 0, WK_SOURCE_TEXT, &source, NULL), WK_EINVAL);
}

Test(source, no_file_stays_open)
{
    int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct wk_source *source;
    close(lowest);
    cr_assert_eq(open_bytes("text", 4, WK_SOURCE_AUTO, &source, NULL), 0);
    wk_source_free(source);
    cr_assert_eq(open_bytes("text", 4, WK_SOURCE_LLMC, &source, NULL), WK_EINVAL);
    cr_assert_eq(source_open("/tmp", WK_SOURCE_AUTO, &source, NULL), WK_EINVAL);
    int again = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cr_expect_eq(again, lowest);
    close(again);
}

Test(source, text_in_memory_is_copied)
{
    char text[] = "abc";
    struct wk_source *source;
    int32_t got[3];
    cr_assert_eq(source_bytes(text, 3, &source, NULL), 0);
    memset(text, 'x', 3);
    source_read(source, 0, 3, got);
    cr_expect(got[0] == 'a' && got[1] == 'b' && got[2] == 'c');
    wk_source_free(source);
}

/* Small ones byte by byte; of large ones the first piece, the last and some between. */
Test(source, the_digest_tells_contents_of_one_length_apart)
{
    enum { LARGE = 3 << 20 };
    static unsigned char text[LARGE];
    static const size_t sizes[] = {1, 5, DIGEST_PIECE_BYTES, DIGEST_PIECE_BYTES + 1, LARGE};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t places[] = {0, sizes[i] - 1};
        struct wk_source *plain, *changed;
        cr_assert_eq(source_bytes(text, sizes[i], &plain, NULL), 0);
        for (int k = 0; k < 2; k++) {
            text[places[k]] = 1;
            cr_assert_eq(source_bytes(text, sizes[i], &changed, NULL), 0);
            cr_assert_neq(source_digest(plain), source_digest(changed), "byte %zu of %zu",
                          places[k], sizes[i]);
            text[places[k]] = 0;
            wk_source_free(changed);
        }
        cr_assert_eq(source_bytes(text, sizes[i], &changed, NULL), 0);
        cr_assert_eq(source_digest(plain), source_digest(changed));
        wk_source_free(changed);
        wk_source_free(plain);
    }
}
