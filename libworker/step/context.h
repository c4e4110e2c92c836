/* The context: what ties settings, place, communicator, prepared objects and the state of the step
 * in flight together. Private to step/ (tests open contexts with their own seams).
 *
 *            wk_next                  wk_step: every optimizer has stepped
 *   BOUNDARY ───────► UNDER_WAY ─────────────────────────────────────────────► BOUNDARY
 *      ▲                 │ ▲                wk_next: another batch is asked for │
 *      │ reform          │ └────────────────────────────────────────────────────┘
 *      └──── BROKEN ◄────┘ a peer is lost, the generation is over
 *
 *   BOUNDARY ──wk_join, in which a generation began──► VOID ──the next wk_join──► BOUNDARY
 *
 * Models are units (unit.h), each with a window of gradients of its own. Parameters and optimizer
 * state change only in wk_step, one unit's at a time, after its sums are complete on this rank. So
 * the state is at any time the step completed last and, of the step under way, the windows that
 * unit->numbers count: that is what checkpoints hold and members compare. A broken step begins
 * again with its batch, and each unit's first windows, which are in the state already, are left out
 * (window.c). Members may differ by some windows: reform brings all to the furthest.
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
#include "libworker/optim/schedule.h"
#include "libworker/session/session.h"
#include "libworker/step/unit.h"
#include "libworker/track/profile.h"
#include "libworker/track/track.h"

/* Numbers that are summed over the ranks with the gradients. Ranks that hold parts of one state
 * must do certain things after the same step; those are agreed on here, without a message, and so
 * is who goes when (parting.c). */
enum {
    EXTRA_LOSS,
    EXTRA_LOSSES,   /* passes of which there is a loss */
    EXTRA_STOP,     /* ranks that were asked to stop */
    EXTRA_PRESSING, /* of those, ranks that can wait no longer */
    EXTRA_LEAVE,    /* ranks that were not, and know of a newer generation */
    EXTRA_SAVE,     /* 1 from rank 0: save this step */
    EXTRA_BUSY,     /* ranks still writing the last checkpoint */
    EXTRA_TICKET,   /* from rank 0: names this save's temporary folder */
    EXTRA_COUNT,
    EXTRA_TICKETS = 1 << 24, /* exact in a float */
};

enum {
    SIGNAL_GRACE_MS = 10000, /* of a stop signal that nobody said a grace with */
    HANDED_MAX = 16,         /* parts of ranks that left, on each that stayed */
};
struct handed;

/* What the sums of a step said of the boundary behind it. */
enum heard { HEARD_NOTHING, HEARD_STOP, HEARD_PART };

/* VOID: a pass of the program's own data that were chosen for the generation before comes to
 * nothing, as one in a BROKEN generation does. */
enum step_phase { STEP_BOUNDARY, STEP_UNDER_WAY, STEP_BROKEN, STEP_VOID };

/* What batches come from: a prepared loader by its number, or the program itself (wk_join). */
enum { SOURCE_OWN = NUMBERS_LOADERS_MAX, SOURCES, SOURCE_NONE = -1 };

struct wk_context {
    struct settings settings;
    struct place place;
    struct error error;                              /* sticky; code 0 while all is well */
    bool misused;                                    /* it was one of the program's calls */
    char refused[sizeof(((struct error *)0)->text)]; /* of the last call that came to nothing */
    bool told_metric;                                /* that a figure's name was refused */
    void (*notice)(void *arg, const char *text);
    void *notice_arg;
    FILE *notices; /* borrowed: where they go without `notice`; NULL: nowhere */

    pthread_mutex_t lock;
    struct wk_comm *comm;             /* changed under lock; NULL between generations */
    uint64_t generation;              /* changed under lock */
    struct wk_comm_status connecting; /* under lock: who is missing meanwhile; zeroed when not */
    char last_notice[1024];           /* under lock */
    char shown_notice[1024];          /* what wk_last_notice returned */

