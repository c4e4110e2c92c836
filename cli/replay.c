#include "cli/replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/client.h"
#include "cli/table.h"
#include "common/base/str.h"
#include "common/rpc/message.h"
#include "coordinator/past.h"

enum { PAGE_JOBS = 200 };

struct replay {
    const struct args *args;
    struct client client;
    struct past *past; /* NULL: the client is asked */
    Muster__ReplayRequest request;
    Muster__ReplayAnswer all;       /* of all pages */
    Muster__ReplayAnswer **answers; /* of the client, to be freed */
    size_t answers_count;
};

/* A number, or a time in UTC. */
static int read_at(const char *text, Muster__ReplayRequest *ret, struct error *err)
{
    int64_t number;
    struct tm tm = {0};
    if (!text)
        return 0;
    if (!parse_i64(text, 1, INT64_MAX, &number, NULL)) {
        ret->at = (uint64_t)number;
        return 0;
    }
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (rest && (*rest == '\0' || strcmp(rest, "Z") == 0)) {
        ret->at_wall_ms = (int64_t)timegm(&tm) * 1000 + 999;
        return 0;
    }
    error_set(err, E_INVALID_ARGUMENT, "--at: '%.40s' is no event number and no time", text);
    error_hint(err, "3500, or 2026-11-20T09:15:00Z");
    return E_INVALID_ARGUMENT;
}

static int ask(struct replay *replay, Muster__ReplayAnswer **ret, struct error *err)
{
    struct rpc_options options = {.timeout_ms = 30000, .retry = true};
    if (replay->past)
        return past_replay(replay->past, &replay->request, ret, err);
    Muster__ReplayAnswer **answers =
        realloc(replay->answers, sizeof(Muster__ReplayAnswer *) * (replay->answers_count + 1));
    if (!answers)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    replay->answers = answers;
    int rc = client_call(&replay->client, "Replay", &replay->request, &options, ret, err);
    if (!rc)
        answers[replay->answers_count++] = *ret;
    return rc;
}

static bool append(void *to, size_t *count, const void *from, size_t added)
{
    void ***list = to;
    void **items = realloc(*list, sizeof(void *) * (*count + added + 1));
    if (!items)
        return false;
    if (added)
        memcpy(items + *count, from, sizeof(void *) * added);
    *list = items;
    *count += added;
    return true;
}

static bool merge(Muster__ReplayAnswer *all, const Muster__ReplayAnswer *page)
{
    all->at = page->at;
    all->first = page->first;
    all->last = page->last;
    all->compared += page->compared;
    return append(&all->nodes, &all->n_nodes, page->nodes, page->n_nodes) &&
           append(&all->tenants, &all->n_tenants, page->tenants, page->n_tenants) &&
           append(&all->jobs, &all->n_jobs, page->jobs, page->n_jobs) &&
           append(&all->differing, &all->n_differing, page->differing, page->n_differing);
}

static int read_all(struct replay *replay, struct error *err)
{
    Muster__ReplayAnswer *page = NULL;
    int rc = 0;
    replay->request.limit = PAGE_JOBS;
    do {
        rc = ask(replay, &page, err);
        if (!rc && !merge(&replay->all, page))
            rc = error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
        if (!rc) { /* later pages are of the same event */
            replay->request.cursor = page->next_cursor;
            replay->request.at = page->at;
        }
    } while (!rc && *page->next_cursor);
    return rc;
}

static bool has_ended(const Muster__Job *job)
{
    return job->state == MUSTER__JOB__STATE__succeeded ||
           job->state == MUSTER__JOB__STATE__failed || job->state == MUSTER__JOB__STATE__cancelled;
}

