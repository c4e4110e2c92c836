/* A code never comes alone: every public function that returns one is called wrongly, on a thread
 * and with a context of its own, and a sentence must be where a program looks for it: the context's
 * error, or the communicator's, or the thread's. The table has every such function of the installed
 * headers, which are read here, so that a new one is missing until somebody calls it wrongly too.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/libworker/small.h"

static struct wk_batch batch;

/* What a row's thread works with. */
struct scene {
    struct small small;
    struct wk_model *model, *unmade;
    struct wk_optimizer *optimizer;
    struct wk_scheduler *scheduler;
    struct wk_comm *comm;
};

static struct wk_comm *comm_of(struct scene *s)
{
    return s->comm = wk_communicator(s->small.ctx);
}

static int prepared(struct scene *s)
{
    return small_prepare(&s->small);
}

#define MISUSE(function, call)                                                                     \
    static int misuse_##function(struct scene *s)                                                  \
    {                                                                                              \
        (void)s;                                                                                   \
        return call;                                                                               \
    }

/* --- the loop */
MISUSE(wk_prepare, wk_prepare_all(s->small.ctx, WK_OBJECT(s->model)))
MISUSE(wk_find_batch, wk_find_batch(s->small.loader, NULL, NULL))
MISUSE(wk_forward, wk_forward(s->small.model, &batch, NULL))
MISUSE(wk_evaluate, wk_evaluate(s->small.model, &batch, NULL, NULL))
MISUSE(wk_backward, prepared(s) ? 0 : wk_backward(s->small.model))
MISUSE(wk_clip_grad_norm, prepared(s) ? 0 : wk_clip_grad_norm(s->small.model, -1, NULL))
MISUSE(wk_clip_grad_value, prepared(s) ? 0 : wk_clip_grad_value(s->small.model, 0))
MISUSE(wk_step, prepared(s) ? 0 : wk_step(s->small.optimizer))
MISUSE(wk_step_numbers, wk_step_numbers(s->small.optimizer, &(struct wk_step_numbers){0}))
MISUSE(wk_scheduler_step, wk_scheduler_step(s->small.scheduler))
MISUSE(wk_count_batches, prepared(s) ? 0 : wk_count_batches(s->small.model, NULL, 1))
MISUSE(wk_set_loss, wk_set_loss(s->small.model, 1))
MISUSE(wk_log, wk_log(s->small.ctx, "Eval Loss", 1))
MISUSE(wk_reduce_value, wk_reduce_value(s->small.ctx, NULL, WK_SUM))
MISUSE(wk_gather_for_metrics, wk_gather_for_metrics(s->small.ctx, NULL, NULL, 1, NULL))
MISUSE(wk_save, wk_save(s->small.ctx))
MISUSE(wk_checkpoint_verify, wk_checkpoint_verify(s->small.ctx, "/nowhere"))
MISUSE(wk_model_open, wk_model_open(NULL, "/nowhere", &s->unmade))
MISUSE(wk_model_load, wk_model_load(NULL, s->small.model, "/nowhere"))
MISUSE(wk_model_save, wk_model_save(s->small.ctx, s->small.model, "/nowhere/at/all", NULL))

static int misuse_wk_open(struct scene *s)
{
    struct wk_setting wrong = {"stratgey", "ddp"};
    struct wk_options options = {.settings = &wrong, .n_settings = 1};
    (void)wk_close(s->small.ctx);
    return wk_open(&options, &s->small.ctx);
}

static int misuse_wk_config_print(struct scene *s)
{
    FILE *full = fopen("/dev/full", "w");
    int rc = wk_config_print(s->small.ctx, full);
    (void)fclose(full);
    return rc;
}

