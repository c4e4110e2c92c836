/* How calls of a context fail.
 *
 *      sticky    ends the training: every later call returns its code; the first one stays
 *      misuse    sticky, and a mistake in the program's calls: it would happen again, so before the
 *                first step the job is not retried
 *      refused   this call failed, and training continues
 *
 * Owned by the program's thread.
 */
#ifndef STEP_FAILURE_H
#define STEP_FAILURE_H

#include <stdbool.h>

#include "common/base/error.h"

struct wk_context;

struct failure {
    struct error sticky; /* code 0 = none */
    bool misused;
    char refused[sizeof(((struct error *)0)->text)]; /* the last such sentence */
};

/* Make an error sticky and return the sticky error's code. If ranks called different operations,
 * the sentence adds what in a program causes that. */
int context_fail(struct wk_context *ctx, const struct error *err);

/* The same for a mistake in the program's calls; and from a code and a plain sentence. */
int context_misuse(struct wk_context *ctx, const struct error *err);
int context_misuse_text(struct wk_context *ctx, int code, const char *text);

/* Not sticky: wk_last_error has the sentence until the next one or a sticky error. Returns `code`.
 */
int context_refuse(struct wk_context *ctx, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The error_ear of prepared objects: misuse if lasting, else refused. */
int context_hear(void *arg, const struct error *err, bool lasting);

/* Add a hint to a failure of the present communicator: what in a program causes it. */
void context_explain(const struct wk_context *ctx, struct error *err);

/* True if the next generation cures a failure with this code. */
bool context_mendable(int code);

#endif
