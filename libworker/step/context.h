/* The context connects settings, place, communicator, prepared objects and the state of the step in
 * progress. Private to step/ (tests open contexts with their own seams).
 *
 *            wk_next                  wk_step: every optimizer has stepped
 *   BOUNDARY ───────► UNDER_WAY ─────────────────────────────────────────────► BOUNDARY
 *      ▲                 │ ▲                wk_next: another batch is asked for │
 *      │ reform          │ └────────────────────────────────────────────────────┘
 *      └──── BROKEN ◄────┘ a peer is lost, the generation is over
 *
 *   BOUNDARY ──wk_join, in which a generation began──► VOID ──the next wk_join──► BOUNDARY
 *
 * Models are units (unit.h), each with its own window of gradients. Parameters and optimizer state
 * change only in wk_step, one unit at a time, after that unit's sums are complete on this rank. The
 * state is therefore always that of the last completed step, plus the windows of the step in
 * progress that unit->numbers counts. Checkpoints contain exactly this, and members compare it.
 *
 * A broken step begins again with its batch. Windows of it that are already in the state are left
 * out (window.c). Members may differ by some windows: reform brings all to the furthest one.
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
#include "libworker/step/consensus.h"
#include "libworker/step/unit.h"
#include "libworker/track/profile.h"
#include "libworker/track/track.h"

enum {
    SIGNAL_GRACE_MS = 10000, /* after a stop signal that came without a grace time */
    HANDED_MAX = 16,         /* parts of ranks that left, kept by each rank that stayed */
};
struct handed;

/* What a step's sums announced for the boundary after it. */
enum heard { HEARD_NOTHING, HEARD_STOP, HEARD_PART };

/* VOID: a pass of the program's own data has no effect, because the data was chosen for the
 * generation before. BROKEN has the same effect. */
enum step_phase { STEP_BOUNDARY, STEP_UNDER_WAY, STEP_BROKEN, STEP_VOID };

/* The source of a batch: a prepared loader's number, or the program itself (wk_join). */
enum { SOURCE_OWN = NUMBERS_LOADERS_MAX, SOURCES, SOURCE_NONE = -1 };

struct wk_context {
    struct settings settings;
    struct place place;
    struct error error;                              /* sticky; code 0 = none */
    bool misused;                                    /* the error was a wrong call of the program */
    char refused[sizeof(((struct error *)0)->text)]; /* sentence of the last call that failed
                                                      * without a sticky error */
    bool told_metric;                                /* the notice about an invalid metric name was
                                                      * given */
    void (*notice)(void *arg, const char *text);
    void *notice_arg;
    FILE *notices; /* borrowed: file for notices without `notice`; NULL: none */

    pthread_mutex_t lock;
    struct wk_comm *comm;             /* changed under lock; NULL between generations */
    uint64_t generation;              /* changed under lock */
    struct wk_comm_status connecting; /* under lock: missing ranks while connecting; or zeroed */
    char last_notice[1024];           /* under lock */
    char shown_notice[1024];          /* the text that wk_last_notice returned */

    int rank, world; /* changed under lock */
    int local_rank;
    struct comm_listener *listener;
    struct session *session; /* NULL outside Muster */
    char resume_from[SESSION_PATH_MAX];
    int signals_seen; /* stop signals of the process before this context */

    /* Prepared objects: borrowed. */
    struct unit units[NUMBERS_UNITS_MAX]; /* [n_units], in the order of models */
    int n_units;
    char *configs[NUMBERS_UNITS_MAX];     /* config.json of each model, for checkpoints; or NULL */
    bool ready;                           /* prepared objects have their memory */
    struct list made;                     /* loaders made in this context, prepared or not */
    struct wk_object owned[WK_OWNED_MAX]; /* freed with the context, in the order they were made */
    int n_owned;
    struct wk_loader *loaders[NUMBERS_LOADERS_MAX];
    int n_loaders;
    struct wk_scheduler *schedulers[NUMBERS_SCHEDULERS_MAX];
    int n_schedulers;
    bool is_sharded; /* units are cut over the ranks: this rank has part `part` of `parts` */
    int part, parts;

