/* See rest_client.h. */
#include "tests/unit/coordinator_api/rest_client.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/env/disk_os.h"

struct rest rest;
static pid_t daemon_pid;

static bool read_line(const char *name, char *ret, size_t size)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", rest.dir, name);
    FILE *file = fopen(path, "re");
    bool good = file && fgets(ret, (int)size, file);
    if (file)
        fclose(file);
    ret[good ? strcspn(ret, "\n") : 0] = 0;
    return good;
}

void rest_start(void)
{
    char url[128] = "", path[128];
    snprintf(path, sizeof(path), "%s/http.url", rest.dir);
    unlink(path);
    daemon_pid = fork();
    if (daemon_pid == 0) {
        snprintf(path, sizeof(path), "%s/log", rest.dir);
        int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(log, STDERR_FILENO);
        execl(COORDINATOR_DAEMON, "coordinator", "--data", rest.dir, "--rpc", "tcp://127.0.0.1:0",
              "--http", "127.0.0.1:0", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 30000 && !read_line("http.url", url, sizeof(url)); i++)
        usleep(10000);
    cr_assert(strrchr(url, ':'), "the coordinator did not start");
    rest.port = atoi(strrchr(url, ':') + 1);
    cr_assert(read_line("admin.token", rest.token, sizeof(rest.token)));
    cr_assert(read_line("agent.token", rest.agent_token, sizeof(rest.agent_token)));
}

void rest_stop(int signal)
{
    int status;
    kill(daemon_pid, signal);
    waitpid(daemon_pid, &status, 0);
    if (signal == SIGTERM)
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "SIGTERM did not end it cleanly");
}

void rest_init(void)
{
    snprintf(rest.dir, sizeof(rest.dir), "/tmp/muster-rest-XXXXXX");
    cr_assert(mkdtemp(rest.dir));
    rest_start();
}

void rest_fini(void)
{
    rest_stop(SIGTERM);
    struct disk disk = disk_os();
    cr_assert_eq(disk.remove_tree(disk.self, rest.dir, NULL), 0);
}

int rest_dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)rest.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 300};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

void rest_send(int fd, const void *data, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t now = send(fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL);
        if (now <= 0)
            return; /* they hung up: what they said before is what counts */
        sent += (size_t)now;
    }
}

/* Until the peer closes, `until` has come, or patience ends. */
void rest_receive(int fd, const char *until)
{
    size_t size = 0;
    rest.answer[0] = 0;
    while (size < sizeof(rest.answer) - 1 && !(until && strstr(rest.answer, until))) {
        ssize_t got = recv(fd, rest.answer + size, sizeof(rest.answer) - 1 - size, 0);
        if (got <= 0)
            break;
        size += (size_t)got;
        rest.answer[size] = 0;
    }
}

int rest_status(void)
{
    int status = 0;
    return sscanf(rest.answer, "HTTP/1.1 %d", &status) == 1 ? status : -1;
}

int rest_request(struct http how)
{
    static char text[4 << 20];
    const char *with = how.token ? how.token : rest.token;
    int size = snprintf(text, sizeof(text),
                        "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s%s%s%s"
                        "Content-Length: %zu\r\n\r\n%s",
                        how.method, how.path, *with ? "Authorization: Bearer " : "", with,
                        *with ? "\r\n" : "", how.headers ? how.headers : "",
                        how.body ? strlen(how.body) : 0, how.body ? how.body : "");
    int fd = rest_dial();
    rest_send(fd, text, (size_t)size);
    rest_receive(fd, NULL);
    close(fd);
    return rest_status();
}

void rest_job_id(char ret[32])
{
    const char *at = strstr(rest.answer, "{\"id\":\"");
    cr_assert(at, "%s", rest.answer);
    cr_assert_eq(sscanf(at, "{\"id\":\"%31[^\"]", ret), 1);
}

void rest_log_in(const char *token, char ret_headers[512])
{
    char body[256], cookie[128], half[128];
    snprintf(body, sizeof(body), "{\"token\":\"%s\"}", token);
    struct http how = {"POST", "/v1/login", body,
                       "X-Muster-Request: 1\r\nContent-Type: application/json\r\n", ""};
    cr_assert_eq(rest_request(how), 200, "%s", rest.answer);
    const char *set = strstr(rest.answer, "Set-Cookie: muster_session=");
    const char *told = strstr(rest.answer, "{\"session\":\"");
    cr_assert(set && sscanf(set, "Set-Cookie: muster_session=%127[^;]", cookie) == 1);
    cr_assert(told && sscanf(told, "{\"session\":\"%127[^\"]", half) == 1, "%s", rest.answer);
    snprintf(ret_headers, 512, "Cookie: theme=dark; muster_session=%s\r\nX-Muster-Session: %s\r\n",
             cookie, half);
}
