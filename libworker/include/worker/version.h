/* The version of libworker: of these headers by macro, of the loaded library by call. Any thread.
 *
 * A release runs programs compiled with an earlier release of the same MAJOR.MINOR while MAJOR is
 * 0, later of the same MAJOR. The library's SONAME (libworker.so.0.1) has the same meaning for the
 * linker.
 */
#ifndef WORKER_VERSION_H
#define WORKER_VERSION_H

#include <worker/export.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WK_VERSION_MAJOR 0
#define WK_VERSION_MINOR 1
#define WK_VERSION_PATCH 0

/* For #if WK_VERSION >= WK_VERSION_NUMBER(0, 2, 0) */
#define WK_VERSION_NUMBER(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))

#define WK_VERSION WK_VERSION_NUMBER(WK_VERSION_MAJOR, WK_VERSION_MINOR, WK_VERSION_PATCH)

/* Those of the library that the program runs with: WK_VERSION as it was there, and "0.1.0". */
WK_API int wk_version(void);
WK_API const char *wk_version_text(void);

#ifdef __cplusplus
}
#endif

#endif
