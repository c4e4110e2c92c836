/* The context: what ties settings, place, communicator, prepared objects and the state of the step
 * in flight together. Private to step/ (tests open contexts with their own seams).
 *
 *            wk_next                     wk_backward (last of the window)        wk_step
 *   BOUNDARY ───────► FILLING ─────────► REDUCING ────────────────────────────► BOUNDARY
 *      ▲                 │                  │
 *      │ reform          │ a peer is lost, the generation is over
 *      └──── BROKEN ◄────┴──────────────────┘      step in flight rolled back
 *
 * Parameters and optimizer state change only in wk_step, after the sums are complete on this rank;
 * so in BROKEN they are those of a completed step. Members may then differ by one step: reform
 * brings all to the highest.
 *
 * Owned by the program's thread. Other threads touch only what `lock` guards: the session's thread
 * aborts the communicator, the saver's thread reports.
 */
#ifndef STEP_CONTEXT_H
#define STEP_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <worker/worker.h>

#include "common/base/list.h"
#include "common/base/rng.h"
#include "libworker/checkpoint/saver.h"
#include "libworker/config/place.h"
#include "libworker/config/settings.h"
#include "libworker/data/loader.h"
#include "libworker/nn/model.h"
#include "libworker/optim/optimizer.h"
#include "libworker/optim/schedule.h"
#include "libworker/parallel/strategy.h"
#include "libworker/precision/scaler.h"
#include "libworker/session/session.h"
#include "libworker/track/profile.h"
#include "libworker/track/track.h"

/* Numbers that are summed over the ranks with the gradients. Ranks that hold parts of one state
 * must do certain things after the same step; those are agreed on here, without a message. */
enum {
    EXTRA_LOSS,
    EXTRA_STOP,   /* ranks that were asked to stop */
    EXTRA_LEAVE,  /* ranks that know of a newer generation */
    EXTRA_SAVE,   /* 1 from rank 0: save this step */
    EXTRA_BUSY,   /* ranks still writing the last checkpoint */
    EXTRA_TICKET, /* from rank 0: names this save's temporary folder */
    EXTRA_COUNT,
    EXTRA_TICKETS = 1 << 24, /* exact in a float */
};

enum step_phase { STEP_BOUNDARY, STEP_FILLING, STEP_REDUCING, STEP_BROKEN };

/* A prepared optimizer's operations table is this copy, which is how wk_step finds the context. */
struct bound_optimizer {
    struct optimizer_ops ops; /* first: the optimizer points to it */
    const struct optimizer_ops *original;
    struct wk_context *ctx;
};

struct wk_context {
    struct settings settings;
    struct place place;
    struct error error; /* sticky; code 0 while all is well */
    void (*notice)(void *arg, const char *text);
    void *notice_arg;

    pthread_mutex_t lock;
    struct wk_comm *comm;    /* changed under lock; NULL between generations */
    uint64_t generation;     /* changed under lock */
    char last_notice[1024];  /* under lock */
    char shown_notice[1024]; /* what wk_last_notice returned */

    int rank, world, local_rank;
    struct comm_listener *listener;
    struct session *session; /* NULL outside Muster */
    char resume_from[SESSION_PATH_MAX];
    int signals_seen; /* stop signals of the process before this context */

    /* Prepared objects: borrowed. */
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    struct bound_optimizer bound;
    struct list made; /* loaders, prepared or not */
    struct wk_loader *loaders[NUMBERS_LOADERS_MAX];
    int n_loaders;
    struct wk_scheduler *schedulers[NUMBERS_SCHEDULERS_MAX];
    int n_schedulers;
    struct strategy strategy;

    /* Of mixed_precision. */
    struct narrowing narrowing;
    bool scales; /* fp16: losses are multiplied by the scaler's scale */
    struct scaler scaler;
    bool skipped; /* the last wk_step at a window's end left the parameters as they were */

