#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tests/lib/safetensors_test.h"

static char *read_all(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *bytes = size > 8 ? malloc((size_t)size) : NULL;
    if (bytes && fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    *ret_size = (size_t)size;
    return bytes;
}

int safetensors_test_open(const char *path, struct safetensors_test *ret_file)
{
    struct safetensors_test file = {0};
    file.bytes = read_all(path, &file.size);
    if (!file.bytes)
        return -1;
    uint64_t length;
    memcpy(&length, file.bytes, sizeof(length));
    if (length <= file.size - 8)
        file.header = json_loadb(file.bytes + 8, length, 0, NULL);
    if (!file.header) {
        free(file.bytes);
        return -1;
    }
    file.data_start = 8 + length;
    *ret_file = file;
    return 0;
}

void safetensors_test_close(struct safetensors_test *file)
{
    json_decref(file->header);
    free(file->bytes);
    *file = (struct safetensors_test){0};
}

const float *safetensors_test_tensor(const struct safetensors_test *file, const char *name,
                                     size_t *ret_count)
{
    const char *dtype;
    json_int_t begin, end;
    json_t *entry = json_object_get(file->header, name);
    if (!entry ||
        json_unpack(entry, "{s:s, s:[I, I]}", "dtype", &dtype, "data_offsets", &begin, &end) != 0)
        return NULL;
    if (strcmp(dtype, "F32") || begin < 0 || end < begin ||
        (size_t)end > file->size - file->data_start)
        return NULL;
    *ret_count = (size_t)(end - begin) / sizeof(float);
    return (const float *)(const void *)(file->bytes + file->data_start + begin);
}

size_t safetensors_test_tensors(const struct safetensors_test *file)
{
    return json_object_size(file->header) - (json_object_get(file->header, "__metadata__") ? 1 : 0);
}
