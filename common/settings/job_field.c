#include "common/settings/job_field.h"

#include <string.h>

const struct job_field job_fields[JOB_FIELDS_COUNT] = {
#define ROW(id, member, shape_, key_, help_, ...)                                                  \
    [JOB_FIELD_##id] = {.key = key_, .help = help_, .shape = SHAPE_##shape_, __VA_ARGS__},
#define FLAG_ROW(id, member, shape_, key_, help_, flag_, letter, value, ...)                       \
    ROW(id, member, shape_, key_, help_, .flag = flag_, __VA_ARGS__)
    JOB_FIELDS(ROW, FLAG_ROW)
#undef FLAG_ROW
#undef ROW
};

size_t job_field_section(const char *key)
{
    const char *dot = strchr(key, '.');
    return dot ? (size_t)(dot - key) : 0;
}

bool job_field_top(const char *name)
{
    for (int i = 0; i < JOB_FIELDS_COUNT; i++) {
        const char *key = job_fields[i].key;
        size_t size = strcspn(key, ".");
        if (strlen(name) == size && memcmp(name, key, size) == 0)
            return true;
    }
    return false;
}
