/* The version of libworker: of these headers by macro, of the library that runs by call.
 *
 * A release that keeps MAJOR.MINOR while MAJOR is 0, later MAJOR, runs programs that were compiled
 * with an earlier one of it; the library's SONAME (libworker.so.0.1) says the same to the linker.
 * Any thread.
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
