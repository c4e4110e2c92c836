#include "libworker/comm/rights.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Alignment leaves space for one more than requested: the kernel fills it. */
union rights_space {
    char bytes[CMSG_SPACE(RIGHTS_MAX * sizeof(int))];
    struct cmsghdr align;
};

ssize_t rights_send(int socket, const void *data, size_t bytes, const int *fds, int count)
{
    union rights_space space = {.bytes = ""};
    size_t fds_bytes = (size_t)count * sizeof(*fds);
    struct iovec part = {(void *)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space.bytes};
    message.msg_controllen = CMSG_SPACE(fds_bytes);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds_bytes);
    memcpy(CMSG_DATA(header), fds, fds_bytes);
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t rights_recv(int socket, void *data, size_t bytes, int *ret_fds, int most)
{
    union rights_space space;
    struct iovec part = {data, bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = space.bytes,
                             .msg_controllen = sizeof(space.bytes)};
    int count = 0;
    for (int i = 0; i < most; i++)
        ret_fds[i] = -1;
    ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return got;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return got;
    for (size_t at = 0; at < header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + at, sizeof(fd));
        if (count < most)
            ret_fds[count++] = fd;
        else
            close(fd);
    }
    return got;
}