    /* The step in flight. */
    enum step_phase phase;
    int micro;  /* backward passes since the boundary */
    int window; /* passes this step takes; known from the first batch on */
    bool no_sync;
    bool reduced;         /* the sums of this window are complete */
    bool clipped;         /* wk_clip_grad_norm was called in this window */
    double grad_scale;    /* what wk_step multiplies gradients with */
    double pass_loss;     /* of the last forward pass or wk_set_loss */
    double window_tokens; /* of the global batches of this window */
    double weights;       /* of all ranks in this window, where wk_join told them; else 0 */
    bool custom_begun;    /* custom models: wk_grad_ready has begun this pass */
    bool scheduler_due[NUMBERS_SCHEDULERS_MAX];
    uint64_t born;  /* sharded: generation in which the present shards were cut */
    bool fell_back; /* sharded, while agreeing: state was lost, so there must be a checkpoint */
    bool torn;      /* sharded: this shard is a step ahead of what was committed */
    bool agreed_stop, agreed_leave, agreed_save;
    uint32_t ticket, saves; /* of the save agreed on; how many rank 0 wanted */
    bool triggered;         /* wk_trigger was called here since the last check */
    bool has_state;         /* what this rank holds is training state, not just initial values */
    bool is_partial;        /* it is neither: some of it came from a member that was lost then */
    bool ended;             /* wk_next has returned false for good */

    struct rng rng;               /* drawn from in this step */
    struct train_numbers numbers; /* of the last completed step; loaders' in `committed` */
    double loss;                  /* of it */

    struct saver *saver; /* NULL without checkpoint.dir */
    struct checkpoint_gate gate;
    int64_t saved_step; /* newest handed to the saver */
    int64_t saved_ms;   /* when */
    bool save_asked;
    bool save_over;        /* sharded: the last one was taken together, nobody waits for another */
    int64_t patience_ms;   /* with a coordinator that cannot be reached, and with the last one */
    bool save_again;       /* under lock: the last one failed; from save_again_ms on */
    int64_t save_again_ms; /* under lock */
    int64_t save_pause_ms; /* under lock: before the one after the next failure */
    bool closing;          /* under lock: nothing is waited for any more */

    struct track track;
    struct profile profile; /* of this rank's steps */
    bool track_open, track_failed;
    double norm; /* of the gradient, where it was measured in this window; else 0 */
};

/* What tests put in the place of the world. */
struct context_seams {
    const struct environment *environment;
    struct session
        *session; /* owned by the context from then on, also after a failure; may be NULL */
    bool quiet;   /* no progress lines */
};
int context_open(const struct wk_options *options, const struct context_seams *seams,
                 struct wk_context **ret_ctx);

/* Make an error sticky (the first stays) and return the sticky one's code. */
int context_fail(struct wk_context *ctx, const struct error *err);