/* --- objects */
static const struct wk_adamw_options no_adam;
MISUSE(wk_source_open, wk_source_open(NULL, "/nowhere", WK_SOURCE_AUTO, &s->small.source))
MISUSE(wk_source_bytes, wk_source_bytes(s->small.ctx, "", 0, &s->small.source))
MISUSE(wk_source_rows, wk_source_rows(s->small.ctx, NULL, &s->small.source))
MISUSE(wk_loader_seek, wk_loader_seek(NULL, 0))
MISUSE(wk_deal_check, wk_deal_check(&(struct wk_deal){.samples = 1}, 1))
MISUSE(wk_gpt_new, wk_gpt_new(&(struct wk_gpt_config){0}, &s->unmade))
MISUSE(wk_llama_new, wk_llama_new(&(struct wk_llama_config){0}, &s->unmade))
MISUSE(wk_mlp_new, wk_mlp_new(&(struct wk_mlp_config){0}, &s->unmade))
MISUSE(wk_custom_new, wk_custom_new(NULL, 0, &s->unmade))
MISUSE(wk_graph_model, wk_graph_model(wk_graph_new("empty"), &s->unmade))
MISUSE(wk_graph_print, wk_graph_print(NULL, 1, 1, stdout))
MISUSE(wk_graph_print_pass, wk_graph_print_pass(NULL, NULL, stdout))
MISUSE(wk_model_init, prepared(s) ? 0 : wk_model_init(s->small.model, 1))
MISUSE(wk_model_label_smoothing, wk_model_label_smoothing(s->small.model, 1))
MISUSE(wk_model_dropout, wk_model_dropout(s->small.model, -1, 1))
MISUSE(wk_model_freeze, wk_model_freeze(s->small.model, "no.such.name", true))
MISUSE(wk_model_recompute_by, wk_model_recompute_by(s->small.model, WK_RECOMPUTE_WITHIN, 0))
MISUSE(wk_adam_new, wk_adam_new(&no_adam, &s->optimizer))
MISUSE(wk_adamw_new, wk_adamw_new(&no_adam, &s->optimizer))
MISUSE(wk_sgd_new, wk_sgd_new(&(struct wk_sgd_options){0}, &s->optimizer))
MISUSE(wk_lion_new, wk_lion_new(&(struct wk_lion_options){0}, &s->optimizer))
MISUSE(wk_adafactor_new, wk_adafactor_new(&(struct wk_adafactor_options){0}, &s->optimizer))
MISUSE(wk_muon_new, wk_muon_new(&(struct wk_muon_options){0}, &s->optimizer))
MISUSE(wk_optimizer_new,
       wk_optimizer_new(s->small.ctx, &(struct wk_optimizer_options){0}, &s->optimizer))
MISUSE(wk_optimizer_over, wk_optimizer_over(s->small.optimizer, NULL))
MISUSE(wk_scheduler_new, wk_scheduler_new(NULL, NULL, &s->scheduler))
MISUSE(wk_grad_ready, prepared(s) ? 0 : wk_grad_ready(s->small.model, 10000))
MISUSE(wk_enter_block, prepared(s) ? 0 : wk_enter_block(s->small.model, WK_FORWARD, 0))
MISUSE(wk_no_sync, wk_no_sync(s->small.model, true))
MISUSE(wk_bind_parameters, wk_bind_parameters(NULL, NULL, NULL))
MISUSE(wk_mean_of_share, wk_mean_of_share(s->small.model, true))
static struct wk_batch there;
MISUSE(wk_passes_on, wk_passes_on(s->small.model, "cuda"))
MISUSE(wk_send_batch, prepared(s) ? 0 : wk_send_batch(s->small.model, &batch, &there))
MISUSE(wk_set_loss_at, prepared(s) ? 0 : wk_set_loss_at(s->small.model, NULL))
MISUSE(wk_update, wk_update(s->small.optimizer, 1))
MISUSE(wk_own, wk_own(NULL, WK_OBJECT(s->small.model)))
MISUSE(wk_gather_parameters, wk_gather_parameters(NULL))
MISUSE(wk_narrow, wk_narrow(NULL, (enum wk_format)99, NULL, 0))
MISUSE(wk_widen, wk_widen(NULL, (enum wk_format)99, NULL, 0))

static int misuse_wk_loader_new(struct scene *s)
{
    struct wk_loader *loader;
    return wk_loader_new(s->small.ctx, &(struct wk_loader_options){0}, &loader);
}

static int misuse_wk_optimizer_group(struct scene *s)
{
    struct wk_group late = {.pattern = "*.bias", .rate_scale = 1};
    return prepared(s) ? 0 : wk_optimizer_group(s->small.optimizer, &late);
}

