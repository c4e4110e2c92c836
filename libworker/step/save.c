#include "libworker/step/save.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/str.h"
#include "libworker/checkpoint/file.h"
#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/load.h"
#include "libworker/step/carried.h"
#include "libworker/step/clock.h"
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
    int64_t left = ctx->saving.patience_ms - past_ms;
    if (ctx->session && ctx->session->ops->stopping(ctx->session, &grace_ms))
        return left < grace_ms ? left : grace_ms;
    if (stop_requested(ctx) && left > STOP_GRACE_MS - past_ms)
        return STOP_GRACE_MS - past_ms;
    return left;
}

static bool worth_waiting(struct wk_context *ctx, uint64_t generation, int64_t since_ms)
{
    (void)pthread_mutex_lock(&ctx->saving.lock);
    bool over = ctx->saving.closing;
    (void)pthread_mutex_unlock(&ctx->saving.lock);
    over = over || membership_generation(&ctx->group) != generation;
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
    (void)pthread_mutex_lock(&ctx->saving.lock);
    /* A refusal because the generation was over does not concern the next generation. */
    int64_t pause_ms = err->code == WK_EABORT ? 0 : ctx->saving.pause_ms;
    ctx->saving.again = err->code != 0;
    ctx->saving.again_ms = context_now_ms() + pause_ms;
    if (!err->code)
        ctx->saving.pause_ms = AGAIN_MS;
    else if (pause_ms)
        ctx->saving.pause_ms = pause_ms < AGAIN_MOST_MS / 2 ? 2 * pause_ms : AGAIN_MOST_MS;
    (void)pthread_mutex_unlock(&ctx->saving.lock);
}

void saving_init(struct saving *saving)
{
    *saving = (struct saving){.saved_step = -1, .folder_fd = -1, .pause_ms = AGAIN_MS};
    (void)pthread_mutex_init(&saving->lock, NULL);
}

void save_close(struct wk_context *ctx)
{
    struct saving *saving = &ctx->saving;
    (void)pthread_mutex_lock(&saving->lock);
    saving->closing = true;
    (void)pthread_mutex_unlock(&saving->lock);
    saver_free(saving->saver);
    saving->saver = NULL;
}

void saving_fini(struct saving *saving)
{
    if (saving->folder_fd >= 0)
        close(saving->folder_fd);
    (void)pthread_mutex_destroy(&saving->lock);
}

int save_open(struct wk_context *ctx, struct error *err)
{
    const char *dir = settings_text(&ctx->settings, SETTING_CHECKPOINT_DIR);
    int64_t comm_timeout_ms = settings_integer(&ctx->settings, SETTING_COMM_TIMEOUT);
    ctx->saving.patience_ms = settings_integer(&ctx->settings, SETTING_CHECKPOINT_PATIENCE);
    /* The other ranks wait in a barrier for the last checkpoint. */
    if (ctx->saving.patience_ms > comm_timeout_ms / 2)
        ctx->saving.patience_ms = comm_timeout_ms / 2;
    ctx->saving.saved_ms = context_now_ms();
    if (!*dir)
        return 0;
    char cwd[CHECKPOINT_PATH_MAX] = "", path[CHECKPOINT_PATH_MAX];
    /* The coordinator gets paths, which must be valid on every machine. */
    if (*dir != '/' && !getcwd(cwd, sizeof(cwd)))
        return error_errno(err, errno, "where checkpoint.dir %s is", dir);
    if (str_printf(path, sizeof(path), "%s%s%s", cwd, *cwd ? "/" : "", dir))
        return error_set(err, WK_EINVAL, "checkpoint.dir is too long");
    ctx->saving.gate = (struct checkpoint_gate){ctx, prepare_commit, done_commit};
    struct saver_options options = {
        .dir = path,
        .gate = ctx->session ? &ctx->saving.gate : NULL,
        .keep = (int)settings_integer(&ctx->settings, SETTING_CHECKPOINT_KEEP),
        .report = report,
        .report_arg = ctx,
    };
    return saver_new(&options, &ctx->saving.saver, err);
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
    if (!ctx->session && ctx->saving.folder_fd < 0 &&
        checkpoint_lock(dir, &ctx->saving.folder_fd, err))
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
    int64_t last = *dir && ctx->group.rank == 0 && !ctx->session ? last_in(dir) : -1;
    int64_t step = ctx->state.numbers.step, total = ctx->state.numbers.total_steps;
    ctx->saving.saved_step = step;
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
    (void)pthread_mutex_lock(&ctx->saving.lock);
    bool again = ctx->saving.again && context_now_ms() >= ctx->saving.again_ms;
    ctx->saving.again = ctx->saving.again && !again;
    (void)pthread_mutex_unlock(&ctx->saving.lock);
    return again;
}

