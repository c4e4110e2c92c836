#include "cli/rank_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"
#include "common/rpc/message.h"

enum {
    PAGE = 1000,
    PAGES_MAX = 256,   /* more ranks than any cluster has */
    NUMBERS_SHOWN = 6, /* of a rank, beside its loss */
};

struct pages {
    Muster__GetRanksAnswer *answers[PAGES_MAX];
    int count;
    Muster__GetRanksAnswer all; /* of the first page, with the ranks of all; they are borrowed */
};

static void pages_fini(struct pages *pages)
{
    for (int i = 0; i < pages->count; i++)
        rpc_message_free(pages->answers[i]);
    free(pages->all.ranks);
}

static int ask_ranks(struct client *client, const char *job, struct pages *pages, struct error *err)
{
    Muster__GetRanksRequest request = MUSTER__GET_RANKS_REQUEST__INIT;
    request.id = (char *)(uintptr_t)job;
    request.limit = PAGE;
    do {
        Muster__GetRanksAnswer *answer = NULL;
        int rc = client_call(client, "GetRanks", &request, NULL, &answer, err);
        if (rc)
            return rc;
        pages->answers[pages->count++] = answer;
        request.first = answer->next;
    } while (request.first && pages->count < PAGES_MAX);
    return 0;
}

static int join_pages(struct pages *pages, struct error *err)
{
    size_t count = 0;
    pages->all = *pages->answers[0];
    pages->all.next = 0;
    pages->all.n_ranks = 0;
    for (int i = 0; i < pages->count; i++)
        count += pages->answers[i]->n_ranks;
    pages->all.ranks = calloc(count + 1, sizeof(Muster__Rank *));
    if (!pages->all.ranks)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for %zu ranks", count);
    for (int i = 0; i < pages->count; i++)
        for (size_t j = 0; j < pages->answers[i]->n_ranks; j++)
            pages->all.ranks[pages->all.n_ranks++] = pages->answers[i]->ranks[j];
    return 0;
}

static void put_ms(struct table *table, bool known, double ms)
{
    if (known)
        table_cell(table, "%.4g ms", ms);
    else
        table_cell(table, "%s", "");
}

/* Its loss, and in one cell the others. */
static void put_numbers(struct table *table, const Muster__Rank *rank)
{
    struct buf text = {0};
    char loss[FORMAT_MAX] = "";
    int others = 0;
    for (size_t i = 0; i < rank->n_numbers; i++) {
        const Muster__Rank__NumbersEntry *number = rank->numbers[i];
        if (strcmp(number->key, "loss") == 0)
            (void)snprintf(loss, sizeof(loss), "%.4f", number->value);
        else if (++others <= NUMBERS_SHOWN)
            (void)buf_printf(&text, "%s%s %.6g", others > 1 ? ", " : "", number->key,
                             number->value);
    }
    if (others > NUMBERS_SHOWN)
        (void)buf_printf(&text, " and %d more", others - NUMBERS_SHOWN);
    table_cell(table, "%s", loss);
    table_cell(table, "%s", buf_cstr(&text));
    buf_fini(&text);
}

static void put_place(struct table *table, const Muster__Rank *rank, bool gpus)
{
    const char *state = transcode_enum_name(&muster__worker__state__descriptor, (int)rank->state);
    table_cell(table, "%u", rank->rank);
    table_cell(table, "%s", rank->node);
    if (!gpus)
        table_cell(table, "%u", rank->slot);
    else if (rank->gpu_known_case == MUSTER__RANK__GPU_KNOWN_GPU)
        table_cell(table, "%u", rank->gpu);
    else
        table_cell(table, "%s", "");
    table_cell(table, "%s", state ? state : "unknown");
    if (rank->step_known_case == MUSTER__RANK__STEP_KNOWN_STEP)
        table_cell(table, "%" PRIu64, rank->step);
    else
        table_cell(table, "%s", "");
}

static void put_rank(struct table *table, const Muster__Rank *rank, bool gpus)
{
    put_place(table, rank, gpus);
    put_ms(table, rank->step_ms_known_case == MUSTER__RANK__STEP_MS_KNOWN_STEP_MS, rank->step_ms);
    put_ms(table, rank->work_ms_known_case == MUSTER__RANK__WORK_MS_KNOWN_WORK_MS, rank->work_ms);
    if (rank->ratio_known_case == MUSTER__RANK__RATIO_KNOWN_RATIO)
        table_cell(table, "%.2f", rank->ratio);
    else
        table_cell(table, "%s", "");
    put_numbers(table, rank);
}

static bool has_gpus(const Muster__GetRanksAnswer *answer)
{
    for (size_t i = 0; i < answer->n_ranks; i++)
        if (answer->ranks[i]->gpu_known_case == MUSTER__RANK__GPU_KNOWN_GPU)
            return true;
    return false;
}

/* What the ratios compare, and what cannot be known. */
static void print_findings(const Muster__GetRanksAnswer *answer)
{
    bool compared =
        answer->median_ms_known_case == MUSTER__GET_RANKS_ANSWER__MEDIAN_MS_KNOWN_MEDIAN_MS;
    if (compared)
        printf("%sRATIO is %s by the median of all ranks, %.4g ms%s\n", colour_dim(stdout),
               answer->by_work ? "WORK" : "STEP TIME", answer->median_ms, colour_off(stdout));
    if (compared && !answer->by_work && !answer->slowest)
        printf("%sranks that meet in each step have equal step times: waited_s of "
               "docs/report.md would show which is slow%s\n",
               colour_dim(stdout), colour_off(stdout));
    if (answer->slowest)
        printf("slow        %s\n            → %s\n", answer->slowest->text, answer->slowest->hint);
}

static void print_ranks(const Muster__GetRanksAnswer *answer)
{
    bool gpus = has_gpus(answer);
    const char *const titles[] = {">RANK",   "NODE",   gpus ? ">GPU" : ">SLOT",
                                  "STATE",   ">STEP",  ">STEP TIME",
                                  ">WORK",   ">RATIO", ">LOSS",
                                  "NUMBERS", NULL};
    struct table table;
    table_init(&table, titles);
    for (size_t i = 0; i < answer->n_ranks; i++)
        put_rank(&table, answer->ranks[i], gpus);
    table_print(&table, stdout, "It has no ranks yet.");
    table_fini(&table);
    print_findings(answer);
}

int rank_table_show(const struct args *args, struct client *client, const char *job)
{
    struct pages pages = {.count = 0};
    struct error err = {0};
    int code = EXIT_DONE;
    if (ask_ranks(client, job, &pages, &err) || join_pages(&pages, &err))
        code = client_fail(&err);
    else if (!client_printed(args, &pages.all))
        print_ranks(&pages.all);
    pages_fini(&pages);
    return code;
}
