/* Opening and closing a context, and its settings. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "libworker/config/remark.h"
#include "libworker/device/device.h"
#include "libworker/device/module.h"
#include "libworker/device/remark.h"
#include "libworker/step/bind.h"
#include "libworker/step/break.h"
#include "libworker/step/context.h"
#include "libworker/step/generation.h"
#include "libworker/step/hand_off.h"
#include "libworker/step/signal.h"

extern char **environ;

static const char *process_variable(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

static const char *const *process_variables(void *arg)
{
    (void)arg;
    return (const char *const *)environ;
}

enum { TOKEN_MAX = 255 };

static const char *variable(const struct context_seams *seams, const char *name)
{
    const char *text = seams->environment->get(seams->environment->arg, name);
    return text ? text : "";
}

/* On the session's thread: end the collectives of the old generation. */
static void abort_generation(void *arg, uint64_t generation)
{
    membership_abort(&((struct wk_context *)arg)->group, generation);
}

static bool interrupted(void *arg)
{
    return signal_count() > ((struct wk_context *)arg)->stop.signals_seen;
}

static void read_status(void *arg, struct wk_comm_status *ret)
{
    membership_status(&((struct wk_context *)arg)->group, ret);
}

/* From the named file, else from the variable that agents before 0.1 set. */
static int read_token(const struct context_seams *seams, char ret[TOKEN_MAX + 1], struct error *err)
{
    const char *path = variable(seams, "MUSTER_WORKER_TOKEN_FILE");
    if (!*path)
        return str_copy(ret, TOKEN_MAX + 1, variable(seams, "MUSTER_WORKER_TOKEN"))
                   ? error_set(err, WK_EINVAL, "MUSTER_WORKER_TOKEN is too long")
                   : 0;
    FILE *file = fopen(path, "re");
    int problem = errno;
    size_t size = file ? fread(ret, 1, TOKEN_MAX, file) : 0;
    if (file)
        (void)fclose(file);
    ret[size] = '\0';
    ret[strcspn(ret, "\r\n")] = '\0';
    if (!file)
        return error_set(err, WK_EINVAL, "MUSTER_WORKER_TOKEN_FILE, %s: %s", path,
                         strerror(problem));
    return size ? 0 : error_set(err, WK_EINVAL, "MUSTER_WORKER_TOKEN_FILE, %s, is empty", path);
}

static int open_session(struct wk_context *ctx, const struct context_seams *seams,
                        struct error *err)
{
    int rc = 0;
    if (!ctx->session && ctx->place.kind == PLACE_MUSTER) {
        int64_t uid = 0;
        const char *text = variable(seams, "MUSTER_UID");
        if (*text && parse_i64(text, 0, INT64_MAX, &uid, err)) {
            (void)error_wrap(err, "MUSTER_UID");
            return error_recode(err, WK_EINVAL);
        }
        char token[TOKEN_MAX + 1];
        if (read_token(seams, token, err))
            return err->code;
        struct session_address address = {
            .url = variable(seams, "MUSTER_WORKER_SOCKET"),
            .token = token,
            .job = variable(seams, "MUSTER_JOB"),
            .uid = (uint64_t)uid,
        };
        rc = session_open(&address, &ctx->session, err);
    }
    if (!rc && ctx->session) {
        ctx->session->abort = abort_generation;
        ctx->session->abort_arg = ctx;
        ctx->session->status = read_status;
        ctx->session->status_arg = ctx;
        ctx->session->interrupted = interrupted;
        ctx->session->interrupted_arg = ctx;
    }
    return rc;
}

static void notice_remark(void *arg, const char *text)
{
    context_notice(arg, "%s", text);
}

/* A notice about the environment's effect on the CPU, from one rank per host. */
static void remark_cpu(struct wk_context *ctx, const struct context_seams *seams)
{
    const char *wanted = variable(seams, KERNEL_VARIABLE);
    char advice[KERNEL_ADVICE_MAX];
    if (ctx->group.local_rank != 0)
        return;
    kernel_advice(kernel_simd(), advice);
    if (*advice)
        context_notice(ctx, "%s", advice);
    if (*wanted && !kernel_named(wanted))
        context_notice(ctx,
                       KERNEL_VARIABLE " is %s, of which this machine has no kernels: %s is used",
                       wanted, ctx->kernels.best->name);
}