void context_notice(struct wk_context *ctx, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

int64_t context_now_ms(void); /* monotonic */

/* generation.c: membership */

/* Connect to the first generation. */
int context_join(struct wk_context *ctx, struct error *err);

/* Leave what is left of the old generation, join new ones until one holds, and bring all members to
 * the same state. */
int context_reform(struct wk_context *ctx, struct error *err);

/* The collective failed with `code`, or the generation is over: abort, roll the step in flight
 * back. Errors that no new generation can mend become sticky. Returns 0, or the sticky error. */
int context_break(struct wk_context *ctx, int code);

/* Whether a failure with this code is one that the next generation mends. */
bool context_mendable(int code);

/* Give up the communicator. */
void context_leave(struct wk_context *ctx);

/* The strategy meets the members of a new generation, once they are found alike. All ranks call it.
 * WK_EMISMATCH on all; mendable ones when it broke meanwhile. */
int context_meet(struct wk_context *ctx, struct error *err);

/* alike.c: whether all ranks have the settings and objects that shape the mathematics in common.
 * All ranks call it, with prepared objects. WK_EMISMATCH on all, naming the first that differs. */
int alike_check(struct wk_context *ctx, struct error *err);

/* state.c: everything that must survive */

/* Bring the members of a new generation to the same step: WK_EPEER and the like when it broke
 * meanwhile, other errors are for good. */
int state_agree(struct wk_context *ctx, struct error *err);

/* state_shards.c: the same where each rank holds a part */
int state_agree_shards(struct wk_context *ctx, struct error *err);

/* What each member says about itself, gathered as 64-bit numbers. */
struct member {
    int64_t has_state, is_partial, step;
    int64_t windows; /* steps taken or skipped: what makes a state newer */
    int64_t count, params, loaders, schedulers, states;
    int64_t digest;               /* of the parameters' names and shapes */
    int64_t born, part, parts_of; /* generation its shard was cut in, and which of how many */
};
int state_gather(struct wk_context *ctx, struct member **ret, struct error *err);

/* Fill the state from one checkpoint; the newest one's path ("" if there is none). */
int state_load(struct wk_context *ctx, const char *path, struct error *err);
int state_newest(struct wk_context *ctx, char ret[CHECKPOINT_PATH_MAX], struct error *err);

/* prepare.c: which part of the model a rank of the present world is to hold. */
struct layout prepare_layout(const struct wk_context *ctx, int rank);

/* prepare.c: cut the model anew for the present rank and world; state is lost. */
int prepare_cut(struct wk_context *ctx, struct error *err);

/* Table of all tensors; malloc'd, the caller frees. */
int state_tensors(struct wk_context *ctx, struct checkpoint_tensor **ret, int *ret_count,
                  struct error *err);
void state_numbers(const struct wk_context *ctx, struct train_numbers *ret);
void state_adopt(struct wk_context *ctx, const struct train_numbers *numbers);

/* mixed.c: what mixed_precision asks for */

/* Read the settings of it: what is narrowed, and the loss scale. WK_EINVAL, WK_EUNSUPPORTED. */
int mixed_open(struct wk_context *ctx, struct error *err);

/* What the coming backward pass multiplies the loss with. */
double mixed_scale(const struct wk_context *ctx);

/* The window's sums are complete: whether they can be applied. In fp16 what is not finite makes
 * *ret_skip true; elsewhere, or when no loss scale helps, it is an error. Once per window. */
int mixed_judge(struct wk_context *ctx, bool *ret_skip, struct error *err);

void mixed_numbers(const struct wk_context *ctx, struct train_numbers *ret);
void mixed_adopt(struct wk_context *ctx, const struct train_numbers *numbers);

/* save.c */

int save_open(struct wk_context *ctx, struct error *err);

/* What rank 0 says with the coming step's gradients. */
void save_announce(struct wk_context *ctx, float *extras);

/* At a boundary: start a checkpoint if one is due. */
void save_if_due(struct wk_context *ctx);

/* Save the present state unless it is saved, and wait for it; tried again for as long as
 * checkpoint.patience or a stop request's grace allows, and no newer generation is announced. */
int save_last(struct wk_context *ctx, struct error *err);

/* signal.c: SIGTERM as a request to stop */

void signal_watch(void); /* while its disposition is the default one; nests */
void signal_unwatch(void);
int signal_count(void); /* stop signals of this process so far */

/* boundary.c: what happens between steps, before a training batch is dealt (`loader` NULL: the
 * program has its own). true: deal one. */
bool boundary_pass(struct wk_context *ctx, const struct wk_loader *loader);
/* There is no more data: the last checkpoint, and everybody waits for everybody. false: the
 * generation broke meanwhile, so the next boundary_pass has more to do, or the error is sticky. */
bool boundary_end(struct wk_context *ctx);
bool boundary_stopping(struct wk_context *ctx);
/* Whether evaluation may go on: the others wait for this rank in a newer generation, or to stop. */
bool boundary_evaluates(struct wk_context *ctx);
bool boundary_behind(struct wk_context *ctx); /* a newer generation is announced */

#endif
