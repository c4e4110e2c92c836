/* A port that something holds and never speaks on, as torchrun's own store does. Criterion tests
 * only.
 */
#ifndef LIB_HELD_PORT_H
#define LIB_HELD_PORT_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <sys/socket.h>

#include "tests/lib/loopback.h"

/* Listen at loopback_own(). Returns the port; *ret_fd is the caller's to close. */
static inline int held_port(int *ret_fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof(address);
    cr_assert_eq(inet_pton(AF_INET, loopback_own(), &address.sin_addr), 1);
    *ret_fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(*ret_fd, (struct sockaddr *)&address, bytes), 0);
    cr_assert_eq(listen(*ret_fd, 16), 0);
    cr_assert_eq(getsockname(*ret_fd, (struct sockaddr *)&address, &bytes), 0);
    return ntohs(address.sin_port);
}

#endif
