/* When checkpoints are written, and which ranks agree on them. Rank 0 writes if all ranks have the
 * same state; otherwise each writes its part. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/str.h"
#include "libworker/checkpoint/file.h"
#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/load.h"
#include "libworker/step/context.h"

enum {
    ASK_PAUSE_MS = 200,
    AGAIN_MS = 1000, /* after a failure, doubled with each further one */
    AGAIN_MOST_MS = 60000,
};

/* Time left for a save that began at `since_ms`. Any thread. */
static int64_t left_ms(struct wk_context *ctx, int64_t since_ms)
{
    int64_t past_ms = context_now_ms() - since_ms, grace_ms;
    int64_t left = ctx->patience_ms - past_ms;
    if (ctx->session && ctx->session->ops->stopping(ctx->session, &grace_ms))
        return left < grace_ms ? left : grace_ms;
    if (boundary_stopping(ctx) && left > SIGNAL_GRACE_MS - past_ms)
        return SIGNAL_GRACE_MS - past_ms;
    return left;
}

static bool worth_waiting(struct wk_context *ctx, uint64_t generation, int64_t since_ms)
{
    (void)pthread_mutex_lock(&ctx->lock);
    bool over = ctx->closing || ctx->generation != generation;
    (void)pthread_mutex_unlock(&ctx->lock);
    return !over && left_ms(ctx, since_ms) > 0;
}

/* On the saver's thread. The coordinator may be absent for a while; training continues meanwhile.
 */
static int ask(struct wk_context *ctx, bool done, const struct checkpoint_claim *claim,
               struct error *err)
{
    int64_t since_ms = context_now_ms();
    for (;;) {
        struct error own = {0};
        int rc = ctx->session->ops->commit(ctx->session, done, claim, &own);
        bool away = rc == WK_EUNAVAILABLE || rc == WK_ETIMEOUT;
        if (!away || !worth_waiting(ctx, claim->generation, since_ms)) {
            if (rc && err)
                *err = own;
            return rc;
        }
        (void)usleep(ASK_PAUSE_MS * 1000);
    }
}

static int prepare_commit(void *arg, const struct checkpoint_claim *claim, struct error *err)
{
    return ask(arg, false, claim, err);
}

static int done_commit(void *arg, const struct checkpoint_claim *claim, struct error *err)
{
    return ask(arg, true, claim, err);
}

static void report(void *arg, int64_t step, const struct error *err)
{
    struct wk_context *ctx = arg;
    if (err->code)
        context_notice(ctx, "no checkpoint of step %lld: %s", (long long)step, err->text);
    (void)pthread_mutex_lock(&ctx->lock);
    /* A refusal because the generation was over does not concern the next generation. */
    int64_t pause_ms = err->code == WK_EABORT ? 0 : ctx->save_pause_ms;
    ctx->save_again = err->code != 0;
    ctx->save_again_ms = context_now_ms() + pause_ms;
    if (!err->code)
        ctx->save_pause_ms = AGAIN_MS;
    else if (pause_ms)
        ctx->save_pause_ms = pause_ms < AGAIN_MOST_MS / 2 ? 2 * pause_ms : AGAIN_MOST_MS;
    (void)pthread_mutex_unlock(&ctx->lock);
}

int save_open(struct wk_context *ctx, struct error *err)
{
    const char *dir = settings_text(&ctx->settings, SETTING_CHECKPOINT_DIR);
    int64_t comm_timeout_ms = settings_integer(&ctx->settings, SETTING_COMM_TIMEOUT);
    ctx->patience_ms = settings_integer(&ctx->settings, SETTING_CHECKPOINT_PATIENCE);
    /* The other ranks wait in a barrier for the last checkpoint. */
    if (ctx->patience_ms > comm_timeout_ms / 2)
        ctx->patience_ms = comm_timeout_ms / 2;
    ctx->save_pause_ms = AGAIN_MS;
    ctx->saved_ms = context_now_ms();
    if (!*dir)
        return 0;
    char cwd[CHECKPOINT_PATH_MAX] = "", path[CHECKPOINT_PATH_MAX];
    /* The coordinator gets paths, which must be valid on every machine. */
    if (*dir != '/' && !getcwd(cwd, sizeof(cwd)))
        return error_errno(err, errno, "where checkpoint.dir %s is", dir);
    if (str_printf(path, sizeof(path), "%s%s%s", cwd, *cwd ? "/" : "", dir))
        return error_set(err, WK_EINVAL, "checkpoint.dir is too long");
    ctx->gate = (struct checkpoint_gate){ctx, prepare_commit, done_commit};
    struct saver_options options = {
        .dir = path,
        .gate = ctx->session ? &ctx->gate : NULL,
        .keep = (int)settings_integer(&ctx->settings, SETTING_CHECKPOINT_KEEP),
        .report = report,
        .report_arg = ctx,
    };
    return saver_new(&options, &ctx->saver, err);
}