    const struct kernel_table *kernels;        /* the best of this machine */
    const struct kernel_table *common_kernels; /* of this generation; NULL before one */

    /* From mixed_precision. */
    struct narrowing narrowing; /* the same for all units, except each unit's step count */
    bool scales;                /* fp16: losses are multiplied by the scaler's scale */
    bool skipped;               /* the last wk_step at a window's end skipped its update */

    /* The step in progress. */
    enum step_phase phase;
    int window;           /* passes in each unit's windows; known from the first batch on */
    bool ends;            /* no rank has more data: the next passes end the windows */
    int leader;           /* source of the first batch of this step, or of the last step */
    int dealt[SOURCES];   /* batches dealt in it, by source; after a break, those since the break */
    double window_tokens; /* of the global batches of this step */
    double weight;        /* of all ranks, from the last wk_join */
    uint64_t joins;       /* number of wk_join calls */
    bool weighed;         /* a pass has begun since the last wk_join */
    bool wants_save;      /* a window's sums had SAVE set */
    bool may_save;        /* and no rank was BUSY */
    bool scheduler_due[NUMBERS_SCHEDULERS_MAX];
    uint64_t born;  /* sharded: generation in which the present shards were cut */
    bool fell_back; /* sharded, while agreeing: state was lost, so a checkpoint is required */
    bool torn;      /* sharded: an update of this shard failed half-way */
    struct handed *handed[HANDED_MAX]; /* sharded: kept between generations (shards.h) */
    int n_handed;
    enum heard heard;
    int64_t half_grace_ms; /* when half of a stop's grace is over; 0 before a stop */
    bool agreed_save;
    uint32_t ticket, saves; /* of the agreed save; number of saves that rank 0 wanted */
    bool triggered;         /* wk_trigger was called on this rank since the last check */
    bool has_state;         /* this rank has training state, not just initial values */
    bool is_partial;        /* neither: parts are from a member that was lost meanwhile */
    bool ended;             /* wk_next has returned false for the last time */
    bool cut_short;         /* an evaluation was cut short, on all ranks, since the last training
                             * batch */
    bool told_lossless;     /* the notice about a missing loss was given */
    bool all_triggered;     /* wk_triggered was true, and so on all ranks, since wk_next */

    struct rng rng;               /* as advanced in this step */
    struct train_numbers numbers; /* as of the last completed step; loaders' in `committed` */

    struct saver *saver; /* NULL without checkpoint.dir */
    int folder_fd;       /* lock of the chosen checkpoint folder, without a session; or -1 */
    struct checkpoint_gate gate;
    int64_t saved_step; /* step of the newest state passed to the saver */
    int64_t saved_ms;   /* time of that */
    bool save_asked;
    bool save_over;        /* sharded: the last collective save is done */
    int64_t patience_ms;   /* for a coordinator that cannot be reached, and for the last save */
    bool save_again;       /* under lock: the last save failed; retry at save_again_ms */
    int64_t save_again_ms; /* under lock */
    int64_t save_pause_ms; /* under lock: delay after the next failure */
    bool closing;          /* under lock: nothing waits any more */

    struct track track;
    struct profile profile; /* of this rank's steps */
    bool track_open, track_failed;
    bool keeps_files; /* this is rank 0, which writes the log and trace files */
};

/* Replacements for the outside world in tests. */
struct context_seams {
    const struct environment *environment;
    struct session
        *session; /* owned by the context from the call on, also on failure; may be NULL */
    bool quiet;   /* no progress lines, and notices only to the program */
    const struct kernel_table *kernels; /* replaces the best of this machine; or NULL */
};
int context_open(const struct wk_options *options, const struct context_seams *seams,
                 struct wk_context **ret_ctx);

/* Make an error sticky (the first stays) and return the sticky error's code. If ranks called
 * different operations, the sentence adds what in a program causes that. */
int context_fail(struct wk_context *ctx, const struct error *err);

