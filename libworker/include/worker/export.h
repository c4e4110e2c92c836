/* What leaves the shared library: everything is built hidden, these symbols are not. */
#ifndef WORKER_EXPORT_H
#define WORKER_EXPORT_H

#define WK_API __attribute__((visibility("default")))

#endif
