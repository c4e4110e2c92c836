/* Sentences of failures that no error of a caller takes: what could not be made, by the kind of
 * object, and what an object refuses once it belongs to something. For libraries; error_keep
 * (error.h) is the thread's last.
 */
#ifndef BASE_KEPT_H
#define BASE_KEPT_H

#include <stdbool.h>

#include "common/base/error.h"

/* As error_keep, and once more by the kind of object that could not be made: what is given NULL in
 * the place of one tells why. error_kept_of is this thread's last of the kind, "" if there is none.
 */
enum { ERROR_KINDS = 8 };
int error_keep_of(int kind, const struct error *err);
const char *error_kept_of(int kind);

/* Who hears what an object refuses; zeroed, it is the thread (error_keep). `lasting`: what was
 * asked for is not so from now on, so the failure must not be passed over; else the call alone came
 * to nothing. Both return err->code. */
struct error_ear {
    int (*hear)(void *arg, const struct error *err, bool lasting);
    void *arg;
};
int error_tell(const struct error_ear *ear, const struct error *err, bool lasting);

#endif