static int misuse_wk_generate(struct scene *s)
{
    int32_t token = 300;
    struct wk_generate_options options = {.prompt = &token, .prompt_length = 1};
    cr_expect_eq(wk_generate(s->small.model, &options, 1, &token), WK_ESTATE);
    cr_expect(strstr(wk_last_error(NULL), "prepare it first"), "%s", wk_last_error(NULL));
    if (prepared(s))
        return 0;
    int rc = wk_generate(s->small.model, &options, 1, &token);
    cr_expect(strstr(wk_last_error(s->small.ctx), "input tokens: 300"), "%s",
              wk_last_error(s->small.ctx));
    cr_expect_eq(wk_status(s->small.ctx), 0, "a wrong prompt ends no training");
    return rc;
}

static int misuse_wk_generate_batch(struct scene *s)
{
    int32_t token, twice[2] = {1, 1};
    struct wk_text text = {.tokens = &token};
    struct wk_generate_options options = {0}, wrong[] = {{.top_p = 1.5},
                                                         {.top_p = -0.1},
                                                         {.n_stop = 1},
                                                         {.stop = twice, .n_stop = -1},
                                                         {.temperature = -1}};
    if (prepared(s))
        return 0;
    for (int i = 0; i < 5; i++)
        cr_expect_eq(wk_generate_batch(s->small.model, &wrong[i], &text, 1, 1), WK_EINVAL, "%d", i);
    cr_expect_eq(wk_generate_batch(s->small.model, &options, NULL, 1, 1), WK_EINVAL);
    cr_expect_eq(wk_generate_batch(s->small.model, &options, &(struct wk_text){0}, 1, 1),
                 WK_EINVAL);
    cr_expect_eq(wk_generate_batch(s->small.model, &options, &text, 1, 1), 0);
    cr_expect_eq(wk_status(s->small.ctx), 0, "a wrong option ends no training");
    return wk_generate_batch(s->small.model, &options, &text, 0, 1);
}

static int misuse_wk_set_gradient_hook(struct scene *s)
{
    if (prepared(s) || !wk_next(s->small.loader, &batch))
        return 0;
    return wk_set_gradient_hook(s->small.model, NULL);
}

/* --- collectives; NULL is what wk_communicator gives in a broken generation */
static float element;
static const struct wk_buffers none = {.dtype = WK_F32};
static const struct wk_reduce_options as_is;
static const struct wk_rows no_rows = {.dtype = WK_F32};
static struct wk_bytes object;
static struct wk_padded padded;
static struct wk_comm *group;
MISUSE(wk_all_reduce, wk_all_reduce(comm_of(s), NULL, 1, WK_F32, WK_SUM, NULL))
MISUSE(wk_broadcast, wk_broadcast(comm_of(s), &element, 1, WK_F32, 7, NULL))
MISUSE(wk_all_gather, wk_all_gather(comm_of(s), NULL, NULL, 1, WK_F32, NULL))
MISUSE(wk_reduce_scatter, wk_reduce_scatter(comm_of(s), NULL, NULL, 1, WK_F32, WK_SUM, NULL))
MISUSE(wk_barrier, wk_barrier(NULL, NULL))
MISUSE(wk_reduce, wk_reduce(comm_of(s), &none, WK_SUM, 7, NULL))
MISUSE(wk_gather, wk_gather(comm_of(s), &none, 7, NULL))
MISUSE(wk_scatter, wk_scatter(comm_of(s), &none, -1, NULL))
MISUSE(wk_all_to_all, wk_all_to_all(NULL, &none, NULL))
MISUSE(wk_all_to_all_v, wk_all_to_all_v(NULL, &no_rows, NULL))
MISUSE(wk_all_gather_v, wk_all_gather_v(NULL, &no_rows, NULL))
MISUSE(wk_reduce_scatter_v, wk_reduce_scatter_v(NULL, &no_rows, WK_SUM, NULL))
MISUSE(wk_send, wk_send(comm_of(s), &element, 1, WK_F32, 0, NULL))
MISUSE(wk_recv, wk_recv(comm_of(s), &element, 1, WK_F32, 0, NULL))
MISUSE(wk_send_recv, wk_send_recv(comm_of(s), &none, 0, 0, NULL))
MISUSE(wk_all_reduce_with, wk_all_reduce_with(NULL, &none, WK_SUM, &as_is, NULL))
MISUSE(wk_reduce_scatter_with, wk_reduce_scatter_with(NULL, &none, WK_SUM, &as_is, NULL))
MISUSE(wk_broadcast_object, wk_broadcast_object(NULL, &object, 0))
MISUSE(wk_all_gather_object, wk_all_gather_object(NULL, &object, &object))
MISUSE(wk_all_gather_padded, wk_all_gather_padded(NULL, &none, NULL, &padded, NULL))
MISUSE(wk_comm_register, wk_comm_register(comm_of(s), NULL))
MISUSE(wk_comm_split, wk_comm_split(comm_of(s), NULL, &group))
MISUSE(wk_comm_subgroup, wk_comm_subgroup(comm_of(s), NULL, 9, &group))
MISUSE(wk_comm_axis, wk_comm_axis(comm_of(s), &(struct wk_mesh){0}, 0, &group))