    int rank, world; /* changed under lock */
    int local_rank;
    struct comm_listener *listener;
    struct session *session; /* NULL outside Muster */
    char resume_from[SESSION_PATH_MAX];
    int signals_seen; /* stop signals of the process before this context */

    /* Prepared objects: borrowed. */
    struct unit units[NUMBERS_UNITS_MAX]; /* [n_units], in the order of models */
    int n_units;
    char
        *configs[NUMBERS_UNITS_MAX]; /* config.json of each one's model, for checkpoints; or NULL */
    bool ready;                      /* they have their memory */
    struct list made;                /* loaders, prepared or not */
    struct wk_object owned[WK_OWNED_MAX]; /* freed with the context, in the order of being made */
    int n_owned;
    struct wk_loader *loaders[NUMBERS_LOADERS_MAX];
    int n_loaders;
    struct wk_scheduler *schedulers[NUMBERS_SCHEDULERS_MAX];
    int n_schedulers;
    bool is_sharded; /* units are cut over the ranks: this one has part `part` of `parts` */
    int part, parts;

    const struct kernel_table *kernels;        /* the best of this machine's */
    const struct kernel_table *common_kernels; /* this generation's; NULL before one */

    /* Of mixed_precision. */
    struct narrowing narrowing; /* but for whose steps it goes by */
    bool scales;                /* fp16: losses are multiplied by the scalers' scales */
    bool skipped; /* the last wk_step at a window's end left the parameters as they were */

    /* The step under way. */
    enum step_phase phase;
    int window;           /* passes that each unit's windows take; known from the first batch on */
    bool ends;            /* nobody has more: the coming pass of each unit is its window's last */
    int leader;           /* source of the first batch of this step or the last one */
    int dealt[SOURCES];   /* batches that each has dealt in it; after a break, since that */
    double window_tokens; /* of the global batches of this step */
    double weight;        /* of all ranks, of the last wk_join */
    uint64_t joins;       /* calls of it */
    bool weighed;         /* a pass has begun since */
    bool wants_save;      /* a window's sums said SAVE */
    bool may_save;        /* and nobody was BUSY */
    bool scheduler_due[NUMBERS_SCHEDULERS_MAX];
    uint64_t born;  /* sharded: generation in which the present shards were cut */
    bool fell_back; /* sharded, while agreeing: state was lost, so there must be a checkpoint */
    bool torn;      /* sharded: an update of this shard failed half-way */
    struct handed *handed[HANDED_MAX]; /* sharded: between generations (shards.h) */
    int n_handed;
    enum heard heard;
    int64_t half_grace_ms; /* when half of a stop's time is over; 0 before one */
    bool agreed_save;
    uint32_t ticket, saves; /* of the save agreed on; how many rank 0 wanted */
    bool triggered;         /* wk_trigger was called here since the last check */
    bool has_state;         /* what this rank holds is training state, not just initial values */
    bool is_partial;        /* it is neither: some of it came from a member that was lost then */
    bool ended;             /* wk_next has returned false for good */
    bool cut_short;         /* an evaluation was, on all ranks, since the last training batch */
    bool told_lossless;     /* that no loss is set */
    bool all_triggered;     /* wk_triggered was true, here and so everywhere, since wk_next */

    struct rng rng;               /* drawn from in this step */
    struct train_numbers numbers; /* of the last completed step; loaders' in `committed` */

    struct saver *saver; /* NULL without checkpoint.dir */
    int folder_fd; /* on the rank that chose a checkpoint, without a session: its lock; or -1 */
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
    bool keeps_files; /* it is rank 0, whose files of logs and trace they are */
};

