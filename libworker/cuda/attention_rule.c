#include "libworker/cuda/attention_rule.h"

#include <string.h>

enum {
    TILE = 128,
    SIZE_MULTIPLE = 8,
    SIZE_MAX_FORWARD = 256,
    SIZE_MAX_BACKWARD = 128,
    SM_90 = 90,
    SM_100 = 100,
    ANY_LENGTH = 91501, /* the first version with gradients for lengths that are no whole 128 */
    WHOLE_LENGTH = 128,
};

enum attention_choice attention_choice_of(const char *setting)
{
    if (!strcmp(setting, "own"))
        return ATTENTION_OWN;
    return strcmp(setting, "cudnn") == 0 ? ATTENTION_CUDNN : ATTENTION_AUTO;
}

size_t attention_workspace(const struct attention_facts *f)
{
    size_t length = (size_t)f->length, padded = (length + TILE - 1) / TILE * TILE;
    size_t all = (size_t)(f->samples * f->heads), low = sizeof(uint16_t);
    size_t shared = f->heads == f->kv_heads ? 0 : 2 * length * (size_t)f->size;
    return all * (padded * padded + shared) * low;
}

static int64_t largest_size(const struct attention_facts *f)
{
    bool hopper = f->arch == SM_90;
    return f->backward && !hopper ? SIZE_MAX_BACKWARD : SIZE_MAX_FORWARD;
}

static const char *why_not(const struct attention_facts *f)
{
    if (f->choice == ATTENTION_OWN)
        return "the setting is own";
    if (!f->cudnn)
        return "there is no cuDNN";
    if (f->type == WK_F32)
        return "the type is f32";
    if (f->decodes)
        return "it decodes with a cache";
    if (f->windowed)
        return "it has a window";
    if (f->documents)
        return "it has packed documents";
    if (f->size % SIZE_MULTIPLE)
        return "the size of its heads is no multiple of 8";
    if (f->size > largest_size(f))
        return "its heads are too large";
    if (f->length < 2)
        return "it has one position";
    if (f->backward && f->cudnn < ANY_LENGTH && f->length % WHOLE_LENGTH)
        return "its length is no multiple of 128, and cuDNN is older than 9.15.1";
    return NULL;
}

/* NULL: cuDNN can sum in a fixed order. */
static const char *why_not_in_order(const struct attention_facts *f)
{
    if (f->arch >= SM_100)
        return "the order of cuDNN's sums is not known there";
    if (attention_workspace(f) > ATTENTION_WORKSPACE_MAX)
        return "sums in a fixed order would need more than 2 GiB";
    return NULL;
}

struct attention_ruling attention_rule(const struct attention_facts *f)
{
    struct attention_ruling ruling = {why_not(f), true};
    const char *disorder = f->backward && !ruling.why_own ? why_not_in_order(f) : NULL;
    ruling.repeats = !disorder;
    if (disorder && f->choice != ATTENTION_CUDNN)
        ruling.why_own = disorder;
    return ruling;
}
