#include "common/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int code;
    int http;
} codes[] = {
#define X(name, number, http) {#name, -(number), http},
    ERROR_LIST(X)
#undef X
};

#define CODES (sizeof(codes) / sizeof(codes[0]))

const char *error_name(int code)
{
    if (code == E_OK)
        return "OK";
    for (size_t i = 0; i < CODES; i++)
        if (codes[i].code == code)
            return codes[i].name;
    return "UNKNOWN";
}

int error_from_name(const char *name)
{
    if (strcmp(name, "OK") == 0)
        return E_OK;
    for (size_t i = 0; i < CODES; i++)
        if (strcmp(codes[i].name, name) == 0)
            return codes[i].code;
    return E_UNKNOWN;
}

int error_http_status(int code)
{
    if (code == E_OK)
        return 200;
    for (size_t i = 0; i < CODES; i++)
        if (codes[i].code == code)
            return codes[i].http;
    return 500;
}

int error_from_errno(int errno_value)
{
    switch (errno_value) {
    case 0:
        return E_OK;
    case ENOENT:
    case ESRCH:
        return E_NOT_FOUND;
    case EEXIST:
        return E_ALREADY_EXISTS;
    case EACCES:
    case EPERM:
        return E_PERMISSION_DENIED;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EFBIG:
        return E_RESOURCE_EXHAUSTED;
    case EINVAL:
    case ENOEXEC:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
        return E_INVALID_ARGUMENT;
    case ETIMEDOUT:
        return E_DEADLINE_EXCEEDED;
    case EIO:
        return E_DATA_LOSS;
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EPIPE:
    case EAGAIN:
        return E_UNAVAILABLE;
    case EADDRINUSE:
    case EBUSY:
        return E_FAILED_PRECONDITION;
    case ENOSYS:
    case EOPNOTSUPP:
        return E_UNIMPLEMENTED;
    default:
        return E_INTERNAL;
    }
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;
    va_list ap;
    *err = (struct error){.code = code};
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    return code;
}

int error_errno(struct error *err, int errno_value, const char *fmt, ...)
{
    int code = error_from_errno(errno_value);
    if (!err)
        return code;
    va_list ap;
    *err = (struct error){.code = code};
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof(err->text))
        snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", strerror(errno_value));
    return code;
}

int error_recode(struct error *err, int code)
{
    if (err)
        err->code = code;
    return code;
}

void error_clear(struct error *err)
{
    if (err)
        *err = (struct error){0};
}

int error_wrap(struct error *err, const char *fmt, ...)
{
    if (!err)
        return E_UNKNOWN;
    char inner[sizeof(err->text)];
    memcpy(inner, err->text, sizeof(inner));
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof(err->text))
        snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", inner);
    return err->code ? err->code : E_UNKNOWN;
}

static _Thread_local char kept[sizeof(((struct error *)0)->text)];

int error_keep(const struct error *err)
{
    memcpy(kept, err->text, sizeof(kept));
    return err->code;
}

const char *error_kept(void)
{
    return kept;
}

void error_field(struct error *err, const char *fmt, ...)
{
    if (!err)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->field, sizeof(err->field), fmt, ap);
    va_end(ap);
}

void error_hint(struct error *err, const char *fmt, ...)
{
    if (!err)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
    va_end(ap);
}