/* True if the present state is not in a checkpoint, as far as is known. */
static bool unsaved(struct wk_context *ctx)
{
    (void)pthread_mutex_lock(&ctx->saving.lock);
    bool failed = ctx->saving.again;
    (void)pthread_mutex_unlock(&ctx->saving.lock);
    return ctx->state.numbers.step > 0 &&
           (failed || ctx->saving.saved_step != ctx->state.numbers.step);
}

/* True if a checkpoint is due at the boundary after `step`. */
static bool due(struct wk_context *ctx, int64_t step)
{
    int64_t every = settings_integer(&ctx->settings, SETTING_CHECKPOINT_EVERY);
    int64_t saved = ctx->saving.saved_step > 0 ? ctx->saving.saved_step : 0;
    if (take_again(ctx))
        return true;
    if (step == ctx->saving.saved_step || step == 0)
        return false;
    if (ctx->saving.asked)
        return true;
    if (every < 0)
        return context_now_ms() - ctx->saving.saved_ms >= -every;
    return every > 0 && step / every > saved / every;
}

static uint32_t new_ticket(struct wk_context *ctx)
{
    uint64_t mixed =
        ((uint64_t)context_now_ms() << 20) ^ ((uint64_t)getpid() << 8) ^ ++ctx->saving.tickets;
    return (uint32_t)((mixed * 0x9e3779b97f4a7c15u) >> 40) % CONSENSUS_TICKETS;
}

static int start(struct wk_context *ctx, bool wait, struct error *err)
{
    struct checkpoint_tensor *tensors;
    struct train_numbers numbers;
    int count;
    int rc = carried_read(ctx, err);
    if (!rc)
        rc = state_tensors(ctx, STATE_SAVES, &tensors, &count, err);
    if (rc)
        return rc;
    state_numbers(ctx, &numbers);
    struct checkpoint_about about = {
        .generation = ctx->session ? ctx->group.generation : 0,
        .world = ctx->group.world,
        .mesh_dp = ctx->group.world,
        .strategy = settings_text(&ctx->settings, SETTING_STRATEGY),
        .ticket = ctx->cut.is_sharded ? ctx->saving.ticket : new_ticket(ctx),
        .models = (const char *const *)ctx->prepared.configs,
        .n_models = ctx->prepared.n_units,
    };
    if (ctx->cut.is_sharded) {
        about.rank = ctx->cut.part;
        about.shards = ctx->cut.parts;
    }
    struct checkpoint_write what = {
        .tensors = tensors,
        .n_tensors = count,
        .numbers = &numbers,
        .about = &about,
    };
    (void)pthread_mutex_lock(&ctx->saving.lock);
    ctx->saving.again = false;
    (void)pthread_mutex_unlock(&ctx->saving.lock);
    rc = saver_take(ctx->saving.saver, &what, err);
    if (rc == WK_ENOMEM)
        rc = saver_now(ctx->saving.saver, &what, err);
    else if (!rc && wait)
        rc = saver_wait(ctx->saving.saver, err);
    free(tensors);
    ctx->saving.saved_step = numbers.step;
    ctx->saving.saved_ms = context_now_ms();
    ctx->saving.asked = false;
    return rc;
}

