/* Files of tests/reference, which other programs made (see its README.md). For Criterion programs,
 * built with MUSTER_SOURCE_DIR; any thread.
 */
#ifndef LIB_REFERENCE_H
#define LIB_REFERENCE_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

enum { REFERENCE_PATH_MAX = 4096 };

/* The path of a file there; the test fails when the file is missing. */
static inline const char *reference_path(const char *file, char ret_path[REFERENCE_PATH_MAX])
{
    snprintf(ret_path, REFERENCE_PATH_MAX, "%s/tests/reference/%s", MUSTER_SOURCE_DIR, file);
    cr_assert_eq(access(ret_path, R_OK), 0, "there is no reference file %s", ret_path);
    return ret_path;
}

/* The JSON of a file there, freed with json_decref; the test fails when there is none. */
static inline json_t *reference_json(const char *file)
{
    char path[REFERENCE_PATH_MAX];
    json_t *root = json_load_file(reference_path(file, path), 0, NULL);
    cr_assert_not_null(root, "%s is not JSON", path);
    return root;
}

#endif
