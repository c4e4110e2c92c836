/* Opening and closing a context, and its queries. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "libworker/config/remark.h"
#include "libworker/step/shards.h"
#include "libworker/step/prepare.h"

extern char **environ;

int64_t context_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t context_now_ms(void)
{
    return context_now_ns() / 1000000;
}

int context_fail(struct wk_context *ctx, const struct error *err)
{
    if (ctx->error.code)
        return ctx->error.code;
    ctx->error = *err;
    context_explain(ctx, &ctx->error);
    if (*ctx->error.hint) { /* programs see one sentence, so append the hint */
        size_t used = strlen(ctx->error.text);
        (void)snprintf(ctx->error.text + used, sizeof(ctx->error.text) - used, "; %s",
                       ctx->error.hint);
    }
    return ctx->error.code;
}

int context_misuse(struct wk_context *ctx, const struct error *err)
{
    ctx->misused = ctx->misused || !ctx->error.code;
    return context_fail(ctx, err);
}

int context_refuse(struct wk_context *ctx, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(ctx->refused, sizeof(ctx->refused), fmt, ap);
    va_end(ap);
    return code;
}

int context_hear(void *arg, const struct error *err, bool lasting)
{
    return lasting ? context_misuse(arg, err) : context_refuse(arg, err->code, "%s", err->text);
}

void context_notice(struct wk_context *ctx, const char *fmt, ...)
{
    char text[sizeof(ctx->last_notice)];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (void)pthread_mutex_lock(&ctx->lock);
    (void)str_copy(ctx->last_notice, sizeof(ctx->last_notice), text);
    int rank = ctx->rank;
    (void)pthread_mutex_unlock(&ctx->lock);
    if (ctx->notice)
        ctx->notice(ctx->notice_arg, text);
    else if (ctx->notices)
        (void)fprintf(ctx->notices, "muster: rank %d: %s\n", rank, text);
}

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

/* End the collectives of the old generation: called on the session's thread. */
static void abort_generation(void *arg, uint64_t generation)
{
    struct wk_context *ctx = arg;
    (void)pthread_mutex_lock(&ctx->lock);
    if (ctx->comm && ctx->generation == generation)
        wk_comm_abort(ctx->comm);
    (void)pthread_mutex_unlock(&ctx->lock);
}

static bool interrupted(void *arg)
{
    return signal_count() > ((struct wk_context *)arg)->signals_seen;
}

static void tell_status(void *arg, struct wk_comm_status *ret)
{
    struct wk_context *ctx = arg;
    (void)pthread_mutex_lock(&ctx->lock);
    if (ctx->comm)
        comm_longest_wait(ctx->comm, ret);
    else
        *ret = ctx->connecting;
    (void)pthread_mutex_unlock(&ctx->lock);
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
        ctx->session->status = tell_status;
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
    if (ctx->local_rank != 0)
        return;
    kernel_advice(kernel_simd(), advice);
    if (*advice)
        context_notice(ctx, "%s", advice);
    if (*wanted && !kernel_named(wanted))
        context_notice(ctx,
                       KERNEL_VARIABLE " is %s, of which this machine has no kernels: %s is used",
                       wanted, ctx->kernels->name);
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
    ctx->rank = ctx->place.rank; /* for messages, also of a rank that never joins */
    if (!rc)
        rc = open_session(ctx, seams, err);
    if (!rc)
        rc = context_join(ctx, err);
    if (!rc)
        rc = save_open(ctx, err);
    if (rc)
        return rc;
    ctx->numbers.total_steps = settings_integer(&ctx->settings, SETTING_TOTAL_STEPS);
    rng_seed(&ctx->rng, (uint64_t)settings_integer(&ctx->settings, SETTING_SEED));
    ctx->numbers.rng = ctx->rng;
    remark_cpu(ctx, seams);
    if (ctx->rank == 0)
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
    (void)pthread_mutex_init(&ctx->lock, NULL);
    ctx->notice = options ? options->notice : NULL;
    ctx->notice_arg = options ? options->notice_arg : NULL;
    ctx->notices = seams->quiet ? NULL : stderr;
    ctx->session = seams->session;
    ctx->kernels = seams->kernels ? seams->kernels : kernel_cpu();
    ctx->world = 1;
    ctx->saved_step = -1;
    ctx->folder_fd = -1;
    ctx->leader = SOURCE_NONE;
    list_init(&ctx->made);
    signal_watch();
    ctx->signals_seen = signal_count();
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
    return ctx->n_units && *wanted && strcmp(wanted, "latest") != 0 && !*ctx->resume_from &&
           !ctx->has_state;
}