static int open_compute(struct wk_context *ctx, const struct context_seams *seams,
                        struct error *err)
{
    const struct environment *environment = seams->environment;
    bool by_session = ctx->session || ctx->place.kind == PLACE_MUSTER; /* ranks join and leave */
    bool off = !strcmp(settings_text(&ctx->settings, SETTING_COLLECTIVES_DEVICE), "off");
    const struct compute_options options = {
        .device = seams->device,
        .kind = settings_text(&ctx->settings, SETTING_DEVICE),
        .module = variable(seams, MODULE_VARIABLE),
        .attention = settings_text(&ctx->settings, SETTING_ATTENTION),
        .compile = settings_text(&ctx->settings, SETTING_COMPILE),
        .visible = environment->get(environment->arg, "CUDA_VISIBLE_DEVICES"),
        .has_agent = ctx->place.kind == PLACE_MUSTER,
        .exchanges = !off && (by_session || ctx->place.world > 1),
        .local_rank = ctx->place.local_rank,
    };
    int rc = compute_init(&ctx->compute, &options, err);
    if (rc || device_host_reads(ctx->compute.device) || ctx->place.local_rank > 0)
        return rc;
    if (ctx->compute.own)
        context_notice(ctx, "computes on %s", ctx->compute.why);
    device_listen(ctx->compute.device, notice_remark, ctx);
    return 0;
}

static int open_all(struct wk_context *ctx, const struct wk_options *options,
                    const struct context_seams *seams, struct error *err)
{
    struct settings_input input = {
        .code = options ? options->settings : NULL,
        .n_code = options ? options->n_settings : 0,
        .environment = seams->environment,
        .file = options ? options->config_file : NULL,
    };
    int rc = settings_read(&input, &ctx->settings, err);
    if (!rc)
        rc = place_read(seams->environment, &ctx->place, err);
    ctx->group.rank = ctx->place.rank; /* for messages, also of a rank that never joins */
    if (!rc)
        rc = open_compute(ctx, seams, err);
    if (!rc)
        rc = open_session(ctx, seams, err);
    if (!rc)
        rc = context_join(ctx, err);
    if (!rc)
        rc = save_open(ctx, err);
    if (rc)
        return rc;
    ctx->state.numbers.total_steps = settings_integer(&ctx->settings, SETTING_TOTAL_STEPS);
    rng_seed(&ctx->state.rng, (uint64_t)settings_integer(&ctx->settings, SETTING_SEED));
    ctx->state.numbers.rng = ctx->state.rng;
    remark_cpu(ctx, seams);
    if (ctx->group.rank == 0)
        settings_remark(&ctx->settings, seams->environment, notice_remark, ctx);
    return report_open(ctx, seams->quiet ? NULL : stdout, err);
}

int context_open(const struct wk_options *options, const struct context_seams *seams,
                 struct wk_context **ret_ctx)
{
    struct error err = {0};
    struct wk_context *ctx = *ret_ctx = calloc(1, sizeof(*ctx));
    if (!ctx) {
        (void)error_set(&err, WK_ENOMEM, "no memory for a context");
        return error_keep(&err);
    }
    (void)pthread_mutex_init(&ctx->notices.lock, NULL);
    membership_init(&ctx->group);
    saving_init(&ctx->saving);
    ctx->notices.call = options ? options->notice : NULL;
    ctx->notices.arg = options ? options->notice_arg : NULL;
    ctx->notices.file = seams->quiet ? NULL : stderr;
    ctx->session = seams->session;
    ctx->kernels.best = seams->kernels ? seams->kernels : kernel_cpu();
    ctx->step.leader = SOURCE_NONE;
    list_init(&ctx->owned.loaders);
    signal_watch();
    ctx->stop.signals_seen = signal_count();
    int rc = open_all(ctx, options, seams, &err);
    return rc ? context_fail(ctx, &err) : 0;
}

int wk_open(const struct wk_options *options, struct wk_context **ret_ctx)
{
    struct environment environment = {.get = process_variable, .all = process_variables};
    struct context_seams seams = {.environment = &environment};
    return context_open(options, &seams, ret_ctx);
}

/* The job's checkpoint does not exist, nor an earlier one, so none will appear. */
static bool lacks_its_start(const struct wk_context *ctx)
{
    const char *wanted = settings_text(&ctx->settings, SETTING_RESUME_FROM);
    return ctx->prepared.n_units && *wanted && strcmp(wanted, "latest") != 0 &&
           !*ctx->group.resume_from && !ctx->state.trained;
}