/* The same for a mistake in the program's calls. It would happen again, so before the first step
 * the job is not retried. */
int context_misuse(struct wk_context *ctx, const struct error *err);

/* The call failed, but training continues. wk_last_error has the sentence until the next one or a
 * sticky error. Returns `code`. */
int context_refuse(struct wk_context *ctx, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The error_ear of prepared objects: misuse if lasting, else refused. */
int context_hear(void *arg, const struct error *err, bool lasting);

/* True if the program's calls do nothing until it asks for the next batch. */
static inline bool context_rests(const struct wk_context *ctx)
{
    return ctx->phase == STEP_BROKEN || ctx->phase == STEP_VOID;
}

void context_notice(struct wk_context *ctx, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

int64_t context_now_ms(void); /* monotonic */
int64_t context_now_ns(void);

/* owned.c: free the context's own objects, once nothing uses them. */
void owned_free(struct wk_context *ctx);
bool owned_elsewhere(const struct wk_context *ctx, struct wk_object object); /* not NULL */

/* generation.c: membership */

/* Connect to the first generation. */
int context_join(struct wk_context *ctx, struct error *err);

/* Leave the rest of the old generation, join new ones until one succeeds, and bring all members to
 * the same state. */
int context_reform(struct wk_context *ctx, struct error *err);

/* A collective failed with `code`, or the generation is over: abort, and roll the step in progress
 * back. An error that no new generation can cure becomes sticky. Returns 0, or the sticky error. */
int context_break(struct wk_context *ctx, int code);

/* Add a hint to a failure of the present communicator: what in a program causes it. */
void context_explain(const struct wk_context *ctx, struct error *err);

/* True if the next generation cures a failure with this code. */
bool context_mendable(int code);

/* Close the communicator. */
void context_leave(struct wk_context *ctx);

/* Start the strategy with the members of a new generation, after they were found alike. All ranks
 * call it. WK_EMISMATCH on all ranks; a curable code if the generation broke meanwhile. */
int context_meet(struct wk_context *ctx, struct error *err);

/* alike.c: check that all ranks have equal settings and objects, as far as these shape the
 * mathematics. All ranks call it, with prepared objects. WK_EMISMATCH on all ranks, naming the
 * first difference. */
int alike_check(struct wk_context *ctx, struct error *err);

/* scarce.c: check that all ranks have the memory for `what` ("gather metrics"). All ranks call it
 * before a collective for which one may lack buffers. WK_ENOMEM on all ranks if one lacks it, or
 * the code of a collective. */
int memory_agree(struct wk_context *ctx, bool has, const char *what, struct error *err);

/* kernels.c: set every unit's kernels to the best that all ranks have, with a notice if this rank
 * has better ones. All ranks call it, with prepared objects. */
int kernels_agree(struct wk_context *ctx, struct error *err);

/* state.c: everything that must survive */

/* Bring the members of a new generation to the same step. WK_EPEER and similar codes if the
 * generation broke meanwhile; other errors are final. */
int state_agree(struct wk_context *ctx, struct error *err);

/* state_shards.c: the same where each rank holds a part */
int state_agree_shards(struct wk_context *ctx, struct error *err);

/* member.c: each member's facts, gathered as 64-bit numbers. */
struct member_unit {
    int64_t count, params, states;
    int64_t digest; /* of the parameters' names, sizes and whether they are rounded */
};
struct member {
    int64_t has_state, is_partial, step;
    int64_t windows, taken; /* units_count */
    int64_t done;           /* windows of the step in progress */
    int64_t units, loaders, schedulers;
    int64_t born, part, parts_of; /* generation its shard was cut in, and which of how many */
    int64_t n_handed, handed[HANDED_MAX]; /* parts of ranks that left, from the same cut */
    struct member_unit of[NUMBERS_UNITS_MAX];
};

/* The facts of all members, malloced. WK_EMISMATCH if they prepared different objects. */
int member_gather(struct wk_context *ctx, struct member **ret, struct error *err);

/* True if a is further than b (member_further), or equally far (member_level). */
bool member_further(const struct member *a, const struct member *b);
bool member_level(const struct member *a, const struct member *b);

/* Sent before its tensors by the member whose state is chosen. */
struct word {
    struct train_numbers numbers;
    double losses[NUMBERS_UNITS_MAX];
    int32_t code; /* the reason if it has nothing to send */
    char text[512];
};
void member_word(const struct wk_context *ctx, struct word *ret);
void member_take_word(struct wk_context *ctx, const struct word *word);

/* state_load: fill the state from one checkpoint. state_newest: the newest checkpoint's path, or
 * "". */
int state_load(struct wk_context *ctx, const char *path, struct error *err);
int state_newest(struct wk_context *ctx, char ret[CHECKPOINT_PATH_MAX], struct error *err);

/* Give a notice if resume_from "latest" found no checkpoint. */
void state_begins(struct wk_context *ctx);

/* The last of `tried` checkpoints could not be loaded either; err has the reason. */
void state_none_left(int tried, struct error *err);

/* prepare.c: the part of the models for a rank of the present world. */
struct layout prepare_layout(const struct wk_context *ctx, int rank);

/* prepare.c: cut the models again for the present rank and world; their state is lost. */
int prepare_cut(struct wk_context *ctx, struct error *err);

/* Table of all tensors; malloced, the caller frees it. */
int state_tensors(struct wk_context *ctx, struct checkpoint_tensor **ret, int *ret_count,
                  struct error *err);
void state_numbers(const struct wk_context *ctx, struct train_numbers *ret);
void state_adopt(struct wk_context *ctx, const struct train_numbers *numbers);

/* mixed.c: mixed_precision */

/* Read its settings, which agree on all ranks: which types are narrowed, and whether losses are
 * scaled. */
void mixed_open(struct wk_context *ctx);

int mixed_open_unit(struct unit *unit, struct error *err);

/* Factor for the loss in the next backward pass. */
double mixed_scale(const struct unit *unit);

/* Decide whether the window's complete sums can be applied. A non-finite value sets *ret_skip in
 * fp16. In other precisions, or when no loss scale helps, it is WK_EOVERFLOW and the sentence names
 * the parameter. Call it once per window. Collective when sharded; codes of collectives then have
 * no sentence. */
int mixed_judge(struct unit *unit, bool *ret_skip, struct error *err);

void mixed_numbers(const struct unit *unit, struct unit_numbers *ret);
void mixed_adopt(struct unit *unit, const struct unit_numbers *numbers);

/* window.c: windows of units, and the steps they form
 *
 * A step begins with a batch (wk_next, wk_join). It is over when every optimizer has stepped in it.
 * It is also over when a source that dealt a window's batches in it is asked again while no window
 * is open. It counts unless all its windows were skipped. With one optimizer that is its wk_step.
 */

/* True if a batch from `source` (loader: NULL for own data) belongs to the step in progress. In a
 * broken generation: true if the batch has no effect, on the way to where the step began. */
bool window_joins(struct wk_context *ctx, int source, const struct wk_loader *loader);

/* Call before window_joins. WK_ESTATE if a source that has dealt its batches of the step is asked
 * again while a window is full and not stepped. Nothing would ever end such a step.
 * A window that is not full and gets no more passes is only a notice, because a program may want
 * such a long window. */
void window_check(struct wk_context *ctx, int source);

/* The generation changed inside wk_join: the program's next pass is VOID. */
void window_void(struct wk_context *ctx);

/* End the step in progress, because the next one begins. */
void window_end_step(struct wk_context *ctx);

/* A batch from `source` begins a step or joins the present one. */
void window_deal(struct wk_context *ctx, int source);

/* A backward pass begins. If it is the last of its window, its gradients are summed. WK_ESTATE. */
int window_begin_pass(struct unit *unit);

/* The pass's gradients are complete. Its loss joins the sums, which wk_backward finishes. */
void window_end_pass(struct unit *unit);

/* The divisor of the window's mean: its passes, or the sum of the ranks' weights. */
double window_weight(const struct unit *unit);

/* End the window: its step was taken or skipped; or AGAIN, if the state already contains it. */
enum window_result { WINDOW_TAKEN, WINDOW_SKIPPED, WINDOW_AGAIN };
bool window_was_taken(const struct unit *unit);
void window_close(struct unit *unit, enum window_result result);

/* window_roll_back: the generation broke, so give up the step in progress. window_begin_again:
 * begin it again in the next generation. */
void window_roll_back(struct wk_context *ctx);
void window_begin_again(struct wk_context *ctx);

/* report.c: values of a step, for observers */

/* `progress`: file for progress lines, or NULL. Rank 0 opens the files of logs and the trace;
 * WK_EIO and similar codes if it cannot. */
int report_open(struct wk_context *ctx, FILE *progress, struct error *err);

/* Close the log files, because this process leaves or another one is now rank 0. */
void report_release(struct wk_context *ctx);
/* Call after each generation. If another process was rank 0, this one continues its files. A
 * failure is only a notice. */
void report_follow(struct wk_context *ctx);

void report_step(struct wk_context *ctx, double tokens);
void report_one(struct wk_context *ctx, const char *name, double value);

/* save.c */

int save_open(struct wk_context *ctx, struct error *err);

/* Called on the rank that chooses, before the initial state (`anew`) or a checkpoint becomes the
 * state. A new run needs a writable folder. Without a coordinator the folder must also be empty of
 * checkpoints. WK_EIO, WK_EINVAL. For a continued run an unwritable folder is only a notice. No
 * other program may use the folder at the same time. */
int save_begin(struct wk_context *ctx, bool anew, struct error *err);

/* Give notices about a loaded checkpoint. `damaged` is the newest one that had to be skipped, or
 * "". */
void save_resumed(struct wk_context *ctx, const char *damaged);

/* Set rank 0's save numbers for the next step's sums. */
void save_announce(struct wk_context *ctx, struct consensus *said);

/* At a boundary: start a checkpoint if one is due. */
void save_if_due(struct wk_context *ctx);

/* Save the present state unless it is already saved, and wait for the save. It is retried within
 * checkpoint.patience or a stop request's grace, as long as no newer generation is announced. */
int save_last(struct wk_context *ctx, struct error *err);

/* parting.c: which ranks stop and which continue in the next generation */

/* parting_say: this rank's numbers for a step's sums. parting_hear: the sums of all ranks. */
void parting_say(struct wk_context *ctx, struct consensus *said);
void parting_hear(struct wk_context *ctx, const struct consensus *sums);

enum parting {
    PARTING_TRAIN,
    PARTING_STOP,  /* save, together with all present ranks, and end */
    PARTING_LEAVE, /* end: the other ranks continue with the state */
    PARTING_RENEW, /* continue in the next generation */
    PARTING_AGAIN, /* the generation broke, or the error is sticky: decide again */
};
/* Call at a boundary. Collective if a step's sums announced something. */
enum parting parting_decide(struct wk_context *ctx);

/* signal.c: SIGTERM and Ctrl-C as requests to stop */

void signal_watch(void); /* only where their disposition is the default; nests */
void signal_unwatch(void);
int signal_count(void); /* stop signals of this process so far */

/* boundary.c: everything between steps, before a training batch of `source` is dealt. True: deal
 * one, in whichever step it belongs to. */
bool boundary_pass(struct wk_context *ctx, int source);
/* There is no more data: write the last checkpoint and wait for all ranks. False: the generation
 * broke, so boundary_pass must be called again, or the error is sticky. */
bool boundary_end(struct wk_context *ctx);
bool boundary_stopping(struct wk_context *ctx);
/* True if evaluation may continue. False if the other ranks wait for this one in a newer
 * generation, or in order to stop. Sharded: collective. */
bool boundary_evaluates(struct wk_context *ctx);
bool boundary_behind(struct wk_context *ctx); /* a newer generation is announced */

#endif