static int exit_code(const struct wk_context *ctx)
{
    switch (ctx->error.code) {
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
        return ctx->misused && !wk_steps(ctx) ? WK_EXIT_CONFIG : 1;
    case WK_ENOTFOUND:
        return lacks_its_start(ctx) ? WK_EXIT_CONFIG : 1;
    default:
        return 1;
    }
}

/* They may outlive the context. */
static void forget_loaders(struct wk_context *ctx)
{
    while (!list_empty(&ctx->made)) {
        struct wk_loader *loader = list_entry(ctx->made.next, struct wk_loader, made);
        loader->maker = NULL;
        list_remove(&loader->made);
    }
}

/* A loop that forgot the passes, or wk_step, ends as one that has trained does. */
static void remark_untrained(struct wk_context *ctx)
{
    if (ctx->error.code || ctx->rank != 0 || wk_steps(ctx))
        return;
    for (int i = 0; i < ctx->n_loaders; i++)
        if (!ctx->loaders[i]->options.evaluation && ctx->loaders[i]->cursor > 0) {
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
    if (!code && (!ctx->is_sharded || ctx->all_triggered) && save_last(ctx, &err)) {
        (void)context_fail(ctx, &err);
        code = exit_code(ctx);
    }
    (void)pthread_mutex_lock(&ctx->lock);
    ctx->closing = true;
    (void)pthread_mutex_unlock(&ctx->lock);
    saver_free(ctx->saver);
    context_leave(ctx);
    handed_clear(ctx);
    prepare_undo(ctx);
    for (int i = 0; i < ctx->n_units; i++)
        free(ctx->configs[i]);
    forget_loaders(ctx);
    owned_free(ctx);
    if (ctx->session)
        ctx->session->ops->free(ctx->session);
    comm_listener_close(ctx->listener);
    if (ctx->track_open)
        track_fini(&ctx->track);
    profile_fini(&ctx->profile);
    settings_fini(&ctx->settings);
    if (ctx->folder_fd >= 0)
        close(ctx->folder_fd);
    signal_unwatch();
    (void)pthread_mutex_destroy(&ctx->lock);
    free(ctx);
    return code;
}

int wk_status(const struct wk_context *ctx)
{
    return ctx->error.code;
}

const char *wk_last_error(const struct wk_context *ctx)
{
    if (!ctx)
        return error_kept();
    return ctx->error.code ? ctx->error.text : ctx->refused;
}

const char *wk_last_notice(struct wk_context *ctx)
{
    (void)pthread_mutex_lock(&ctx->lock);
    (void)str_copy(ctx->shown_notice, sizeof(ctx->shown_notice), ctx->last_notice);
    (void)pthread_mutex_unlock(&ctx->lock);
    return ctx->shown_notice;
}

int wk_rank(const struct wk_context *ctx)
{
    return ctx->rank;
}

int wk_world(const struct wk_context *ctx)
{
    return ctx->world;
}

int wk_local_rank(const struct wk_context *ctx)
{
    return ctx->local_rank;
}

bool wk_is_main(const struct wk_context *ctx)
{
    return ctx->rank == 0;
}

uint64_t wk_generation(const struct wk_context *ctx)
{
    return ctx->generation;
}

struct wk_comm *wk_communicator(struct wk_context *ctx)
{
    return context_rests(ctx) ? NULL : ctx->comm;
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
    if (!rc && fflush(out))
        rc = WK_EIO;
    if (rc)
        (void)error_set(&err, rc, "the settings cannot be written: %s", strerror(errno));
    return rc ? error_keep(&err) : 0;
}
