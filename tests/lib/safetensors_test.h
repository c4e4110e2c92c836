/* A safetensors reader for tests, written apart from libworker's so that one checks the other.
 * Reads whole files of F32 tensors; owned by the caller; any thread.
 */
#ifndef LIB_SAFETENSORS_TEST_H
#define LIB_SAFETENSORS_TEST_H

#include <stddef.h>

struct safetensors_test {
    void *header; /* the parsed header */
    char *bytes;  /* the file */
    size_t size, data_start;
};

/* 0, or -1 when the file is missing or not safetensors. */
int safetensors_test_open(const char *path, struct safetensors_test *ret_file);
void safetensors_test_close(struct safetensors_test *file);

/* The elements of a tensor and their number, or NULL. Valid until close. */
const float *safetensors_test_tensor(const struct safetensors_test *file, const char *name,
                                     size_t *ret_count);

/* Tensors in the file. */
size_t safetensors_test_tensors(const struct safetensors_test *file);

#endif