static int exit_code(const struct wk_context *ctx)
{
    switch (ctx->failure.sticky.code) {
    case 0:
        return 0;
    case WK_ESTOPPED:
        return WK_EXIT_STOPPED;
    case WK_EPEER:
    case WK_EABORT:
        return WK_EXIT_PEER;
    case WK_EINVAL:
    case WK_EUNSUPPORTED:
    case WK_EMISMATCH:
        return wk_steps(ctx) ? 1 : WK_EXIT_CONFIG;
    case WK_ESTATE: /* may also be caused by another program, which may end */
        return ctx->failure.misused && !wk_steps(ctx) ? WK_EXIT_CONFIG : 1;
    case WK_ENOTFOUND:
        return lacks_its_start(ctx) ? WK_EXIT_CONFIG : 1;
    default:
        return 1;
    }
}

/* A loop that forgot the passes, or wk_step, ends as one that has trained does. */
static void remark_untrained(struct wk_context *ctx)
{
    if (ctx->failure.sticky.code || ctx->group.rank != 0 || wk_steps(ctx))
        return;
    for (int i = 0; i < ctx->prepared.n_loaders; i++)
        if (!ctx->prepared.loaders[i]->options.evaluation && ctx->prepared.loaders[i]->cursor > 0) {
            context_notice(ctx, "the training ends without a step, though batches were dealt: the "
                                "loop has no wk_step (or wk_update)");
            return;
        }
}

int wk_close(struct wk_context *ctx)
{
    if (!ctx)
        return 1;
    struct error err = {0};
    int code = exit_code(ctx);
    /* If each rank has a part, this rank alone may have left the loop early, unless all were
     * triggered to. */
    window_end_step(ctx);
    remark_untrained(ctx);
    if (!code && (!ctx->cut.is_sharded || ctx->loop.all_triggered) && save_last(ctx, &err)) {
        (void)context_fail(ctx, &err);
        code = exit_code(ctx);
    }
    save_close(ctx);
    report_release(ctx); /* others that go on find the files whole */
    context_leave(ctx);
    handoffs_clear(ctx);
    bind_undo(ctx);
    for (int i = 0; i < ctx->prepared.n_units; i++)
        free(ctx->prepared.configs[i]);
    owned_free(ctx);
    compute_fini(&ctx->compute);
    if (ctx->session)
        ctx->session->ops->free(ctx->session);
    report_close(ctx);
    settings_fini(&ctx->settings);
    saving_fini(&ctx->saving);
    membership_fini(&ctx->group);
    (void)pthread_mutex_destroy(&ctx->notices.lock);
    signal_unwatch();
    free(ctx);
    return code;
}

struct wk_context *wk_begin(const struct wk_options *options)
{
    struct wk_context *ctx = NULL;
    (void)wk_open(options, &ctx);
    return ctx;
}

int wk_finish(struct wk_context *ctx)
{
    if (ctx)
        wk_print_error(ctx, stderr);
    return wk_close(ctx);
}

const char *wk_config_value(const struct wk_context *ctx, const char *name)
{
    int setting = settings_find(name);
    return setting < 0 ? NULL : ctx->settings.values[setting].text;
}

enum wk_origin wk_config_origin(const struct wk_context *ctx, const char *name)
{
    int setting = settings_find(name);
    return setting < 0 ? WK_FROM_DEFAULT : ctx->settings.values[setting].origin;
}

int wk_config_print(const struct wk_context *ctx, FILE *out)
{
    struct error err = {0};
    int rc = settings_print(&ctx->settings, out);
    if (!rc && fprintf(out, "# computes on %s: %s\n", device_name(ctx->compute.device),
                       ctx->compute.why) < 0)
        rc = WK_EIO;
    for (int i = 0; !rc && device_remark_at(ctx->compute.device, i); i++)
        rc = fprintf(out, "# %s\n", device_remark_at(ctx->compute.device, i)) < 0 ? WK_EIO : 0;
    if (!rc && fflush(out))
        rc = WK_EIO;
    if (rc)
        (void)error_set(&err, rc, "the settings cannot be written: %s", strerror(errno));
    return rc ? error_keep(&err) : 0;
}
