#include <worker/types.h>

#define COUNT(X) (sizeof(X) / sizeof((X)[0]))

static const struct {
    size_t bytes;
    const char *name;
} dtypes[] = {
#define X(name, bytes, text) {bytes, text},
    WK_DTYPE_LIST(X)
#undef X
};

size_t wk_dtype_bytes(enum wk_dtype dtype)
{
    return (unsigned)dtype < COUNT(dtypes) ? dtypes[dtype].bytes : 0;
}

const char *wk_dtype_name(enum wk_dtype dtype)
{
    return (unsigned)dtype < COUNT(dtypes) ? dtypes[dtype].name : "?";
}
