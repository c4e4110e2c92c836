/* What a loop calls. Always on the loop thread, except the work of loop_offload. */
#ifndef LOOP_CALLBACK_H
#define LOOP_CALLBACK_H

#include <stdint.h>

typedef void (*loop_fn)(void *arg);
typedef void (*loop_fd_fn)(void *arg, int fd, uint32_t epoll_events);

#endif
