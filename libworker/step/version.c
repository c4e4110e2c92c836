#include <worker/version.h>

#define TEXT_OF(x)                  #x
#define DOTTED(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

int wk_version(void)
{
    return WK_VERSION;
}

const char *wk_version_text(void)
{
    return DOTTED(WK_VERSION_MAJOR, WK_VERSION_MINOR, WK_VERSION_PATCH);
}