static int misuse_wk_arena_new(struct scene *s)
{
    struct wk_arena *arena;
    (void)s;
    return wk_arena_new(0, &arena);
}

struct row {
    const char *name;
    int (*misuse)(struct scene *s);
    const char *no_code; /* why there is none */
};

#define ROW(function)                                                                              \
    {                                                                                              \
#function, misuse_##function, NULL                                                         \
    }
static const char figure[] = "a figure, no code", collective[] = "only as its collective fails",
                  earlier[] = "only as the work before it failed",
                  pass[] = "its sentence is that of the pass: test_custom_op";

static const struct row rows[] = {
    ROW(wk_open),
    ROW(wk_prepare),
    ROW(wk_find_batch),
    ROW(wk_forward),
    ROW(wk_evaluate),
    ROW(wk_backward),
    ROW(wk_clip_grad_norm),
    ROW(wk_clip_grad_value),
    ROW(wk_step),
    ROW(wk_step_numbers),
    ROW(wk_scheduler_step),
    ROW(wk_count_batches),
    ROW(wk_set_loss),
    ROW(wk_log),
    ROW(wk_reduce_value),
    ROW(wk_gather_for_metrics),
    ROW(wk_save),
    ROW(wk_checkpoint_verify),
    ROW(wk_model_open),
    ROW(wk_model_load),
    ROW(wk_model_save),
    ROW(wk_config_print),
    ROW(wk_source_open),
    ROW(wk_source_bytes),
    ROW(wk_source_rows),
    ROW(wk_loader_new),
    ROW(wk_loader_seek),
    ROW(wk_deal_check),
    ROW(wk_gpt_new),
    ROW(wk_llama_new),
    ROW(wk_mlp_new),
    ROW(wk_custom_new),
    ROW(wk_graph_model),
    ROW(wk_graph_print),
    ROW(wk_graph_print_pass),
    ROW(wk_model_init),
    ROW(wk_model_label_smoothing),
    ROW(wk_model_dropout),
    ROW(wk_model_freeze),
    ROW(wk_model_recompute_by),
    ROW(wk_generate),
    ROW(wk_generate_batch),
    ROW(wk_adam_new),
    ROW(wk_adamw_new),
    ROW(wk_sgd_new),
    ROW(wk_lion_new),
    ROW(wk_adafactor_new),
    ROW(wk_muon_new),
    ROW(wk_optimizer_new),
    ROW(wk_optimizer_over),
    ROW(wk_optimizer_group),
    ROW(wk_scheduler_new),
    ROW(wk_grad_ready),
    ROW(wk_enter_block),
    ROW(wk_no_sync),
    ROW(wk_bind_parameters),
    ROW(wk_mean_of_share),
    ROW(wk_passes_on),
    ROW(wk_send_batch),
    ROW(wk_set_loss_at),
    ROW(wk_update),
    ROW(wk_own),
    ROW(wk_set_gradient_hook),
    ROW(wk_gather_parameters),
    ROW(wk_narrow),
    ROW(wk_widen),
    ROW(wk_all_reduce),
    ROW(wk_broadcast),
    ROW(wk_all_gather),
    ROW(wk_reduce_scatter),
    ROW(wk_barrier),
    ROW(wk_reduce),
    ROW(wk_gather),
    ROW(wk_scatter),
    ROW(wk_all_to_all),
    ROW(wk_all_to_all_v),
    ROW(wk_all_gather_v),
    ROW(wk_reduce_scatter_v),
    ROW(wk_send),
    ROW(wk_recv),
    ROW(wk_send_recv),
    ROW(wk_all_reduce_with),
    ROW(wk_reduce_scatter_with),
    ROW(wk_broadcast_object),
    ROW(wk_all_gather_object),
    ROW(wk_all_gather_padded),
    ROW(wk_arena_new),
    ROW(wk_comm_register),
    ROW(wk_comm_split),
    ROW(wk_comm_subgroup),
    ROW(wk_comm_axis),
    {"wk_wait", NULL, earlier},
    {"wk_save_wait", NULL, earlier}, /* test_saver, test_durable: the notice is the same sentence */
    {"wk_op_fail", NULL, pass},
    {"wk_wait_for_all", NULL, collective},
    {"wk_main_first_begin", NULL, collective},
    {"wk_main_first_end", NULL, collective},
    {"wk_version", NULL, figure},
    {"wk_status", NULL, figure},
    {"wk_close", NULL, figure},
    {"wk_finish", NULL, figure},
    {"wk_rank", NULL, figure},
    {"wk_world", NULL, figure},
    {"wk_local_rank", NULL, figure},
    {"wk_comm_rank", NULL, figure},
    {"wk_comm_world", NULL, figure},
    {"wk_comm_host", NULL, figure},
    {"wk_comm_lost", NULL, figure},
    {"wk_model_parameters", NULL, figure},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* On a thread of its own, which has refused nothing yet. */
static void *try_row(void *arg)
{
    const struct row *row = arg;
    struct scene s = {.model = NULL};
    small_open(&s.small, NULL);
    cr_assert_str_empty(wk_last_error(s.small.ctx));
    cr_assert_str_empty(wk_last_error(NULL));
    struct wk_source *source = s.small.source;
    int rc = row->misuse(&s);
    bool told = *wk_last_error(s.small.ctx) || *wk_last_error(NULL) || *wk_comm_error(s.comm);
    cr_expect_lt(rc, 0, "%s returned %d", row->name, rc);
    cr_expect(told, "%s returned %d without a sentence", row->name, rc);
    s.small.source = source;
    small_close(&s.small);
    wk_model_free(s.unmade);
    wk_optimizer_free(s.optimizer);
    wk_scheduler_free(s.scheduler);
    return NULL;
}

Test(sentences, come_with_every_code)
{
    for (int i = 0; i < ROWS; i++) {
        pthread_t thread;
        if (!rows[i].misuse)
            continue;
        cr_assert_eq(pthread_create(&thread, NULL, try_row, (void *)&rows[i]), 0);
        pthread_join(thread, NULL);
    }
}

static bool has_row(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].misuse || rows[i].no_code;
    return false;
}

static void check_header(const char *path, int *found)
{
    char line[512], name[128] = "wk_";
    FILE *file = fopen(path, "r");
    cr_assert(file, "%s", path);
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "WK_API int wk_%124[a-z0-9_](", name + 3) == 1) {
            cr_expect(has_row(name), "%s has no row here", name);
            ++*found;
        }
    (void)fclose(file);
}

Test(sentences, are_demanded_of_every_function_of_the_headers)
{
    DIR *dir = opendir(WORKER_HEADERS);
    const struct dirent *entry;
    int found = 0;
    cr_assert(dir, "%s", WORKER_HEADERS);
    while ((entry = readdir(dir)) != NULL) {
        char path[1024];
        if (!strstr(entry->d_name, ".h"))
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", WORKER_HEADERS, entry->d_name);
        check_header(path, &found);
    }
    (void)closedir(dir);
    cr_expect_eq(found, ROWS, "%d functions, %d rows", found, ROWS);
}
