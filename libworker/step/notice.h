/* Notices of a context: sentences to the program that end nothing. They go to its function, or to a
 * file, and the last one is kept.
 *
 * Any thread may add one. The fields without a lock are constant from context_open on.
 */
#ifndef STEP_NOTICE_H
#define STEP_NOTICE_H

#include <pthread.h>
#include <stdio.h>

enum { NOTICE_MAX = 1024 };

struct wk_context;

struct notices {
    void (*call)(void *arg, const char *text);
    void *arg;
    FILE *file; /* borrowed: for notices without `call`; NULL: none */
    pthread_mutex_t lock;
    char last[NOTICE_MAX];  /* under lock */
    char shown[NOTICE_MAX]; /* the text that wk_last_notice returned; the program's thread */
};

void context_notice(struct wk_context *ctx, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
