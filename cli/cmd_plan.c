/* muster plan: what if */
#include <string.h>

#include "cli/client.h"
#include "cli/job_input.h"
#include "cli/table.h"
#include "common/base/arena.h"
#include "common/base/str.h"
#include "common/rpc/message.h"

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "job",
     .letter = 'j',
     .kind = ARGS_OPTION,
     .value_name = "JOB",
     .help = "ask about this queued job; --nodes: as if it asked for that number of nodes"},
    {.name = "drain",
     .kind = ARGS_REPEATED,
     .values = "node",
     .value_name = "NODE",
     .help = "as if it were drained"},
    {.name = "without-job",
     .kind = ARGS_REPEATED,
     .values = "job",
     .value_name = "JOB",
     .help = "as if it had ended"},
    {.name = "without-tenant",
     .kind = ARGS_REPEATED,
     .values = "tenant",
     .value_name = "TENANT",
     .help = "as if all of its jobs had ended"},
    {.name = "add",
     .kind = ARGS_REPEATED,
     .value_name = "N:NODE",
     .help = "as if there were N more nodes like this one"},
    JOB_OPTIONS,
    {0},
};
static const char *const examples[] = {
    "muster plan job.yaml",
    "muster plan -N 4 --slots 8 --priority high",
    "muster plan --job gpt-kjv --nodes 2",
    "muster plan --job gpt-kjv --add 2:node-1",
    "muster plan --drain node-3",
    NULL,
};
static const struct args_command command = {
    .program = "muster plan",
    .summary = "what if: when and where a job would start, and who would notice",
    .description = "Asks the scheduler about a new job (a spec, or options that describe one) or a "
                   "queued one (--job). Other options add or remove nodes and jobs for the answer "
                   "only. Without a job, the answer is what that change would do to all jobs. "
                   "Nothing is changed.",
    .options = options,
    .examples = examples,
};

struct question {
    const struct args *args;
    struct arena arena;
    Muster__PlanRequest message;
    Muster__JobSpec__Range nodes;
    struct job_input input;
};

static void take_list(struct question *question, const char *option, char ***ret, size_t *ret_count)
{
    size_t count = 0;
    while (args_repeated(question->args, option, count))
        count++;
    *ret = arena_array(&question->arena, count + 1, sizeof(**ret));
    for (size_t i = 0; *ret && i < count; i++)
        (*ret)[i] = (char *)(uintptr_t)args_repeated(question->args, option, i);
    *ret_count = *ret ? count : 0;
}

/* 2:node-1 */
static int take_added(struct question *question, struct error *err)
{
    enum { ADDED_MAX = 100000 };
    size_t count = 0;
    while (args_repeated(question->args, "add", count))
        count++;
    Muster__PlanRequest__More *more = arena_array(&question->arena, count + 1, sizeof(*more));
    question->message.add = arena_array(&question->arena, count + 1, sizeof(void *));
    if (!more || !question->message.add)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    for (size_t i = 0; i < count; i++) {
        const char *text = args_repeated(question->args, "add", i), *colon = strchr(text, ':');
        char number[16] = "";
        int64_t value;
        if (colon && colon - text < (ptrdiff_t)sizeof(number))
            memcpy(number, text, (size_t)(colon - text));
        if (!colon || parse_i64(number, 1, ADDED_MAX, &value, NULL))
            return error_set(err, E_INVALID_ARGUMENT,
                             "--add %s: expected N:NODE, for example "
                             "2:node-1",
                             text);
        muster__plan_request__more__init(&more[i]);
        more[i].count = (uint32_t)value;
        more[i].like = (char *)(uintptr_t)(colon + 1);
        question->message.add[question->message.n_add++] = &more[i];
    }
    return 0;
}

