/* Whose kernels compute an attention (cuda/attention_rule.h): a row for each reason. */
#include <criterion/criterion.h>

#include "libworker/cuda/attention_rule.h"

enum mask { NO_MORE, WINDOW, DOCUMENTS, CACHE };

struct row {
    enum attention_choice choice;
    int cudnn, arch;
    enum wk_dtype type;
    int64_t samples, heads, kv_heads, length, size;
    enum mask mask;
    const char *forward, *backward; /* why they are the own kernels'; NULL: cuDNN's */
    bool disorder;                  /* cuDNN's gradients differ from run to run */
};

#define GPT2  64, 12, 12, 1024, 64
#define LLAMA 4, 32, 8, 2048, 128
#define LONG  4, 32, 8, 4096, 128

static const char large[] = "its heads are too large";
static const char memory[] = "sums in a fixed order would need more than 2 GiB";
static const char order[] = "the order of cuDNN's sums is not known there";

static const struct row table[] = {
    {ATTENTION_AUTO, 91900, 90, WK_BF16, GPT2, 0, NULL, NULL},
    {ATTENTION_AUTO, 91900, 90, WK_F16, LLAMA, 0, NULL, NULL},
    {ATTENTION_AUTO, 91900, 80, WK_BF16, GPT2, 0, NULL, NULL},
    {ATTENTION_AUTO, 92600, 100, WK_BF16, GPT2, 0, NULL, order},
    {ATTENTION_CUDNN, 92600, 100, WK_BF16, GPT2, 0, NULL, NULL, true},
    {ATTENTION_AUTO, 91900, 90, WK_BF16, LONG, 0, NULL, memory},
    {ATTENTION_CUDNN, 91900, 90, WK_BF16, LONG, 0, NULL, NULL, true},
    {ATTENTION_CUDNN, 91900, 90, WK_BF16, LLAMA, 0, NULL, NULL},
    {ATTENTION_OWN, 91900, 90, WK_BF16, GPT2, 0, "the setting is own", "the setting is own"},
    {ATTENTION_CUDNN, 0, 90, WK_BF16, GPT2, 0, "there is no cuDNN", "there is no cuDNN"},
    {ATTENTION_CUDNN, 91900, 90, WK_F32, GPT2, 0, "the type is f32", "the type is f32"},
    {ATTENTION_CUDNN, 91900, 90, WK_BF16, GPT2, WINDOW, "it has a window", "it has a window"},
    {ATTENTION_CUDNN, 91900, 90, WK_BF16, GPT2, DOCUMENTS, "it has packed documents",
     "it has packed documents"},
    {ATTENTION_CUDNN, 91900, 90, WK_BF16, GPT2, CACHE, "it decodes with a cache",
     "it decodes with a cache"},
    {ATTENTION_AUTO, 91900, 90, WK_BF16, 2, 4, 4, 256, 20, 0,
     "the size of its heads is no multiple of 8", "the size of its heads is no multiple of 8"},
    {ATTENTION_AUTO, 91900, 90, WK_BF16, 2, 4, 4, 256, 256, 0, NULL, NULL},
    {ATTENTION_AUTO, 91900, 80, WK_BF16, 2, 4, 4, 256, 128, 0, NULL, NULL},
    {ATTENTION_CUDNN, 91900, 80, WK_BF16, 2, 4, 4, 256, 136, 0, NULL, large},
    {ATTENTION_CUDNN, 91900, 100, WK_BF16, 2, 4, 4, 256, 192, 0, NULL, large},
    {ATTENTION_AUTO, 91900, 90, WK_BF16, 2, 4, 4, 1, 64, 0, "it has one position",
     "it has one position"},
    {ATTENTION_AUTO, 91501, 90, WK_BF16, 3, 6, 2, 77, 64, 0, NULL, NULL},
    {ATTENTION_AUTO, 91500, 90, WK_BF16, 3, 6, 2, 77, 64, 0, NULL,
     "its length is no multiple of 128, and cuDNN is older than 9.15.1"},
    {ATTENTION_AUTO, 91500, 90, WK_BF16, 3, 6, 2, 256, 64, 0, NULL, NULL},
};
enum { ROWS = sizeof(table) / sizeof(*table) };

static struct attention_facts facts_of(const struct row *row, bool backward)
{
    return (struct attention_facts){
        .choice = row->choice,
        .cudnn = row->cudnn,
        .arch = row->arch,
        .type = row->type,
        .samples = row->samples,
        .heads = row->heads,
        .kv_heads = row->kv_heads,
        .length = row->length,
        .size = row->size,
        .windowed = row->mask == WINDOW,
        .documents = row->mask == DOCUMENTS,
        .decodes = row->mask == CACHE,
        .backward = backward,
    };
}

static void check_reason(int i, const char *ours, const char *expected)
{
    cr_expect_str_eq(ours ? ours : "cuDNN's", expected ? expected : "cuDNN's", "row %d", i);
}

Test(attention_rule, each_row_has_its_reason)
{
    for (int i = 0; i < ROWS; i++) {
        struct attention_facts forward = facts_of(&table[i], false);
        struct attention_facts backward = facts_of(&table[i], true);
        struct attention_ruling ruling = attention_rule(&backward);
        check_reason(i, attention_rule(&forward).why_own, table[i].forward);
        check_reason(i, ruling.why_own, table[i].backward);
        cr_expect(ruling.why_own || ruling.repeats == !table[i].disorder, "row %d", i);
    }
}

/* What cuDNN 9.19 asked for, less than 1 KiB above (docs/cuda.md). */
Test(attention_rule, memory_is_that_of_all_scores)
{
    struct attention_facts gpt2 = facts_of(&table[0], true), llama = facts_of(&table[1], true);
    cr_expect_eq(attention_workspace(&gpt2), 1610612736u);
    cr_expect_eq(attention_workspace(&llama), 1207959552u);
}

Test(attention_rule, the_setting_has_three_values)
{
    cr_expect_eq(attention_choice_of("own"), ATTENTION_OWN);
    cr_expect_eq(attention_choice_of("cudnn"), ATTENTION_CUDNN);
    cr_expect_eq(attention_choice_of("auto"), ATTENTION_AUTO);
}