/* True if there is state to save, of which this rank may have a part. */
static bool saves(const struct wk_context *ctx)
{
    return ctx->saving.saver && (ctx->group.rank == 0 || ctx->cut.is_sharded) &&
           ctx->prepared.ready && ctx->state.trained;
}

/* True if this rank saves: rank 0, or each rank of the first replica with its part. */
static bool mine(const struct wk_context *ctx)
{
    return saves(ctx) && (!ctx->cut.is_sharded || ctx->group.rank < ctx->cut.parts);
}

void save_announce(struct wk_context *ctx, struct consensus *said)
{
    if (!mine(ctx))
        return;
    said->busy = saver_busy(ctx->saving.saver);
    if (ctx->group.rank == 0 && due(ctx, ctx->state.numbers.step + 1)) {
        said->save = 1;
        said->ticket = (float)new_ticket(ctx);
    }
}

void save_if_due(struct wk_context *ctx)
{
    /* While one is being written the next waits for a later boundary instead of delaying this one.
     * `report` has already reported a failed write. */
    if (!mine(ctx) || saver_busy(ctx->saving.saver))
        return;
    bool now = ctx->cut.is_sharded ? ctx->saving.agreed : due(ctx, ctx->state.numbers.step);
    ctx->saving.agreed = false;
    if (now)
        (void)start(ctx, false, NULL);
}

void save_hold(struct wk_context *ctx, struct queue *queue)
{
    if (ctx->saving.saver)
        saver_hold(ctx->saving.saver, queue);
}

void save_copied(struct wk_context *ctx)
{
    if (ctx->saving.saver)
        saver_copied(ctx->saving.saver);
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
    if (!ctx->cut.is_sharded)
        return wanted;
    if (ctx->step.phase == STEP_BROKEN || !ctx->group.comm)
        return false;
    if (ctx->group.rank == 0)
        word[1] = (int32_t)new_ticket(ctx);
    if (wk_broadcast(ctx->group.comm, word, 2, WK_I32, 0, NULL))
        return false;
    ctx->saving.ticket = (uint32_t)word[1];
    return word[0];
}

int save_last(struct wk_context *ctx, struct error *err)
{
    if (!saves(ctx))
        return 0;
    int64_t since_ms = context_now_ms(), pause_ms = ASK_PAUSE_MS;
    (void)saver_wait(ctx->saving.saver, NULL);
    int rc = 0;
    bool wanted = unsaved(ctx);
    while (agree_last(ctx, wanted)) {
        rc = mine(ctx) ? start(ctx, true, err) : 0;
        if (rc && ctx->group.rank == 0) {
            int64_t left = left_ms(ctx, since_ms);
            wanted = may_pass(rc) && left > 0 && !stop_superseded(ctx);
            if (wanted)
                (void)usleep((useconds_t)(left < pause_ms ? left : pause_ms) * 1000);
            pause_ms = pause_ms < AGAIN_MOST_MS / 2 ? 2 * pause_ms : AGAIN_MOST_MS;
        } else {
            wanted = false;
        }
    }
    if (rc)
        (void)error_wrap(err, "the last state is not saved, step %lld",
                         (long long)ctx->state.numbers.step);
    return rc;
}

int wk_save(struct wk_context *ctx)
{
    if (ctx->failure.sticky.code)
        return ctx->failure.sticky.code;
    struct error err = {0};
    if (!ctx->saving.saver) {
        (void)error_set(&err, WK_ESTATE, "wk_save without a checkpoint.dir to save to");
        return context_misuse(ctx, &err);
    }
    ctx->saving.asked = true;
    return 0;
}

int wk_save_wait(struct wk_context *ctx)
{
    struct error err = {0};
    int rc = ctx->saving.saver ? saver_wait(ctx->saving.saver, &err) : 0;
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