static int take_job(struct question *question, struct error *err)
{
    const struct args *args = question->args;
    const char *job = args_text(args, "job");
    muster__job_spec__range__init(&question->nodes);
    int rc = 0;
    if (job) {
        question->message.job = (char *)(uintptr_t)job;
        rc = job_flags_nodes(args, &question->nodes.min, &question->nodes.max, err);
        question->message.nodes = question->nodes.max ? &question->nodes : NULL;
    } else if (job_input_given(args)) {
        rc = job_input_shape(args, &question->input, err);
        question->message.spec = question->input.spec;
    }
    return rc;
}

static int take(struct question *question, struct error *err)
{
    Muster__PlanRequest *message = &question->message;
    muster__plan_request__init(message);
    take_list(question, "drain", &message->drain, &message->n_drain);
    take_list(question, "without-job", &message->without_jobs, &message->n_without_jobs);
    take_list(question, "without-tenant", &message->without_tenants, &message->n_without_tenants);
    int rc = take_added(question, err);
    if (!rc)
        rc = take_job(question, err);
    bool change =
        message->n_drain || message->n_without_jobs || message->n_without_tenants || message->n_add;
    if (!rc && !message->spec && !*message->job && !change) {
        rc = error_set(err, E_INVALID_ARGUMENT, "a plan needs a job or a change");
        error_hint(err, "muster plan job.yaml, or muster plan --drain NODE; see --help");
    }
    return rc;
}

static void show_effects(const Muster__PlanAnswer *answer, bool gives_way)
{
    static const char *const titles[] = {"JOB", "NAME", "WOULD", "NODE", NULL};
    static const struct {
        const char *effect, *words;
    } all[] = {{"starts", "start"},
               {"shrinks", "go on without"},
               {"moves", "move away from"},
               {"restarts", "start again from its checkpoint"},
               {"waits", "end and wait in the queue"}};
    struct table table;
    table_init(&table, titles);
    for (size_t i = 0; i < answer->n_effects; i++) {
        const Muster__PlanAnswer__Effect *effect = answer->effects[i];
        const char *words = effect->effect;
        if ((effect->gives_way != 0) != gives_way)
            continue;
        for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
            if (strcmp(all[k].effect, effect->effect) == 0)
                words = all[k].words;
        table_cell(&table, "%s", effect->job);
        table_cell(&table, "%s", effect->name);
        table_cell(&table, "%s", words);
        table_cell(&table, "%s", effect->node);
    }
    if (table.count > 0) {
        printf("%s\n", gives_way ? "to make room:" : "because of the change:");
        table_print(&table, stdout, "");
    }
    table_fini(&table);
}

static void show(const Muster__PlanAnswer *answer)
{
    char time[FORMAT_MAX];
    printf("%s\n", answer->summary);
    for (size_t i = 0; i < answer->n_nodes; i++)
        printf("%s%s%s", i ? " " : "  on ", answer->nodes[i], i + 1 == answer->n_nodes ? "\n" : "");
    if (!answer->starts && answer->starts_wall_ms)
        printf("  at the latest %s\n", format_time(answer->starts_wall_ms, time));
    for (size_t i = 0; i < answer->n_reasons; i++) {
        const Muster__Reason *reason = answer->reasons[i];
        printf("  %2zu. %s %s(%s)%s\n", i + 1, reason->text, colour_dim(stdout), reason->kind,
               colour_off(stdout));
        if (reason->hint[0])
            printf("      → %s\n", reason->hint);
    }
    show_effects(answer, true);
    show_effects(answer, false);
    if (answer->effects_left_out > 0)
        printf("and %u more that are not named here\n", answer->effects_left_out);
}

static int run_plan(const struct args *args)
{
    struct question question = {.args = args};
    Muster__PlanAnswer *answer = NULL;
    struct error err = {0};
    arena_init(&question.arena, 1 << 20);
    int rc = take(&question, &err);
    int code = rc ? client_fail(&err) : client_ask(args, "Plan", &question.message, &answer);
    if (code == 0 && !client_printed(args, answer))
        show(answer);
    rpc_message_free(answer);
    job_input_fini(&question.input);
    arena_fini(&question.arena);
    return code;
}

const struct verb verb_plan = {.name = "plan", .command = &command, .run = run_plan};