/* What tests put in the place of the world. */
struct context_seams {
    const struct environment *environment;
    struct session
        *session; /* owned by the context from then on, also after a failure; may be NULL */
    bool quiet;   /* no progress lines, and notices to nobody else than the program */
    const struct kernel_table *kernels; /* the best of this machine's; NULL: as it is */
};
int context_open(const struct wk_options *options, const struct context_seams *seams,
                 struct wk_context **ret_ctx);

/* Make an error sticky (the first stays) and return the sticky one's code. Where the ranks' calls
 * have parted the sentence says what in a program leads to it. */
int context_fail(struct wk_context *ctx, const struct error *err);

/* The same of a mistake in the program's calls, which it would make again: before a first step it
 * is not tried again. */
int context_misuse(struct wk_context *ctx, const struct error *err);

/* Training goes on, but the call came to nothing: the sentence is wk_last_error's until the next,
 * or an error that is sticky. Returns `code`. */
int context_refuse(struct wk_context *ctx, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* error_ear's, of prepared objects: misuse if lasting, else refused. */
int context_hear(void *arg, const struct error *err, bool lasting);

/* Whether the program's calls do nothing until it asks for the next batch. */
static inline bool context_rests(const struct wk_context *ctx)
{
    return ctx->phase == STEP_BROKEN || ctx->phase == STEP_VOID;
}

void context_notice(struct wk_context *ctx, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

int64_t context_now_ms(void); /* monotonic */
int64_t context_now_ns(void);

/* owned.c: free what the context owns, once nothing uses it. */
void owned_free(struct wk_context *ctx);
bool owned_elsewhere(const struct wk_context *ctx, struct wk_object object); /* not NULL */

/* generation.c: membership */

/* Connect to the first generation. */
int context_join(struct wk_context *ctx, struct error *err);

/* Leave what is left of the old generation, join new ones until one holds, and bring all members to
 * the same state. */
int context_reform(struct wk_context *ctx, struct error *err);

/* The collective failed with `code`, or the generation is over: abort, roll the step in flight
 * back. Errors that no new generation can mend become sticky. Returns 0, or the sticky error. */
int context_break(struct wk_context *ctx, int code);

/* What in a program leads to a failure of the present communicator, as the sentence's hint. */
void context_explain(const struct wk_context *ctx, struct error *err);

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

/* scarce.c: whether all ranks have the memory `what` ("gather metrics") needs. All ranks call it,
 * before a collective whose buffers one of them may lack. WK_ENOMEM on all where one lacks it, or
 * the code of a collective. */
int memory_agree(struct wk_context *ctx, bool has, const char *what, struct error *err);

/* kernels.c: give every unit the best kernels that all ranks have; says so where this rank has
 * better ones. All ranks call it, with prepared objects. */
int kernels_agree(struct wk_context *ctx, struct error *err);

/* state.c: everything that must survive */

/* Bring the members of a new generation to the same step: WK_EPEER and the like when it broke
 * meanwhile, other errors are for good. */
int state_agree(struct wk_context *ctx, struct error *err);

/* state_shards.c: the same where each rank holds a part */
int state_agree_shards(struct wk_context *ctx, struct error *err);

/* member.c: what each member says about itself, gathered as 64-bit numbers. */
struct member_unit {
    int64_t count, params, states;
    int64_t digest; /* of the parameters' names, sizes and whether they are rounded */
};
struct member {
    int64_t has_state, is_partial, step;
    int64_t windows, taken; /* units_count */
    int64_t done;           /* windows of the step under way */
    int64_t units, loaders, schedulers;
    int64_t born, part, parts_of; /* generation its shard was cut in, and which of how many */
    int64_t n_handed, handed[HANDED_MAX]; /* parts of ranks that left, of the same cut */
    struct member_unit of[NUMBERS_UNITS_MAX];
};

/* All of them, malloc'd. WK_EMISMATCH when they prepared different objects. */
int member_gather(struct wk_context *ctx, struct member **ret, struct error *err);

/* Whether a is further than b, or where b is. */
bool member_further(const struct member *a, const struct member *b);
bool member_level(const struct member *a, const struct member *b);

/* What the member whose state counts says before its tensors. */
struct word {
    struct train_numbers numbers;
    double losses[NUMBERS_UNITS_MAX];
    int32_t code; /* it has nothing to send: the reason */
    char text[512];
};
void member_word(const struct wk_context *ctx, struct word *ret);
void member_take_word(struct wk_context *ctx, const struct word *word);

/* Fill the state from one checkpoint; the newest one's path ("" if there is none). */
int state_load(struct wk_context *ctx, const char *path, struct error *err);
int state_newest(struct wk_context *ctx, char ret[CHECKPOINT_PATH_MAX], struct error *err);

/* Say that "latest" found none, if that was asked for. */
void state_begins(struct wk_context *ctx);

/* The last of `tried` checkpoints could not be loaded either, for the reason in err. */
void state_none_left(int tried, struct error *err);

/* prepare.c: which part of the models a rank of the present world is to hold. */
struct layout prepare_layout(const struct wk_context *ctx, int rank);

/* prepare.c: cut the models anew for the present rank and world; state is lost. */
int prepare_cut(struct wk_context *ctx, struct error *err);

/* Table of all tensors; malloc'd, the caller frees. */
int state_tensors(struct wk_context *ctx, struct checkpoint_tensor **ret, int *ret_count,
                  struct error *err);
void state_numbers(const struct wk_context *ctx, struct train_numbers *ret);
void state_adopt(struct wk_context *ctx, const struct train_numbers *numbers);

/* mixed.c: what mixed_precision asks for */

/* Read the settings of it, which agree: what is narrowed, and whether losses are scaled. */
void mixed_open(struct wk_context *ctx);

int mixed_open_unit(struct unit *unit, struct error *err);

/* What the coming backward pass multiplies the loss with. */
double mixed_scale(const struct unit *unit);

/* The window's sums are complete: whether they can be applied. In fp16 what is not finite makes
 * *ret_skip true; elsewhere, or when no loss scale helps, it is WK_EOVERFLOW with a sentence that
 * names the parameter. Once per window. Collective when sharded, whose codes come without one. */
int mixed_judge(struct unit *unit, bool *ret_skip, struct error *err);

void mixed_numbers(const struct unit *unit, struct unit_numbers *ret);
void mixed_adopt(struct unit *unit, const struct unit_numbers *numbers);

/* window.c: windows of units, and the steps that they make
 *
 * A step begins with a batch (wk_next, wk_join) and is over when every optimizer has stepped in it,
 * or when a source that has dealt a window's batches in it is asked again while no window is open.
 * It counts unless all its windows were skipped. With one optimizer that is its wk_step. */

/* Whether a batch asked of `source` (loader: NULL for own data) belongs to the step under way; in a
 * broken generation, whether it is one to do nothing with, on the way to where the step began. */
bool window_joins(struct wk_context *ctx, int source, const struct wk_loader *loader);

/* Before that: a source that has given its batches of the step is asked again while a window is
 * full and its optimizer has not stepped: nothing would ever end the step. WK_ESTATE. A window that
 * is not full and gets no more passes is a notice: it may be meant to take that long. */
void window_check(struct wk_context *ctx, int source);

/* The generation changed inside wk_join: the pass that it lets the program make is VOID. */
void window_void(struct wk_context *ctx);

/* The next step is to begin: what is left of the one under way is over. */
void window_end_step(struct wk_context *ctx);

/* A batch of `source` begins a step or takes part in one. */
void window_deal(struct wk_context *ctx, int source);

/* A backward pass begins: if it is its window's last, its gradients are summed. WK_ESTATE. */
int window_begin_pass(struct unit *unit);

/* Its gradients are there: what it said of its loss joins the sums, whose last message comes with
 * wk_backward. */
void window_end_pass(struct unit *unit);

/* What the window's sum is a mean over: its passes, or what the ranks said their parts weigh. */
double window_weight(const struct unit *unit);

/* The window is over, its step taken or skipped; or AGAIN: the state held it already. */
enum window_result { WINDOW_TAKEN, WINDOW_SKIPPED, WINDOW_AGAIN };
bool window_was_taken(const struct unit *unit);
void window_close(struct unit *unit, enum window_result result);

/* The generation broke: the step under way is given up; and in the next one begins again. */
void window_roll_back(struct wk_context *ctx);
void window_begin_again(struct wk_context *ctx);

/* report.c: figures of a step, for whoever watches */

/* `progress`: where lines go, or NULL. Rank 0 opens the files of logs and the trace: WK_EIO and the
 * like where it cannot. */
int report_open(struct wk_context *ctx, FILE *progress, struct error *err);

/* The log files end here: this process leaves, or another one is rank 0. */
void report_release(struct wk_context *ctx);
/* After each generation: where another process was rank 0, this one goes on with its files. What
 * fails is a notice. */
void report_follow(struct wk_context *ctx);

void report_step(struct wk_context *ctx, double tokens);
void report_one(struct wk_context *ctx, const char *name, double value);

/* save.c */

int save_open(struct wk_context *ctx, struct error *err);

/* Before nobody's state becomes the start's (`anew`) or a checkpoint's, on the rank that chooses: a
 * new run begins in a folder that can be written and, where no coordinator knows whose is what,
 * holds no checkpoints yet: WK_EIO, WK_EINVAL. To one that goes on the first is a notice. Neither
 * shares the folder with another program. */
int save_begin(struct wk_context *ctx, bool anew, struct error *err);

/* After a checkpoint was loaded: say what is special about it. `damaged` is the newest that had to
 * give way to it, "" if none had. */
void save_resumed(struct wk_context *ctx, const char *damaged);

/* What rank 0 says with the coming step's gradients. */
void save_announce(struct wk_context *ctx, float *extras);

/* At a boundary: start a checkpoint if one is due. */
void save_if_due(struct wk_context *ctx);

/* Save the present state unless it is saved, and wait for it; tried again for as long as
 * checkpoint.patience or a stop request's grace allows, and no newer generation is announced. */
int save_last(struct wk_context *ctx, struct error *err);

/* parting.c: who stops and who goes on in the next generation */

/* What this rank says of it with the sums of a step, and what all of them said. */
void parting_say(struct wk_context *ctx, float *extras);
void parting_hear(struct wk_context *ctx, const float *extras);

enum parting {
    PARTING_TRAIN,
    PARTING_STOP,  /* save, with all that are there, and end */
    PARTING_LEAVE, /* end: the others go on with the state */
    PARTING_RENEW, /* into the next generation */
    PARTING_AGAIN, /* it broke, or the error is sticky: decide again */
};
/* At a boundary. Collective once one was heard. */
enum parting parting_decide(struct wk_context *ctx);

/* signal.c: SIGTERM and Ctrl-C as requests to stop */

void signal_watch(void); /* where their disposition is the default one; nests */
void signal_unwatch(void);
int signal_count(void); /* stop signals of this process so far */

/* boundary.c: what happens between steps, before a training batch of `source` is dealt. true: deal
 * one, in whichever step it belongs to. */
bool boundary_pass(struct wk_context *ctx, int source);
/* There is no more data: the last checkpoint, and everybody waits for everybody. false: the
 * generation broke meanwhile, so the next boundary_pass has more to do, or the error is sticky. */
bool boundary_end(struct wk_context *ctx);
bool boundary_stopping(struct wk_context *ctx);
/* Whether evaluation may go on: the others wait for this rank in a newer generation, or to stop.
 * Sharded: collective. */
bool boundary_evaluates(struct wk_context *ctx);
bool boundary_behind(struct wk_context *ctx); /* a newer generation is announced */

#endif