static void print_jobs(const Muster__ReplayAnswer *all)
{
    static const char *const titles[] = {"JOB",    "NAME",  "TENANT", "STATE", ">GEN",
                                         ">WORLD", ">STEP", "REASON", NULL};
    struct table table;
    size_t ended = 0;
    table_init(&table, titles);
    for (size_t i = 0; i < all->n_jobs; i++) {
        const Muster__Job *job = all->jobs[i];
        if (has_ended(job)) {
            ended++;
            continue;
        }
        table_cell(&table, "%s", job->id);
        table_cell(&table, "%s", job->spec ? job->spec->name : "");
        table_cell(&table, "%s", job->spec ? job->spec->tenant : "");
        table_cell(&table, "%s", job_state_word(job->state));
        table_cell(&table, "%" PRIu64, job->generation);
        table_cell(&table, "%u", job->world);
        table_cell(&table, "%" PRIu64, job->step);
        table_cell(&table, "%s", job->reason ? job->reason->text : "");
    }
    if (table.count) {
        putchar('\n');
        table_print(&table, stdout, "");
    }
    table_fini(&table);
    if (ended)
        printf("%zu more had ended\n", ended);
}

static void print_nodes(const Muster__ReplayAnswer *all)
{
    static const char *const titles[] = {"NODE", "STATE", ">SLOTS", "REASON", NULL};
    struct table table;
    table_init(&table, titles);
    for (size_t i = 0; i < all->n_nodes; i++) {
        const Muster__Node *node = all->nodes[i];
        const char *state = transcode_enum_name(&muster__node__state__descriptor, (int)node->state);
        table_cell(&table, "%s", node->name);
        table_cell(&table, "%s", state ? state : "unknown");
        table_cell(&table, "%u", node->slots);
        table_cell(&table, "%s", node->reason ? node->reason->text : "");
    }
    if (table.count) {
        putchar('\n');
        table_print(&table, stdout, "");
    }
    table_fini(&table);
}

static void print_all(const Muster__ReplayAnswer *all)
{
    printf("after event %" PRIu64 " (%" PRIu64 " to %" PRIu64 " can be replayed): %zu node%s, "
           "%zu tenant%s, %zu job%s\n",
           all->at, all->first, all->last, all->n_nodes, str_plural(all->n_nodes), all->n_tenants,
           str_plural(all->n_tenants), all->n_jobs, str_plural(all->n_jobs));
    if (all->n_differing)
        for (size_t i = 0; i < all->n_differing; i++)
            printf("NOT EQUAL to what is stored: %s\n", all->differing[i]);
    else if (all->compared)
        printf("equal to what is stored: all %u\n", all->compared);
    print_nodes(all);
    print_jobs(all);
}

static int print(struct replay *replay, struct error *err)
{
    struct transcode_output_options options = {.defaults = true, .pretty = true};
    struct buf out = {0};
    int rc = 0;
    if (args_flag(replay->args, "json")) {
        rc = transcode_to_json(&replay->all.base, &options, &out, err);
        if (!rc)
            printf("%s\n", buf_cstr(&out));
        buf_fini(&out);
    } else if (!client_printed(replay->args, &replay->all)) {
        print_all(&replay->all);
    }
    return rc;
}

static void fini(struct replay *replay)
{
    for (size_t i = 0; i < replay->answers_count; i++)
        rpc_message_free(replay->answers[i]);
    free(replay->answers);
    free(replay->all.nodes);
    free(replay->all.tenants);
    free(replay->all.jobs);
    free(replay->all.differing);
    past_close(replay->past);
    client_close(&replay->client);
}

int replay_run(const struct args *args)
{
    struct replay replay = {.args = args};
    struct error err = {0};
    const char *data = args_text(args, "data");
    muster__replay_request__init(&replay.request);
    muster__replay_answer__init(&replay.all);
    int rc = read_at(args_text(args, "at"), &replay.request, &err);
    if (!rc)
        rc = data ? past_open(data, &replay.past, &err) : client_open(args, &replay.client, &err);
    if (!rc)
        rc = read_all(&replay, &err);
    if (!rc)
        rc = print(&replay, &err);
    bool differs = replay.all.n_differing > 0;
    fini(&replay);
    if (rc)
        return client_fail(&err);
    return differs ? EXIT_JOB_FAILED : EXIT_DONE;
}
