/* Descriptors beside bytes: what arrives, and what is not wanted is closed. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/rights.h"
#include "tests/lib/open_files.h"

/* As somebody would who does not keep to RIGHTS_MAX. */
static void send_many(int socket, int fd, size_t count)
{
    _Alignas(struct cmsghdr) char space[256] = "";
    char byte = 7;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space};
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (size_t i = 0; i < count; i++)
        memcpy(CMSG_DATA(header) + i * sizeof(fd), &fd, sizeof(fd));
    cr_assert_eq(sendmsg(socket, &message, 0), 1);
}

Test(rights, what_is_sent_arrives_and_closes_on_exec)
{
    int ends[2], got[RIGHTS_MAX], fds[2] = {0, 1};
    char bytes[4];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    cr_assert_eq(rights_recv(ends[1], bytes, 4, got, RIGHTS_MAX), -1);
    cr_assert(got[0] == -1 && got[1] == -1 && got[2] == -1);
    cr_assert_eq(rights_send(ends[0], "abc", 4, fds, 2), 4);
    cr_assert_eq(rights_recv(ends[1], bytes, 4, got, RIGHTS_MAX), 4);
    cr_assert_str_eq(bytes, "abc");
    cr_assert(got[0] > 2 && got[1] > 2 && got[2] == -1);
    cr_assert(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
    cr_assert_eq(send(ends[0], "d", 1, 0), 1);
    cr_assert_eq(rights_recv(ends[1], bytes, 4, got, RIGHTS_MAX), 1);
    cr_assert_eq(got[0], -1);
    close(ends[0]);
    cr_assert_eq(rights_recv(ends[1], bytes, 4, got, RIGHTS_MAX), 0);
}

Test(rights, more_than_is_wanted_is_closed)
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (int most = 1; most <= RIGHTS_MAX; most++) {
        for (size_t count = 1; count <= 6; count++) {
            int got[RIGHTS_MAX + 1] = {99, 99, 99, 99}, before = open_files(), taken = 0;
            char byte = 0;
            send_many(ends[0], 1, count);
            cr_assert_eq(rights_recv(ends[1], &byte, 1, got, most), 1);
            cr_assert_eq(byte, 7);
            for (int i = 0; i < most && got[i] >= 0; i++, taken++)
                close(got[i]);
            cr_assert_eq(taken, (int)count < most ? (int)count : most);
            cr_assert_eq(got[most], 99, "%zu descriptors went beyond %d", count, most);
            cr_assert_eq(open_files(), before, "%zu descriptors for %d leak", count, most);
        }
    }
}
