#include "cli/report_socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/base/str.h"

enum { ANSWER_MAX_BYTES = 64 << 10, AGAIN_MS = 100 };

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A socket, or -1. */
static int connect_once(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool await(int fd, short events, int64_t until_ms)
{
    struct pollfd file = {.fd = fd, .events = events};
    int64_t left_ms = until_ms - now_ms();
    return poll(&file, 1, left_ms > 0 ? (int)left_ms : 0) > 0;
}

static bool send_all(int fd, const char *bytes, size_t size, int64_t until_ms)
{
    while (size > 0 && await(fd, POLLOUT, until_ms)) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        bytes += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    return size == 0;
}

/* The error in an answer, or 0. */
static int read_error(const struct tree *answer, struct error *err)
{
    const char *code = "", *message = "", *hint = "";
    const struct tree *map = tree_get(answer, "error");
    if (!map)
        return 0;
    if (tree_read_string(tree_get(map, "code"), &code, NULL) ||
        tree_read_string(tree_get(map, "message"), &message, NULL))
        message = "the agent's error has no sentence";
    error_set(err, error_from_name(code), "%s", message);
    if (tree_get(map, "hint") && !tree_read_string(tree_get(map, "hint"), &hint, NULL))
        error_hint(err, "%s", hint);
    return err->code;
}

/* Sets *ret, or an error; an event is skipped. */
static int read_line(const char *line, size_t size, struct arena *arena, struct tree **ret,
                     struct error *err)
{
    struct tree_input input = {.text = line, .size = size};
    struct tree *map;
    int rc = tree_parse_json(&input, arena, &map, err);
    if (rc || !tree_get(map, "id"))
        return rc;
    *ret = map;
    return read_error(map, err);
}

static int read_answer(int fd, int64_t until_ms, struct arena *arena, struct tree **ret,
                       struct error *err)
{
    char *bytes = arena_alloc(arena, ANSWER_MAX_BYTES);
    size_t size = 0;
    *ret = NULL;
    int rc = bytes ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "no memory for an answer");
    while (!rc && !*ret && size < ANSWER_MAX_BYTES && await(fd, POLLIN, until_ms)) {
        ssize_t got = recv(fd, bytes + size, ANSWER_MAX_BYTES - size, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return error_set(err, E_UNAVAILABLE, "the agent has hung up");
        size += got > 0 ? (size_t)got : 0;
        for (char *end; !rc && !*ret && (end = memchr(bytes, '\n', size));) {
            size_t length = (size_t)(end - bytes);
            rc = read_line(bytes, length, arena, ret, err);
            size -= length + 1;
            memmove(bytes, end + 1, size);
        }
    }
    if (!rc && !*ret)
        rc = error_set(err, E_DEADLINE_EXCEEDED, "the agent does not answer");
    return rc;
}

int report_ask(const char *path, const char *line, int64_t timeout_ms, struct arena *arena,
               struct tree **ret, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int64_t until_ms = now_ms() + timeout_ms;
    int fd;
    if (str_copy(address.sun_path, sizeof(address.sun_path), path))
        return error_set(err, E_INVALID_ARGUMENT, "MUSTER_REPORT_SOCKET is too long: %s", path);
    while ((fd = connect_once(&address)) < 0 && now_ms() < until_ms)
        (void)poll(NULL, 0, AGAIN_MS);
    if (fd < 0)
        return error_set(err, E_UNAVAILABLE, "no agent answers at %s", path);
    int rc = 0;
    if (!send_all(fd, line, strlen(line), until_ms) || !send_all(fd, "\n", 1, until_ms))
        rc = error_set(err, E_UNAVAILABLE, "the agent does not read at %s", path);
    if (!rc)
        rc = read_answer(fd, until_ms, arena, ret, err);
    close(fd);
    return rc;
}