/* True if a checkpoint can be written there; a missing folder is made. */
static int writable(const char *dir, struct error *err)
{
    char inside[CHECKPOINT_PATH_MAX];
    int rc = file_make_dirs(dir, err);
    if (!rc && str_printf(inside, sizeof(inside), "%s/.", dir))
        rc = error_set(err, WK_EINVAL, "the path is too long");
    if (!rc && access(inside, W_OK | X_OK))
        rc = error_errno(err, errno, "writing in %s", dir);
    if (!rc)
        return 0;
    error_wrap(err, "no checkpoint can be written to checkpoint.dir");
    return err->code = WK_EIO;
}

/* The last step that has a checkpoint in the folder, or -1. */
static int64_t last_in(const char *dir)
{
    int64_t *steps, last = -1;
    int count;
    if (checkpoint_list(dir, &steps, &count, NULL))
        return -1;
    if (count)
        last = steps[count - 1];
    free(steps);
    return last;
}

int save_begin(struct wk_context *ctx, bool anew, struct error *err)
{
    const char *dir = settings_text(&ctx->settings, SETTING_CHECKPOINT_DIR);
    struct error why = {0};
    if (!*dir)
        return 0;
    int rc = writable(dir, &why);
    if (!ctx->session && ctx->folder_fd < 0 && checkpoint_lock(dir, &ctx->folder_fd, err))
        return error_set(err, WK_EINVAL,
                         "another program that still runs saves to checkpoint.dir %s: wait for its "
                         "end, or name another folder",
                         dir);
    int64_t last = anew && !rc && !ctx->session ? last_in(dir) : -1;
    if (rc && !anew)
        context_notice(ctx, "%s", why.text);
    else if (rc)
        return *err = why, rc;
    if (last >= 0)
        return error_set(err, WK_EINVAL,
                         "checkpoint.dir %s has checkpoints of an earlier run, up to step %lld: "
                         "continue from them with resume_from \"latest\", or name another folder",
                         dir, (long long)last);
    return 0;
}

void save_resumed(struct wk_context *ctx, const char *damaged)
{
    const char *dir = settings_text(&ctx->settings, SETTING_CHECKPOINT_DIR);
    char newest[CHECKPOINT_PATH_MAX];
    int64_t last = *dir && ctx->rank == 0 && !ctx->session ? last_in(dir) : -1;
    int64_t step = ctx->numbers.step, total = ctx->numbers.total_steps;
    ctx->saved_step = step;
    context_notice(ctx, "resumed from step %lld%s", (long long)step,
                   total && step >= total ? ", total_steps: nothing is left to train" : "");
    if (last > step && (checkpoint_path(dir, last, newest) || strcmp(newest, damaged) != 0))
        context_notice(ctx,
                       "checkpoint.dir has later checkpoints, up to step %lld: they stay until "
                       "this run reaches them, and resume_from \"latest\" would use them",
                       (long long)last);
}

static bool take_again(struct wk_context *ctx)
{
    (void)pthread_mutex_lock(&ctx->lock);
    bool again = ctx->save_again && context_now_ms() >= ctx->save_again_ms;
    ctx->save_again = ctx->save_again && !again;
    (void)pthread_mutex_unlock(&ctx->lock);
    return again;
}

/* True if the present state is not in a checkpoint, as far as is known. */
static bool unsaved(struct wk_context *ctx)
{
    (void)pthread_mutex_lock(&ctx->lock);
    bool failed = ctx->save_again;
    (void)pthread_mutex_unlock(&ctx->lock);
    return ctx->numbers.step > 0 && (failed || ctx->saved_step != ctx->numbers.step);
}

/* True if a checkpoint is due at the boundary after `step`. */
static bool due(struct wk_context *ctx, int64_t step)
{
    int64_t every = settings_integer(&ctx->settings, SETTING_CHECKPOINT_EVERY);
    int64_t saved = ctx->saved_step > 0 ? ctx->saved_step : 0;
    if (take_again(ctx))
        return true;
    if (step == ctx->saved_step || step == 0)
        return false;
    if (ctx->save_asked)
        return true;
    if (every < 0)
        return context_now_ms() - ctx->saved_ms >= -every;
    return every > 0 && step / every > saved / every;
}

static uint32_t new_ticket(struct wk_context *ctx)
{
    uint64_t mixed = ((uint64_t)context_now_ms() << 20) ^ ((uint64_t)getpid() << 8) ^ ++ctx->saves;
    return (uint32_t)((mixed * 0x9e3779b97f4a7c15u) >> 40) % CONSENSUS_TICKETS;
}

