/* Sentences of failures that no caller's error receives: of objects that could not be made, by
 * kind, and of objects that refuse a call after they belong to something. For libraries; error_keep
 * (error.h) is the thread's last. */
#ifndef BASE_KEPT_H
#define BASE_KEPT_H

#include <stdbool.h>

#include "common/base/error.h"

/* Like error_keep, and also by the kind of object that could not be made, so that a call with NULL
 * instead of one can explain why. error_kept_of is this thread's last of the kind, or "". */
enum { ERROR_KINDS = 8 };
int error_keep_of(int kind, const struct error *err);
const char *error_kept_of(int kind);

/* The receiver of an object's refusals; zeroed, it is the thread (error_keep). `lasting`: the
 * requested state is missing from now on, so the failure must not be ignored; otherwise only this
 * call had no effect. Both return err->code. */
struct error_ear {
    int (*hear)(void *arg, const struct error *err, bool lasting);
    void *arg;
};
int error_tell(const struct error_ear *ear, const struct error *err, bool lasting);

#endif
