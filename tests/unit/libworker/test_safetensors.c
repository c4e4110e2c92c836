#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/checkpoint/safetensors.h"

static int parse_text(const char *json, uint64_t data_bytes, struct safetensors *ret,
                      struct error *err)
{
    size_t size = strlen(json);
    unsigned char *header = calloc(1, size + 8);
    for (int i = 0; i < 8; i++)
        header[i] = (unsigned char)(size >> 8 * i);
    memcpy(header + 8, json, size);
    int rc = safetensors_parse(header, size + 8, size + 8 + data_bytes, ret, err);
    free(header);
    return rc;
}

Test(safetensors, what_is_written_is_read_back)
{
    struct safetensors_entry entries[] = {
        {.name = "b", .dtype = WK_F32, .dims = 2, .shape = {2, 3}, .bytes = 24},
        {.name = "a \"quoted\" n\xc3\xa4me",
         .dtype = WK_BF16,
         .dims = 1,
         .shape = {5},
         .bytes = 10},
        {.name = "scalar", .dtype = WK_I64, .dims = 0, .bytes = 8},
        {.name = "empty", .dtype = WK_U8, .dims = 1, .shape = {0}, .bytes = 0},
    };
    struct buf header = {0};
    cr_assert_eq(safetensors_write_header(entries, 4, &header), 0);
    cr_assert_eq(header.size % SAFETENSORS_ALIGN_BYTES, 0);
    struct safetensors back;
    struct error err = {0};
    cr_assert_eq(safetensors_parse(header.data, header.size, header.size + 42, &back, &err), 0,
                 "%s", err.text);
    cr_assert_eq(back.count, 4);
    for (int i = 0; i < 4; i++) {
        const struct safetensors_entry *entry = safetensors_find(&back, entries[i].name);
        cr_assert_not_null(entry);
        cr_assert(entry->dtype == entries[i].dtype && entry->dims == entries[i].dims);
        cr_assert(entry->offset == entries[i].offset && entry->bytes == entries[i].bytes);
        cr_assert_arr_eq(entry->shape, entries[i].shape, sizeof(entry->shape));
    }
    safetensors_fini(&back);
    buf_fini(&header);
}

Test(safetensors, damaged_headers_are_refused)
{
    static const struct {
        const char *json;
        uint64_t bytes;
    } bad[] = {
        {"{}x", 0},
        {"[]", 0},
        {"{\"a\":1}", 0},
        {"{\"a\":{}}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}", 8},
        {"{\"\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
        /* Two tensors on the same bytes, and a hole between two. */
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
         4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5,9]}}",
         9},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct safetensors back;
        struct error err = {0};
        int rc = parse_text(bad[i].json, bad[i].bytes, &back, &err);
        cr_assert_eq(rc, WK_EIO, "row %zu gives %d: %s", i, rc, err.text);
        cr_assert_eq(err.code, rc, "row %zu: %d", i, err.code);
        cr_assert_str_not_empty(err.text);
    }
}

Test(safetensors, unknown_types_are_said)
{
    struct safetensors back;
    struct error err = {0};
    int rc = parse_text("{\"w\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1, &back,
                        &err);
    cr_assert_eq(rc, WK_EUNSUPPORTED);
    cr_assert(strstr(err.text, "tensor w") && strstr(err.text, "F4"), "%s", err.text);
}

Test(safetensors, sizes_are_checked_before_use)
{
    unsigned char first[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    size_t size;
    cr_assert_eq(safetensors_header_bytes(first, UINT64_MAX, &size, NULL), WK_EIO);
    memset(first, 0, sizeof(first));
    cr_assert_eq(safetensors_header_bytes(first, 100, &size, NULL), WK_EIO);
    first[0] = 93;
    cr_assert_eq(safetensors_header_bytes(first, 100, &size, NULL), WK_EIO);
    first[0] = 92;
    cr_assert_eq(safetensors_header_bytes(first, 100, &size, NULL), 0);
    cr_assert_eq(size, 100);
}

/* Every single-byte change either parses to something consistent or is refused. */
Test(safetensors, no_single_byte_change_confuses_the_parser)
{
    struct safetensors_entry entries[] = {
        {.name = "w", .dtype = WK_F32, .dims = 2, .shape = {2, 3}, .bytes = 24},
        {.name = "v", .dtype = WK_U8, .dims = 1, .shape = {5}, .bytes = 5}};
    struct buf header = {0};
    cr_assert_eq(safetensors_write_header(entries, 2, &header), 0);
    uint64_t file_bytes = header.size + 29;
    for (size_t at = 8; at < header.size; at++) {
        for (int value = 0; value < 256; value += 5) {
            char kept = header.data[at];
            struct safetensors back;
            header.data[at] = (char)value;
            if (safetensors_parse(header.data, header.size, file_bytes, &back, NULL) == 0) {
                for (int i = 0; i < back.count; i++)
                    cr_assert(back.entries[i].offset + back.entries[i].bytes <= file_bytes);
                safetensors_fini(&back);
            }
            header.data[at] = kept;
        }
    }
    buf_fini(&header);
}
