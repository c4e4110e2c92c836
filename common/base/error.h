/* Errors: one list of codes (gRPC's, so that RPC and REST need no translation) and a sentence that
 * grows on its way up.
 *
 * Functions return 0 or a negative code of this list. Where a person will read the failure the last
 * parameter is `struct error *`: the callee fills it, each caller may wrap it with its own context.
 * A NULL error is accepted everywhere and only loses the sentence. Plain data, no ownership, any
 * thread as long as each uses its own.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

/* name, gRPC number, HTTP status of its REST answer */
#define ERROR_LIST(X)                                                                              \
    X(CANCELLED, 1, 499)                                                                           \
    X(UNKNOWN, 2, 500)                                                                             \
    X(INVALID_ARGUMENT, 3, 400)                                                                    \
    X(DEADLINE_EXCEEDED, 4, 504)                                                                   \
    X(NOT_FOUND, 5, 404)                                                                           \
    X(ALREADY_EXISTS, 6, 409)                                                                      \
    X(PERMISSION_DENIED, 7, 403)                                                                   \
    X(RESOURCE_EXHAUSTED, 8, 429)                                                                  \
    X(FAILED_PRECONDITION, 9, 412)                                                                 \
    X(ABORTED, 10, 409)                                                                            \
    X(OUT_OF_RANGE, 11, 400)                                                                       \
    X(UNIMPLEMENTED, 12, 501)                                                                      \
    X(INTERNAL, 13, 500)                                                                           \
    X(UNAVAILABLE, 14, 503)                                                                        \
    X(DATA_LOSS, 15, 500)                                                                          \
    X(UNAUTHENTICATED, 16, 401)

enum error_code {
    E_OK = 0,
#define X(name, number, http) E_##name = -(number),
    ERROR_LIST(X)
#undef X
};

struct error {
    int code;        /* enum error_code */
    char text[1024]; /* a sentence for people: what, where */
    char field[128]; /* path of the offending input, "" if none */
    char hint[256];  /* what to do next, "" if nothing is known to help */
};

/* "INVALID_ARGUMENT" for E_INVALID_ARGUMENT; "OK" for 0; "UNKNOWN" for other numbers. */
const char *error_name(int code);

/* The code of a gRPC name, or E_UNKNOWN. */
int error_from_name(const char *name);

/* HTTP status of a code; 200 for 0. */
int error_http_status(int code);

/* The nearest code to an errno value: ENOENT is E_NOT_FOUND, ENOSPC is E_RESOURCE_EXHAUSTED... */
int error_from_errno(int errno_value);

/* Fill `err` (may be NULL) and return `code`, so that a failure is one statement. */
int error_set(struct error *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As error_set for a failed system call: appends ": <strerror>" and maps errno to the code. */
int error_errno(struct error *err, int errno_value, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Turn a failure into one of the layer above: keep its sentence, replace its code by `code`.
 * Returns code, so that the result and err->code agree; callers read either. */
int error_recode(struct error *err, int code);

/* Forget a failure that turned out to be none: an absent file that may be absent. NULL is fine. */
void error_clear(struct error *err);

/* Put "<context>: " before the sentence already there; returns err->code (E_UNKNOWN if NULL). */
int error_wrap(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* For calls without a place for an error, like constructors of a library. The sentence stays with
 * this thread until the next such failure. error_keep returns err->code; error_kept is "" before
 * the first. */
int error_keep(const struct error *err);
const char *error_kept(void);

/* Name the offending input ("spec.nodes.min") / the next step. Both accept a NULL err. */
void error_field(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void error_hint(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