static int start(struct wk_context *ctx, bool wait, struct error *err)
{
    struct checkpoint_tensor *tensors;
    struct train_numbers numbers;
    int count;
    int rc = state_tensors(ctx, &tensors, &count, err);
    if (rc)
        return rc;
    state_numbers(ctx, &numbers);
    struct checkpoint_about about = {
        .generation = ctx->session ? ctx->generation : 0,
        .world = ctx->world,
        .mesh_dp = ctx->world,
        .strategy = settings_text(&ctx->settings, SETTING_STRATEGY),
        .ticket = ctx->is_sharded ? ctx->ticket : new_ticket(ctx),
        .models = (const char *const *)ctx->configs,
        .n_models = ctx->n_units,
    };
    if (ctx->is_sharded) {
        about.rank = ctx->part;
        about.shards = ctx->parts;
    }
    struct checkpoint_write what = {
        .tensors = tensors,
        .n_tensors = count,
        .numbers = &numbers,
        .about = &about,
    };
    (void)pthread_mutex_lock(&ctx->lock);
    ctx->save_again = false;
    (void)pthread_mutex_unlock(&ctx->lock);
    rc = saver_take(ctx->saver, &what, err);
    if (rc == WK_ENOMEM)
        rc = saver_now(ctx->saver, &what, err);
    else if (!rc && wait)
        rc = saver_wait(ctx->saver, err);
    free(tensors);
    ctx->saved_step = numbers.step;
    ctx->saved_ms = context_now_ms();
    ctx->save_asked = false;
    return rc;
}

/* True if there is state to save, of which this rank may have a part. */
static bool saves(const struct wk_context *ctx)
{
    return ctx->saver && (ctx->rank == 0 || ctx->is_sharded) && ctx->ready && ctx->has_state;
}

/* True if this rank saves: rank 0, or each rank of the first replica with its part. */
static bool mine(const struct wk_context *ctx)
{
    return saves(ctx) && (!ctx->is_sharded || ctx->rank < ctx->parts);
}

void save_announce(struct wk_context *ctx, struct consensus *said)
{
    if (!mine(ctx))
        return;
    said->busy = saver_busy(ctx->saver);
    if (ctx->rank == 0 && due(ctx, ctx->numbers.step + 1)) {
        said->save = 1;
        said->ticket = (float)new_ticket(ctx);
    }
}

void save_if_due(struct wk_context *ctx)
{
    /* While one is being written the next waits for a later boundary instead of delaying this one.
     * `report` has already reported a failed write. */
    if (!mine(ctx) || saver_busy(ctx->saver))
        return;
    bool now = ctx->is_sharded ? ctx->agreed_save : due(ctx, ctx->numbers.step);
    ctx->agreed_save = false;
    if (now)
        (void)start(ctx, false, NULL);
}

/* True if a write with this failure may succeed later. */
static bool may_pass(int code)
{
    return code == WK_EABORT || code == WK_EUNAVAILABLE || code == WK_ETIMEOUT ||
           code == WK_ENOMEM || code == WK_EIO;
}

/* All are at the same step: rank 0 decides whether to save, for all. */
static bool agree_last(struct wk_context *ctx, bool wanted)
{
    int32_t word[2] = {wanted, 0};
    if (!ctx->is_sharded)
        return wanted;
    if (ctx->phase == STEP_BROKEN || !ctx->comm)
        return false;
    if (ctx->rank == 0)
        word[1] = (int32_t)new_ticket(ctx);
    if (wk_broadcast(ctx->comm, word, 2, WK_I32, 0, NULL))
        return false;
    ctx->ticket = (uint32_t)word[1];
    return word[0];
}

int save_last(struct wk_context *ctx, struct error *err)
{
    if (!saves(ctx))
        return 0;
    int64_t since_ms = context_now_ms(), pause_ms = ASK_PAUSE_MS;
    (void)saver_wait(ctx->saver, NULL);
    int rc = 0;
    bool wanted = unsaved(ctx);
    while (agree_last(ctx, wanted)) {
        rc = mine(ctx) ? start(ctx, true, err) : 0;
        if (rc && ctx->rank == 0) {
            int64_t left = left_ms(ctx, since_ms);
            wanted = may_pass(rc) && left > 0 && !boundary_behind(ctx);
            if (wanted)
                (void)usleep((useconds_t)(left < pause_ms ? left : pause_ms) * 1000);
            pause_ms = pause_ms < AGAIN_MOST_MS / 2 ? 2 * pause_ms : AGAIN_MOST_MS;
        } else {
            wanted = false;
        }
    }
    if (rc)
        (void)error_wrap(err, "the last state is not saved, step %lld",
                         (long long)ctx->numbers.step);
    return rc;
}

int wk_save(struct wk_context *ctx)
{
    if (ctx->error.code)
        return ctx->error.code;
    struct error err = {0};
    if (!ctx->saver) {
        (void)error_set(&err, WK_ESTATE, "wk_save without a checkpoint.dir to save to");
        return context_misuse(ctx, &err);
    }
    ctx->save_asked = true;
    return 0;
}

int wk_save_wait(struct wk_context *ctx)
{
    struct error err = {0};
    int rc = ctx->saver ? saver_wait(ctx->saver, &err) : 0;
    return rc ? context_refuse(ctx, rc, "%s", err.text) : 0;
}

int wk_checkpoint_verify(struct wk_context *ctx, const char *path)
{
    struct error err = {0};
    int rc = checkpoint_verify(path, &err);
    if (!rc)
        return 0;
    if (!ctx)
        return error_keep(&err);
    context_notice(ctx, "%s", err.text);
    return context_refuse(ctx, rc, "%s", err.text);
}
